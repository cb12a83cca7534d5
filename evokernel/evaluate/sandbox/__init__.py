"""Confinement of untrusted processes: levels, system call filters, fork servers."""
