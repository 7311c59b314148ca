"""The shared part of all workers: the life of a job that outlives its worker."""
