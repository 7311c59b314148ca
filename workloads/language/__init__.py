"""Workloads of language models: what a token costs, read and learnt."""
