"""The judge's side of an NVIDIA GPU: shared device memory, what the device can do, and who else is using it."""
