"""Limits of a device: host, roof, heat and power."""
