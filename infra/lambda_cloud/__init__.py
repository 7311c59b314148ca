"""Lambda's cloud: boxes rented over its API within a price and a deadline, and always given back."""
