"""Send repeats to the lanes of their hardware, and store their records."""
