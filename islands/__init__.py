"""Populations with settings of their own, and the exchange between them."""
