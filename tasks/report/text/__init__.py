"""The comparison as plain text, for terminals, mail and logs."""
