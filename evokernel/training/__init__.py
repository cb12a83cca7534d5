"""Training data from runs: prompts, replies and verdicts as rows to learn from."""
