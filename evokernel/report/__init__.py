"""What can be said of a run, read from its store and from nothing else."""
