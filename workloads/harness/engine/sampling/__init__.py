"""Samples: how long to warm up, what a sample is, when there are enough."""
