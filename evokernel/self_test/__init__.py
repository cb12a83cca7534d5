"""Attacks on the evaluator, made for any task: kernels that cheat, and the harmless ones that must pass beside them."""
