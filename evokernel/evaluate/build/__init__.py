"""Sandboxed compilation: the pool of compiler processes and the cache of compiled kernels."""
