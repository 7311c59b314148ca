"""The preparation of a cloud for runs: its image, work pool and deployments on a Prefect API, and workers
here.
"""
