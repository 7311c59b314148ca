"""How a user's code, its packages and its data get to the machine that measures them."""
