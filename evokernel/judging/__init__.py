"""Verdicts outside a search: a warm judge for Python, and the same over HTTP."""
