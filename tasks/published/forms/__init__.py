"""Forms of tables in files that people publish, each read into lines of cells."""
