"""What holds a device back: its host, or its own heat and power."""
