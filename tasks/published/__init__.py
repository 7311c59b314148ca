"""Review of a published table of times: what in it can't be true."""
