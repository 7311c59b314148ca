"""Write a run's files: tables, pictures and one HTML report."""
