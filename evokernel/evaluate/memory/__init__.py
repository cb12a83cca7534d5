"""Buffers that the judge owns and other processes map: on the host, on a GPU."""
