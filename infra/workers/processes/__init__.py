"""Jobs as process trees, for users without containers."""
