"""Start or reach a Prefect API, start a run and follow it to its end."""
