"""Prompts as files: answered by people, agents or other machines."""
