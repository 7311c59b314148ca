"""Commands that watch for regressions."""
