"""Advise whether to keep a machine or return it."""
