"""Gridbench's cluster on Google Kubernetes Engine: made, completed, inspected, and deleted."""
