"""What models were asked in a run, what they said and what became of it, as rows to learn from."""
