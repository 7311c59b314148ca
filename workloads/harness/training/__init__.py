"""Training steps, their data and their float64 references."""
