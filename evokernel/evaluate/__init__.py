"""The evaluator: proves candidates right and measures them. Untrusted code never shares a process with the clock."""

EVALUATOR_VERSION = "18"
"""Part of the key of every evaluation; raised whenever a verdict or a number may come out differently."""
