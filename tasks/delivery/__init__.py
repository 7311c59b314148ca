"""Orders to lane jobs, and records back, through the Prefect API."""
