"""The preparation of a cloud for runs: image, work pool, deployments, and workers here."""
