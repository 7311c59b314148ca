"""Decide a run's cells, machines and estimated cost."""
