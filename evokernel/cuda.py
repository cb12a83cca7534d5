"""CUDA C++ in a string, launched from Python: what kernels in the language `cuda` are written with."""

from evokernel.evaluate.inside.driver.cuda_module import Module

__all__ = ["Module"]
