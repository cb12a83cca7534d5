"""Instruments on recorded calls: the profiler names a kernel's bottleneck, the sanitizer its wrong accesses."""
