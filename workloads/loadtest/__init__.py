"""The load test: a suite with options, an output file and a log of its own."""
