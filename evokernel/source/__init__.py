"""Marks in a kernel's text: tunables, regions, integer expressions."""
