"""The command `gridbench`."""
