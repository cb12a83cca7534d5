"""The judge's bench: workloads, their buffers, baselines, and paired clocks."""
