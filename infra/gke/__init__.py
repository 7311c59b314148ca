"""Gridbench's cluster on Google Kubernetes Engine: made, completed, looked at, and taken down to nothing."""
