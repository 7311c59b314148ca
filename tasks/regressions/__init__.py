"""Find what got slower: between nights, between two runs, between versions."""
