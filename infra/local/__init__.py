"""A Prefect server and its workers on this machine, for as long as somebody needs them."""
