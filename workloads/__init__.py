"""What is measured: one file a workload. Importing it imports neither torch nor numpy nor psutil."""
