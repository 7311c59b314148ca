"""Write a run's files for its readers: tables, pictures and one HTML report."""
