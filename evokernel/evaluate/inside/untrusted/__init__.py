"""Processes that run a candidate's host code: builds and workers. Their answers are not believed."""
