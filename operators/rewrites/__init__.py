"""Libraries of source rewrites, one for each language."""
