"""Scaffold of `evokernel init`: task, plain correct kernel and config from a PyTorch operation."""
