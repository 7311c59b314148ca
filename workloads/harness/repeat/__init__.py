"""Start each repeat in a process of its own, within the limits of its box."""
