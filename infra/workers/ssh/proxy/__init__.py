"""The near end of a box's tunnel: of the Prefect API, what one flow run needs, and nothing else."""
