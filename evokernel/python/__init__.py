"""Python API: a search in one call, and a run as an object."""
