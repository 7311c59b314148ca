"""Keep a machine or return it, compared with its kind, else with published rates."""
