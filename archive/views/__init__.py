"""Readings of an open store: tables, curves and signs of life, each by few queries."""
