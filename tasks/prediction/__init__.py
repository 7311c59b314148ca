"""Predict time and cost of a step on unmeasured machines."""
