"""The judge process: checks, timing, and the session of one candidate."""
