"""A user's own script: its whole job, its bottleneck, and whether the training was the same everywhere."""
