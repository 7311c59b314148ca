"""Flow runs as jobs of Slurm, submitted and followed on a login node behind SSH."""
