"""Keep a machine, or return it: each against others of its kind, else against published rates."""
