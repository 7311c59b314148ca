"""Jobs as process trees, for machines where users cannot start containers."""
