"""Processes in the sandbox: sealing, forking, reaping, and passing files and flags."""
