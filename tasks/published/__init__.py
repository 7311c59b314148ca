"""Impossible numbers in a published table of times."""
