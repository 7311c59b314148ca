"""Which verdicts are of a measurement that was made, however well."""

MEASURED = {"ok", "unsteady", "imprecise", "noisy", "throttled", "shared"}
