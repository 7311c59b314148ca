"""Measured ceilings of a machine, and what bounds each case below them."""
