"""Artifact mode: trusted code launches what was recorded of a candidate; none of its host code runs."""
