"""A user's own script: its whole job, its bottleneck, and its training."""
