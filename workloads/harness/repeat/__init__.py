"""Start each repeat in a fresh process, within the limits of its box."""
