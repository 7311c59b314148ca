"""Flow runs as Slurm jobs, followed on a login node."""
