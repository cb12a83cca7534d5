"""Artifact mode: trusted code launches recorded kernels of a candidate, and none of its host code runs."""
