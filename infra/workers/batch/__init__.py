"""Run flows as AWS Batch jobs."""
