"""The command line `python -m workloads`."""
