"""The settings of a run: YAML, checked."""
