"""evokernel evolves GPU and CPU kernels. Importing it costs nothing: heavy parts load where they are used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evokernel import aliases

if TYPE_CHECKING:
    from evokernel.report.run import Run, open_store

__all__ = ["Run", "__version__", "open_store"]
__version__ = "0.1.0"
_PUBLIC = {"Run": "evokernel.report.run", "open_store": "evokernel.report.run"}


def __getattr__(name: str) -> Any:
    """Import a part of the public API when it is first used."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


aliases.install()
