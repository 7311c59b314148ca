"""What the flows do, a verb a file."""
