"""The comparison as plain text."""
