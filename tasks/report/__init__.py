"""The files of a run for its readers: tables, pictures and one HTML report."""
