"""The workers as installable packages, built by `python -m infra.workers.distributions`."""
