"""Devices as a judge sees them: rooflines, cores, driver facts, locks and neighbours."""
