"""The engine: one search from its config to its final measurements."""
