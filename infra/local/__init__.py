"""A Prefect server and its workers on this machine, while they are needed."""
