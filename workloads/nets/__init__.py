"""Models that several workloads share."""
