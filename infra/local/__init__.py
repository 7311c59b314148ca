"""A Prefect server and a process worker on this machine, started and stopped together with whoever needs them."""
