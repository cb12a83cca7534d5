"""Constraints: refused before a compiler runs, or for what the compiler used; and told to authors."""

from typing import Any

import pytest

from evokernel.config.load import parse_config
from evokernel.config.run import ConstraintsConfig
from evokernel.errors import ConfigError
from evokernel.languages.constrained import constrained, in_words
from evokernel.records.build import BuildFailure, Built
from evokernel.task import Task
from tests.support.engine import TASK
from tests.support.fakes import TOY, ToyLanguage


class Hungry(ToyLanguage):
    """A language whose kernels all use 48 KiB of shared memory and 96 registers."""

    def build(self, source: str, task: Task, *, hidden: object = ()) -> Built:
        return Built(b"", "hash", {"shared_kib": 48.0, "registers": 96.0}, {})


def test_without_constraints_it_is_the_language_itself() -> None:
    language = Hungry()
    assert constrained(language, ConstraintsConfig()) is language


def test_a_forbidden_pattern_is_named_with_its_line() -> None:
    language = constrained(Hungry(), ConstraintsConfig(forbid=(r"use_fast_math", r"atomic\w*")))
    assert language.static_check(TOY) is None
    complaint = language.static_check(TOY + "\nvoid f() { atomicAdd(p, 1); }\n")
    assert complaint is not None
    assert "'atomicAdd' is not allowed" in complaint
    assert complaint.startswith(f"line {len(TOY.splitlines()) + 2}:")


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"shared_bytes": 32768}, "49152 bytes of shared memory; at most 32768"), ({"registers": 64}, "96 registers")],
)
def test_what_uses_too_much_is_not_run(limits: dict[str, Any], words: str) -> None:
    built = constrained(Hungry(), ConstraintsConfig(**limits)).build(TOY, TASK)
    assert isinstance(built, BuildFailure)
    assert words in built.message
    enough = constrained(Hungry(), ConstraintsConfig(shared_bytes=49152, registers=96)).build(TOY, TASK)
    assert isinstance(enough, Built)


def test_each_constraint_is_a_sentence_for_authors() -> None:
    assert len(in_words(ConstraintsConfig(forbid=("a", "b"), shared_bytes=1024, registers=64))) == 4
    (words,) = in_words(ConstraintsConfig(deterministic=True))
    assert "equal bits" in words


def test_a_pattern_that_is_none_is_a_clear_error() -> None:
    raw = {
        "task": "toy",
        "budget": {"evaluations": 1},
        "islands": [{"name": "one", "operators": {"tune": 1}}],
        "constraints": {"forbid": ["(unclosed"]},
    }
    with pytest.raises(ConfigError, match="is not a regular expression"):
        parse_config(raw, "x.yaml")


def test_a_verdict_serves_only_under_the_same_constraints() -> None:
    language = constrained(Hungry(), ConstraintsConfig(forbid=("fast_math",)))
    assert language.program_hash(TOY) == Hungry().program_hash(TOY)
    assert language.environment != Hungry().environment
