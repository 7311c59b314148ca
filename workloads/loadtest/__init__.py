"""The load test: a suite with its own options, results file and log."""
