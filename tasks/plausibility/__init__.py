"""Find numbers that can't be true, before they enter any ratio."""
