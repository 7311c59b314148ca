"""What all workers share: the life of a job that outlives its worker."""
