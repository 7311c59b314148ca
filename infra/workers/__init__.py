"""Prefect workers that any flow can use. They import Prefect and its SDKs, and nothing of ours."""
