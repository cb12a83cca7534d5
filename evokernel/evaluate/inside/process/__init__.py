"""Processes in the sandbox: sealing, forking, reaping, and what they pass on."""
