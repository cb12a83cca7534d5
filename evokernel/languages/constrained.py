"""A language in which every kernel must keep to some constraints, beside being right."""

import re
from collections.abc import Mapping, Sequence

from evokernel.config.run import ConstraintsConfig
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure, Built
from evokernel.task import Task


class ConstrainedLanguage:
    """Another language that also checks constraints: of the text before a build, of the numbers after it."""

    def __init__(self, language: Language, constraints: ConstraintsConfig) -> None:
        self._language = language
        self._constraints = constraints
        self.name = language.name
        self.suffix = language.suffix
        self.syntax = language.syntax
        self.hot_loop = getattr(language, "hot_loop", None)
        self.environment = f"{language.environment}; {'; '.join(in_words(constraints))}"

    def warm(self) -> None:
        """Start the language's compilers."""
        self._language.warm()

    def program_hash(self, source: str) -> str:
        """Return the language's own hash."""
        return self._language.program_hash(source)

    def static_check(self, source: str) -> str | None:
        """Return why the source cannot be tried, or None: a pattern that it matches, among others."""
        return self._language.static_check(source) or self._forbidden(source)

    def build(
        self, source: str, task: Task, *, hidden: Sequence[Mapping[str, int | float]] = ()
    ) -> Built | BuildFailure:
        """Compile, and refuse a kernel that uses more than is allowed."""
        built = self._language.build(source, task, hidden=hidden)
        if isinstance(built, BuildFailure):
            return built
        complaint = self._excess(built.descriptor)
        return BuildFailure(complaint) if complaint else built

    def build_checked(self, source: str, task: Task) -> bytes | BuildFailure | None:
        """Compile for sanitizers, as the language does."""
        return self._language.build_checked(source, task)

    def guide(self, task: Task) -> str:
        """Return the language's guide."""
        return self._language.guide(task)

    def _forbidden(self, source: str) -> str | None:
        for pattern in self._constraints.forbid:
            found = re.search(pattern, source)
            if found is not None:
                line = source.count("\n", 0, found.start()) + 1
                return f"line {line}: {found.group(0)[:60]!r} is not allowed here (constraint: nothing like {pattern})"
        return None

    def _excess(self, used: Mapping[str, float]) -> str:
        limits = self._constraints
        shared, registers = 1024 * used.get("shared_kib", 0.0), used.get("registers", 0.0)
        if limits.shared_bytes is not None and shared > limits.shared_bytes:
            return f"constraint: a block uses {shared:.0f} bytes of shared memory; at most {limits.shared_bytes} here"
        if limits.registers is not None and registers > limits.registers:
            return f"constraint: a thread uses {registers:.0f} registers; at most {limits.registers} are allowed here"
        return ""


def in_words(constraints: ConstraintsConfig) -> tuple[str, ...]:
    """Return each constraint as a sentence for authors."""
    words = [f"The source must not match the regular expression {pattern}" for pattern in constraints.forbid]
    if constraints.shared_bytes is not None:
        words.append(f"A block uses at most {constraints.shared_bytes} bytes of shared memory")
    if constraints.registers is not None:
        words.append(f"A thread uses at most {constraints.registers} registers")
    if constraints.deterministic:
        words.append("Equal inputs give equal bits in every run: nothing is added up in an order that may differ")
    return tuple(words)


def constrained(language: Language, constraints: ConstraintsConfig) -> Language:
    """Return the language itself without constraints, else one that checks them."""
    return ConstrainedLanguage(language, constraints) if in_words(constraints) else language
