"""Hosts of a Ray cluster: Ray places them and carries requests and verdicts; each judges as one machine does."""
