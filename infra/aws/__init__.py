"""Gridbench's stack on AWS Batch."""
