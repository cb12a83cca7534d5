"""Tests for plug-ins: a contract for each kind, and models and records of calls without network or store.

A contract is a class of tests for pytest, `ArchiveContract`, `EvaluatorContract`, `LanguageContract`,
`LanguageModelContract` or `OperatorContract`: inherit from it, and override the fixtures that raise. The program
imports nothing of this package; `pip install evokernel-search[testing]` brings what it needs.
"""

import pytest

CONTRACTS = ("archive", "evaluator", "language", "model", "operator")
"""Modules, each with the contract of its name."""

pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in CONTRACTS))
