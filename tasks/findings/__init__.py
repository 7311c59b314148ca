"""State the results of a comparison of a run's machines: pure functions on results."""
