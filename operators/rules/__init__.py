"""Operators that need no model."""
