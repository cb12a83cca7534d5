"""Tests for plug-ins: a contract for each kind, and models and records of calls without network or store.

A contract is a class of tests for pytest, `ArchiveContract`, `EvaluatorContract`, `LanguageContract`,
`LanguageModelContract` or `OperatorContract`: inherit from it, and override the fixtures that raise. The program
imports nothing of this package; the extra `testing` brings what it needs.
"""

from evokernel.errors import install

try:
    import pytest
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"evokernel.testing needs pytest, which is not installed: {install('testing')}", name=error.name
    ) from None

CONTRACTS = ("archive", "evaluator", "language", "model", "operator")
"""Modules, each with the contract of its name."""

pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in CONTRACTS))
