"""Predict time and cost of a step on machines that have not measured it."""
