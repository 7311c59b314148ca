"""The container image that jobs run in: its recipe, its flavours, and how it is built and pushed."""
