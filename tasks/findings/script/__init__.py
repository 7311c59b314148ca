"""A user's script: whole job, bottleneck, training."""
