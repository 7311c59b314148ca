"""Values with intervals, repeats, summaries and speedups for findings."""
