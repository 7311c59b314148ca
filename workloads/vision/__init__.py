"""Workloads of networks for pictures, at published shapes."""
