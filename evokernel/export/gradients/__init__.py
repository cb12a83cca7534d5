"""Exports of two kernels as one operator with gradients."""
