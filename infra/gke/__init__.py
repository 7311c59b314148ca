"""Gridbench's cluster on Google Kubernetes Engine."""
