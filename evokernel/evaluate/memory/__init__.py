"""Buffers that the judge owns and lends: on the host, on a GPU."""
