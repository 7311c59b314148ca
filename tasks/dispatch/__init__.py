"""Send repeats to the lanes of their hardware and store each record as it comes."""
