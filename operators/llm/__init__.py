"""Operators that ask a model: templates, prompts, replies."""
