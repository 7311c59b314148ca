"""Values with intervals, repeats, summaries and speedups: what findings are made of."""
