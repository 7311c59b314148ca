"""Pure functions on records: no Prefect, no files, no clock."""
