"""The shared part of all workers."""
