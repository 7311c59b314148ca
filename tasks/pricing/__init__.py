"""Prices as dated facts: read, checked and refreshed."""
