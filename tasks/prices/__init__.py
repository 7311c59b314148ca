"""Prices: a dated snapshot of facts, what a machine costs by them, and their renewal."""
