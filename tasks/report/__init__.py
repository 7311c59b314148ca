"""The files that a run leaves for people: tables, pictures and one HTML report."""
