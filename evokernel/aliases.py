"""Old import paths that plug-ins and task files name: one table, no stub modules."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = {
    "evokernel.candidate": ("evokernel.records.candidate", "evokernel.source"),
    "evokernel.conversation": ("evokernel.records.llm",),
    "evokernel.evaluation": ("evokernel.records.evaluation", "evokernel.records.timing"),
    "evokernel.expressions": ("evokernel.source.expressions",),
    "evokernel.fitness": ("evokernel.records.fitness",),
    "evokernel.protocols": (
        "evokernel.records.build",
        "evokernel.records.evaluation",
        "evokernel.records.timing",
        "evokernel.records.events",
        "evokernel.records.run",
        "evokernel.protocols",
    ),
    "evokernel.regions": ("evokernel.source.regions",),
    "evokernel.report.run": ("evokernel.python.run",),
    "evokernel.scaffold.source": ("evokernel.scaffold.operation.user_file",),
    "evokernel.scaffold.user_file": ("evokernel.scaffold.operation.user_file",),
    "evokernel.steps": ("evokernel.records.step",),
    "evokernel.tunables": ("evokernel.source.tunables",),
    "islands.operator_choice": ("islands.operator_choosers",),
    "islands.selection": ("islands.elite_selectors",),
    "operators.moves": ("operators.rewrites.library",),
    "operators.replies": ("operators.llm.replies",),
}
"""By old module, the modules that hold its names now."""

NAMES = {
    "Budget": "Fidelity",
    "Call": "ModelCall",
    "CallResult": "ModelCallResult",
    "Judged": "ResultCommitted",
    "Library": "RewriteLibrary",
    "Matchmaker": "Crossover",
    "Move": "RewriteMove",
    "Note": "Notice",
    "Noted": "InsightReply",
    "Outcome": "StepResult",
    "Proposed": "ProposalCommitted",
    "Thinker": "ModelOperator",
    "Unusable": "UnusableReply",
    "Want": "ContextNeed",
}
"""By old name, the new one."""


def resolve(module: str, name: str) -> object:
    """Return the object that an old module had under a name. Raises `AttributeError` if it had no such name."""
    for home in MODULES.get(module, ()):
        found = vars(import_module(home))
        if (new := NAMES.get(name, name)) in found:
            return found[new]
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class AliasFinder:
    """Finds and loads modules under their old paths; their names come from the table. Last among the finders.

    It has no base of `importlib.abc`: this module and the package import next to nothing, since an interrupt while they
    do is a traceback.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that moved; None for any other."""
        return ModuleSpec(fullname, self) if fullname in MODULES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave the making of the module to the import system."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Look names up when they are first used."""
        vars(module)["__getattr__"] = lambda name: resolve(module.__name__, name)


def install() -> None:
    """Make old paths importable."""
    sys.meta_path.append(AliasFinder())
