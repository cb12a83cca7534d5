"""Triton and CUDA C++ for NVIDIA GPUs: build, checks, guides."""
