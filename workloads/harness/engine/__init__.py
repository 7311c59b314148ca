"""One repeat of a case, from an empty process to a record."""
