"""A user's own script: its whole job, what holds it back, and whether it was the same training everywhere."""
