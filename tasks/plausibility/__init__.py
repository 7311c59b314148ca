"""Find implausible numbers before any ratio."""
