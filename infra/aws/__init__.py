"""Gridbench's stack on AWS Batch: made by a change set, inspected, and deleted without a trace."""
