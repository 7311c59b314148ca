"""Send repeats to lanes, and store their records."""
