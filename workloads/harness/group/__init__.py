"""Several processes that measure one case together."""
