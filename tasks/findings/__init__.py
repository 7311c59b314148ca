"""State the results of a comparison: pure functions on results."""
