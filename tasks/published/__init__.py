"""Read a published table of times and find what in it can't be so."""
