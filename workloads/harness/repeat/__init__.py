"""Start each repeat in a separate process, within the limits of its box."""
