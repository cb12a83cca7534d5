"""Checks of this machine: what a search needs, what is missing."""
