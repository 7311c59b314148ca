"""Decide what a run measures, where and at what estimated cost, before anything starts."""
