"""Values, repeats, summaries and speedups for findings."""
