"""The container image of jobs."""
