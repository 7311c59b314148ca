"""Flow runs in containers or process trees on boxes behind SSH."""
