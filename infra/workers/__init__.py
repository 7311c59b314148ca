"""Prefect workers for any flow. They import only Prefect and its SDKs."""
