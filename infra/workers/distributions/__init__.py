"""The workers that anyone can install, built by `python -m infra.workers.distributions`."""
