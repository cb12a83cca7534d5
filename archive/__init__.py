"""The store of a run, its schema and lineage, and the niches that keep diversity."""
