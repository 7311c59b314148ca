"""Lambda's cloud: boxes rented within a price and a deadline, and always given back."""
