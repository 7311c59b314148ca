"""Transport through the Prefect API: orders to lane jobs, records back."""
