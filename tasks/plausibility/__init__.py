"""Find implausible numbers before they enter any ratio."""
