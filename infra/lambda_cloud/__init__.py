"""Boxes of Lambda's cloud, rented within a price and a deadline."""
