"""A Prefect server and a process worker on this machine, for as long as somebody needs them."""
