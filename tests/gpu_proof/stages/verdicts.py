"""Verdicts of completed measurements, of any quality."""

MEASURED = {"ok", "unsteady", "imprecise", "noisy", "throttled", "shared"}
