"""The Model Context Protocol server of a run."""
