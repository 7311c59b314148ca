"""A cloud made ready for runs: its image, work pool and deployments on a Prefect API, and workers here."""
