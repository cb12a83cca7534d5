"""Marks in a kernel's text: tunables, regions, integer expressions."""

SIZE_LIMIT_BYTES = 512 * 1024
"""The longest source that a language takes, in bytes."""
