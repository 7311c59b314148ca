"""The results store: one folder a run, in a directory or a bucket."""
