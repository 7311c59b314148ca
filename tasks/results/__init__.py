"""Values with intervals, repeats, summaries and speedups, from which findings are made."""
