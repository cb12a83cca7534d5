"""Models: the one importer of litellm, limits, budgets, recorded replies."""
