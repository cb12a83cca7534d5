"""Loading of an export into this process, as the operator of PyTorch in its op.py."""

import hashlib
import json
import sys
from collections.abc import Callable
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

from evokernel.export.export_kernel import NotExported

_OPERATOR = "op"


def read_exported(folder: Path) -> str:
    """Return the id of the candidate in the folder of an export; empty where there is none, or no operator."""
    if not (folder / f"{_OPERATOR}.py").exists():
        return ""
    try:
        return str(json.loads((folder / "provenance.json").read_text(encoding="utf-8"))["candidate"])
    except (OSError, ValueError, KeyError):
        return ""


def load_operator(folder: Path) -> Callable[..., Any]:
    """Return the operator of an export.

    Its modules get names of their own, so that several exports live in one process. Raises `NotExported` if the export
    has no operator.
    """
    if not (folder / f"{_OPERATOR}.py").exists():
        raise NotExported(f"{folder} has no op.py; `evokernel export` says why")
    names = [path.stem for path in folder.glob("*.py")]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    prefix = f"_evokernel_export_{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]}"
    sys.path.insert(0, str(folder.resolve()))
    invalidate_caches()  # the files may be younger than the last look into the folder
    try:
        operator = import_module(_OPERATOR)
    finally:
        sys.path.remove(str(folder.resolve()))
        for name in names:
            if (module := sys.modules.pop(name, None)) is not None:
                module.__name__ = f"{prefix}_{name}"
                sys.modules[module.__name__] = module
        sys.modules.update(others)
    found: Callable[..., Any] = next(
        value for name, value in vars(operator).items() if not name.startswith("_") and _is_own(value, _OPERATOR)
    )
    return found


def _is_own(value: Any, module: str) -> bool:
    return callable(value) and not isinstance(value, type) and getattr(value, "__module__", "") == module
