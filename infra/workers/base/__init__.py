"""The life of a job that outlives its worker: the shared part of all workers."""
