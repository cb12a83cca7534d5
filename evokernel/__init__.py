"""evokernel evolves GPU and CPU kernels. Importing it costs nothing: heavy parts load where they are used."""

from importlib import import_module

from evokernel import aliases

TYPE_CHECKING = False  # as typing has it, whose import takes longer than all of this

if TYPE_CHECKING:
    from evokernel.judging.judge import Judge
    from evokernel.judging.replies import source_of_reply
    from evokernel.python.evolve import evolve
    from evokernel.python.run import Run, open_store
    from evokernel.records.evaluation import Evaluation
    from evokernel.scaffold.capture.captured_calls import CapturedCalls, capture

__all__ = [
    "CapturedCalls",
    "Evaluation",
    "Judge",
    "Run",
    "__version__",
    "capture",
    "evolve",
    "open_store",
    "source_of_reply",
]
__version__ = "0.1.0"
_PUBLIC = {
    "CapturedCalls": "evokernel.scaffold.capture.captured_calls",
    "Evaluation": "evokernel.records.evaluation",
    "Judge": "evokernel.judging.judge",
    "Run": "evokernel.python.run",
    "capture": "evokernel.scaffold.capture.captured_calls",
    "evolve": "evokernel.python.evolve",
    "open_store": "evokernel.python.run",
    "source_of_reply": "evokernel.judging.replies",
}


def __getattr__(name: str) -> object:
    """Import a part of the public API when it is first used."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


aliases.install()
