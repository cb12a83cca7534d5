"""Processes that run a candidate's host code: builds and workers. Nothing they say is believed."""
