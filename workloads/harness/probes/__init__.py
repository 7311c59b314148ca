"""What a machine can tell of itself: one file a probe, each with a null object that says why it is silent."""
