"""Agents: commands that answer as models do, each call in a workspace and a sandbox of its own."""
