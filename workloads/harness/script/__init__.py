"""A user's own script, measured as it is: run, watched from hooks of torch, and stopped."""
