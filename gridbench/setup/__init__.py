"""The preparation of a cloud for runs."""
