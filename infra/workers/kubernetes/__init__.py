"""Run flows as Kubernetes jobs."""
