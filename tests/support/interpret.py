"""Runs Triton sources without a GPU: many in one process under Triton's interpreter, on fp32 CPU tensors.

The process is a fork of a warm one, and sees accesses beyond tensors and false hints. The interpreter computes bf16
wrongly and costs about a millisecond per program: use fp32 and small shapes.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from evokernel.source.tunables import read_tunables, with_values
from tests.support.warm_python import warm_python

_CODE = "import sys; from tests.support.interpret import _child; _child(*sys.argv[2:])"
_ENVIRONMENT = json.dumps({"environment": {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}})


@dataclass(frozen=True)
class Case:
    """One call of `run(*arguments)`; tensors among the arguments come back as the call left them."""

    source: str
    arguments: Sequence[Any]
    tunables: Mapping[str, int] = field(default_factory=dict)
    """Values to set, for those of these names that the source declares."""

    @property
    def text(self) -> str:
        known = read_tunables(self.source).values
        return with_values(self.source, {name: value for name, value in self.tunables.items() if name in known})


def interpret(cases: Sequence[Case], timeout_s: float = 120) -> list[list[Any] | str]:
    """Arguments after each call, or the traceback of a call that failed."""
    with tempfile.TemporaryDirectory() as folder:
        asked, told = Path(folder, "asked.pickle"), Path(folder, "told.pickle")
        asked.write_bytes(pickle.dumps([(case.text, list(case.arguments)) for case in cases]))
        command = ["python", "-c", _CODE, _ENVIRONMENT, str(asked), str(told)]
        run = warm_python("torch", "triton.language", __name__)
        done = run(command, workdir=Path(folder), timeout_s=timeout_s, memory_bytes=0)
        assert done.ok, done.stderr
        answers: list[list[Any] | str] = pickle.loads(told.read_bytes())  # noqa: S301 - our own child's
        return answers


def gemm(m: int = 96, n: int = 80, k: int = 72) -> tuple[list[Any], Callable[[list[Any]], bool]]:
    """Arguments of a matrix product and a check of what a call left in them."""
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(m, k, generator=generator), torch.randn(k, n, generator=generator)
    want = a @ b
    poison = torch.full((m, n), float("nan"))
    return [a, b, m, n, k, poison], lambda left: torch.allclose(left[5], want, rtol=1e-4, atol=1e-3)


def softmax(rows: int = 5, columns: int = 72) -> tuple[list[Any], Callable[[list[Any]], bool]]:
    """Arguments of a softmax and a check of what a call left in them."""
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(2)) * 4
    want = torch.softmax(x, dim=1)
    poison = torch.full((rows, columns), float("nan"))
    return [x, rows, columns, poison], lambda left: torch.allclose(left[3], want, rtol=1e-4, atol=1e-6)


SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "BLOCK": 16}
"""Blocks that give the shapes above several programs and loop rounds."""


def _child(asked: str, told: str) -> None:
    import importlib.util
    import traceback
    from types import SimpleNamespace

    from tests.support.watched_interpreter import watch

    watch()
    few = SimpleNamespace(multi_processor_count=3)  # so that persistent programs take several tiles each
    torch.cuda.get_device_properties = lambda device=None: few
    answers: list[list[Any] | str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (text, arguments) in enumerate(pickle.loads(Path(asked).read_bytes())):  # noqa: S301
            path = Path(folder, f"candidate_{number}.py")
            path.write_text(text)
            try:
                spec = importlib.util.spec_from_file_location(path.stem, path)
                assert spec is not None
                assert spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                module.run(*arguments)
                answers.append(arguments)
            except BaseException:  # noqa: BLE001 - whatever a candidate does is an answer
                answers.append(traceback.format_exc())
    Path(told).write_bytes(pickle.dumps(answers))
