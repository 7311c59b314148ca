"""Files for programs: JSON, CSV and JUnit XML."""
