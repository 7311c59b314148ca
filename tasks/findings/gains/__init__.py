"""What a machine gains from another precision or mode."""
