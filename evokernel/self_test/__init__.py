"""Attacks on the evaluator for any task: kernels that cheat, and harmless kernels that must pass."""
