"""Exports: a kernel as files that work without evokernel."""
