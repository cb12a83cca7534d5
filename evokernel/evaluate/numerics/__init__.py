"""Inputs, references, tolerances, comparison and statistics."""
