"""Decide what a run measures, on which machines and at what estimated cost."""
