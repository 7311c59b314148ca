"""Checks of a machine before it measures."""
