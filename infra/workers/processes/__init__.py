"""Lanes as processes of a machine's own, where nobody may start containers."""
