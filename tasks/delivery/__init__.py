"""Transport between `bench` and its lane jobs through the Prefect API: orders there, records back."""
