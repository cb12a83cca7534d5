"""Calls of an operation in a running program, and the operations that take its time."""
