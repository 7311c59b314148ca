"""What a comparison of a run's machines shows: pure functions on results."""
