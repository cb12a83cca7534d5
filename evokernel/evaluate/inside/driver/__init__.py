"""Bindings of the CUDA driver and NVRTC by ctypes; standard library only."""
