"""Review a published table of times for impossible numbers."""
