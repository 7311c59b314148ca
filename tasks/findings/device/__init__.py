"""The limits of a device: its host, its roof, its heat and its power."""
