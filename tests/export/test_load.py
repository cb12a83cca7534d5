"""Exports in this process: each with modules of its own, none in the way of the user's."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from evokernel.export.export_kernel import NotExported
from evokernel.export.load import load_operator, read_exported

OP = "import kernel\nfrom reference import reference\n\n\ndef added(x):\n    return kernel.run(x), reference(x)\n"


def export(folder: Path, number: int) -> Path:
    folder.mkdir()
    (folder / "kernel.py").write_text(f"def run(x):\n    return x + {number}\n")
    (folder / "reference.py").write_text("def reference(x):\n    return x\n")
    (folder / "op.py").write_text(OP)
    (folder / "provenance.json").write_text(f'{{"candidate": "{number}"}}')
    return folder


def test_two_exports_keep_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ModuleType("kernel")
    monkeypatch.setitem(sys.modules, "kernel", mine)
    before = list(sys.path)
    one, two = (load_operator(export(tmp_path / name, number)) for name, number in (("a", 1), ("b", 2)))
    assert (one(10), two(10)) == ((11, 10), (12, 10))
    assert sys.modules["kernel"] is mine
    assert {"op", "reference"}.isdisjoint(sys.modules)
    assert sys.modules[one.__globals__["__name__"]].added is one
    assert sys.path == before


def test_what_is_no_export_says_so(tmp_path: Path) -> None:
    assert read_exported(tmp_path) == ""
    assert read_exported(export(tmp_path / "a", 3)) == "3"
    (tmp_path / "a" / "op.py").unlink()
    assert read_exported(tmp_path / "a") == "", "it is written anew"
    with pytest.raises(NotExported, match=r"has no op\.py"):
        load_operator(tmp_path / "a")
