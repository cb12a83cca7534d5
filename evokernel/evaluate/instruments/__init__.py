"""What a profiler and a sanitizer say of a recorded call: the one bottleneck of a kernel, and what it does wrong."""
