"""Gridbench's stack on AWS Batch: made by a change set, looked at, and taken down to nothing."""
