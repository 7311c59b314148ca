"""Run flows in containers on boxes behind SSH."""
