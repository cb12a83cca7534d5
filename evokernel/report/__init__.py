"""Reports on a run, read from its store and from nothing else."""
