"""Workloads, one file each, and their harness. Importing it imports neither torch nor numpy nor psutil."""
