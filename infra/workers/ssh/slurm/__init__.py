"""Flow runs as Slurm jobs, submitted and followed on a login node behind SSH."""
