"""Workloads of one operation each: what larger ones are made of."""
