"""The helper of the language `cuda` in the sandbox, and its compiled modules in a bundle.

A bundle has each module as `cache/KEY/module.cubin`, where the key is the hash of all inputs of the compilation.
"""

import hashlib
import json
import sys
import types
from collections.abc import Sequence
from pathlib import Path

from ..driver.cuda_module import Kernel, Live, Module
from ..driver.nvrtc import target_of

CACHE = "cache"
_NAME = "evokernel.cuda"


def provide() -> None:
    """Let sources import `Module` from `evokernel.cuda`, although the rest of evokernel is not visible."""
    package, _, name = _NAME.partition(".")
    helper = types.ModuleType(_NAME)
    vars(helper)["Module"] = Module
    vars(sys.modules.setdefault(package, types.ModuleType(package)))[name] = helper
    sys.modules[_NAME] = helper


def file_of(source: str, options: Sequence[str], *, target: str) -> str:
    """Return the path below the cache of the module that a source compiles to."""
    text = json.dumps([source, list(options), target])
    return f"{hashlib.sha256(text.encode()).hexdigest()}/module.cubin"


def use_cache(folder: Path, *, capability: int) -> None:
    """Load compiled modules from a folder and compile none; a missing one raises `LookupError`."""
    target = target_of(capability)

    def image_of(source: str, options: Sequence[str]) -> bytes:
        path = folder / file_of(source, options, target=target)
        if not path.is_file():
            raise LookupError(
                "this CUDA source was not compiled when the candidate was built: run() must launch the same kernels "
                "whenever shapes and scalars are the same"
            )
        return path.read_bytes()

    provide()
    Kernel.launcher = Live(image_of)
