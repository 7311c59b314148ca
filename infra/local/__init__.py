"""A Prefect server and its workers on this machine."""
