"""Kernels compiled by an earlier build of the same source, and the kernels that this build uses."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_KEPT = (".json", ".cubin")


def read_known(known: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files in a request by their name in a bundle; the request has them as base64."""
    return {name: base64.b64decode(text) for name, text in known.items()}


class KernelCache:
    """The cache of one build. Known kernels are put there, so that Triton does not compile them again."""

    def __init__(self, folder: Path, known: Mapping[str, str]) -> None:
        """Fill the cache and hook into Triton, in this process for good.

        Args:
            folder: the base of file names.
            known: as for `read_known`: for each kernel `cache/KEY/NAME.json` and `.cubin`.
        """
        from triton import knobs

        self._folder = folder
        self._used: set[Path] = set()
        for name, data in read_known(known).items():
            _put(folder / name, data)
        knobs.compilation.listener = self._note

    def files(self) -> dict[str, bytes]:
        """Return the files that Triton needs to find and launch the compiled or used kernels, by name."""
        return {str(path.relative_to(self._folder)): path.read_bytes() for path in sorted(self._used)}

    def _note(self, *, metadata_group: Mapping[str, str], **_: Any) -> None:
        self._used |= {Path(path) for path in metadata_group.values() if path.endswith(_KEPT)}


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if path.suffix == ".json":  # Triton finds a kernel only where a third file names its parts
        parts = {each.name: str(each) for each in (path, path.with_suffix(".cubin"))}
        path.with_name(f"__grp__{path.name}").write_text(json.dumps({"child_paths": parts}))
