"""Charts of the report, in the page and as PNG files."""
