"""Settings of glibc's heap: what it does with memory that a process frees."""

import ctypes

NO_SMALL_CACHE = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""For a process that runs baselines on a processor, and for one that forks it: the cache of small pieces is off.

It would hold the remainders beside an aligned tensor. Then freed tensors could not be joined with their neighbours, and
would be too small for the next one.
"""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # of mallopt
_NEVER = -1


def keep_all() -> None:
    """Give nothing back to the system, for a process that runs baselines.

    Otherwise a process's allocation history decides whether the temporaries of a call come from the system again, page
    by page: that made the same baseline 4 times as slow.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER)


def keep_much() -> None:
    """Give back pieces above 32 MiB, and others beyond 256 MiB: without the cache of small pieces each end is trimmed.

    For one verdict on softmax's seed a judge had 920,000 page faults that way. With these settings it has 165,000, and
    with glibc's own, the cache included, 400,000.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, 32 << 20)
    libc.mallopt(_TRIM_THRESHOLD, 256 << 20)
