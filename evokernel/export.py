"""A kernel as files that work without evokernel: proved once more, written, and run from the files themselves."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

import yaml

from archive.store import Store
from evokernel import __version__
from evokernel.config import RunConfig, parse_config
from evokernel.errors import EvokernelError, StoreError
from evokernel.evaluation import Budget, Evaluation, Speedup, combined_speedup
from evokernel.exported import check_exported
from evokernel.judging import Judgement, judge, judgement_document
from evokernel.languages.cpp_guide import entry_signature
from evokernel.report.documents import portrait_document
from evokernel.report.status import RunFacts, run_facts
from evokernel.report.story import portrait, story
from evokernel.task import Role, Task, Tensor
from evokernel.tasks import load_task, task_hash

FILES = ("kernel.cpp", "kernel.py", "README.md", "provenance.json")
_TEMPLATES = Path(__file__).with_name("templates")


class NotExported(EvokernelError):
    """A kernel did not hold when it was measured again, or its files do not work."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written and what was measured for it."""

    folder: Path
    candidate: str
    speedup: Speedup
    evaluation: Evaluation


def export(store: Store, name: str, *, out: Path) -> Exported:
    """Write a kernel of a run to a folder, after it has held once more on held-out inputs with fresh seeds.

    Args:
        store: opened for reading.
        name: id of the candidate, or its beginning.
        out: the folder; must be new, empty, or an earlier export.

    Raises:
        StoreError: there is no such kernel, or the store does not say how it was judged.
        TaskError: the task has changed since.
        NotExported: it does not hold, or the files do not work on their own.
    """
    _check_folder(out)
    found, run = portrait(store, name), run_facts(store)
    candidate, config = found.stored.candidate, _config(run)
    task = load_task(config.task)
    judgement = judge(
        candidate,
        config.task,
        budgets=(Budget.FINAL,),
        settings=config.evaluation,
        threads=config.threads,
        task_hash=found.evaluations[-1].evaluation.key.task_hash if found.evaluations else "",
    )
    if not judgement.ok:
        last = judgement.last
        raise NotExported(
            f"{candidate.id} was not exported: measured again on held-out inputs it failed ({last.status}, at the "
            f"stage {last.stage}): {last.feedback or 'no more is known'}"
        )
    texts = {
        "kernel.cpp": candidate.source,
        "kernel.py": _module(task, judgement),
        "README.md": _readme(task, judgement, config),
        "provenance.json": _provenance(store, name=candidate.id, judgement=judgement, run=run, config=config),
    }
    _publish(texts, task, out)
    return Exported(out, candidate.id, combined_speedup(judgement.last.timings), judgement.last)


def _check_folder(out: Path) -> None:
    there = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if out.exists() and not out.is_dir():
        raise NotExported(f"{out} is a file; --out names a folder")
    if there and "provenance.json" not in there:
        raise NotExported(f"{out} holds other files; name a new folder, an empty one, or an earlier export")


def _config(run: RunFacts) -> RunConfig:
    if not run.config:
        raise StoreError(f"{run.path} does not say how its kernels were judged: no run has begun in it")
    return parse_config(yaml.safe_load(run.config), f"the config in {run.path}")


def _publish(texts: Mapping[str, str], task: Task, out: Path) -> None:
    """Write all files or none: they are made and tried aside."""
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
        complaint = check_exported(staging, task)
        if complaint:
            raise NotExported(f"not exported: the files do not work on their own: {complaint}")
        out.mkdir(exist_ok=True)
        for name in FILES:
            os.replace(staging / name, out / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------- the texts


def _fill(template: str, /, **values: str) -> str:
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def compiler_flags(environment: str) -> tuple[str, ...]:
    """Return the compiler's flags in the description of an environment."""
    return tuple(re.findall(r"(?<=\s)-[^\s;]+", environment))


def _module(task: Task, judgement: Judgement) -> str:
    signature = task.signature
    numbers = [scalar.name for scalar in signature.scalars if scalar.name not in _sizes_in_shapes(task)]
    names = [tensor.name for tensor in signature.inputs]
    keywords = [*(f"{name}: float" for name in numbers), "out: Any = None"]
    return _fill(
        "kernel.py.txt",
        description=(task.description or task.name).replace("\\", "/").replace('"', "'"),
        candidate=judgement.candidate.id,
        example=_example(task),
        flags=repr(compiler_flags(judgement.identity.environment)),
        inputs=repr(tuple(_row(tensor) for tensor in signature.inputs)),
        inouts=repr(tuple(tensor.name for tensor in signature.inputs if tensor.role is Role.INOUT)),
        scalars=repr(tuple((scalar.name, scalar.dtype) for scalar in signature.scalars)),
        outputs=repr(tuple(_row(tensor) for tensor in signature.outputs)),
        parameters=", ".join([*(f"{name}: torch.Tensor" for name in names), "*", *keywords]),
        returns="return one tensor" if len(_written(task)) == 1 else "return a tuple of tensors",
        tensors=", ".join(f'"{name}": {name}' for name in names),
        given=", ".join(f'"{name}": {name}' for name in numbers),
    )


def _row(tensor: Tensor) -> tuple[str, str, tuple[str | int, ...]]:
    return tensor.name, tensor.dtype, tensor.shape


def _written(task: Task) -> list[Tensor]:
    return [tensor for tensor in task.signature.tensors if tensor.role is not Role.INPUT]


def _sizes_in_shapes(task: Task) -> set[str]:
    """Return the dimensions that the shapes of the inputs tell."""
    extents = [str(extent) for tensor in task.signature.inputs for extent in tensor.shape]
    found = [re.fullmatch(r"(?:\d+ \* )?([A-Za-z_]\w*)", extent) for extent in extents]
    return {match[1] for match in found if match}


def _example(task: Task) -> str:
    """Return one line that calls the kernel on a workload."""
    workload = next(iter(task.workloads.values())).search[0]
    given = []
    for tensor in task.signature.inputs:
        shape = ", ".join(map(str, tensor.shape_at(workload.sizes)))
        made = "ones" if tensor.dtype.startswith("int") else "randn"
        given.append(f"torch.{made}({shape}, dtype=torch.{tensor.dtype})")
    told = _sizes_in_shapes(task)
    given += [f"{s.name}={workload.dims[s.name]}" for s in task.signature.scalars if s.name not in told]
    return f"out = kernel.run({', '.join(given)})"


def _readme(task: Task, judgement: Judgement, config: RunConfig) -> str:
    evaluation, identity = judgement.last, judgement.identity
    speedup = combined_speedup(evaluation.timings)
    rows = ["| workload | kernel | baseline | speed-up | 95 % interval |", "|---|---|---|---|---|"]
    for timing in evaluation.timings:
        one = timing.speedup
        rows.append(
            f"| {timing.workload} | {timing.candidate_us:.4g} us | {timing.baseline_us:.4g} us ({timing.baseline}) "
            f"| {one.value:.3g}x | {one.low:.3g} to {one.high:.3g} |"
        )
    return _fill(
        "README.md.txt",
        task=task.name,
        description=task.description or task.name,
        candidate=judgement.candidate.id,
        entry=entry_signature(task.signature),
        example=_example(task),
        flags=" ".join(compiler_flags(identity.environment)),
        speedup=f"{speedup.value:.3g}x",
        low=f"{speedup.low:.3g}",
        high=f"{speedup.high:.3g}",
        table="\n".join(rows),
        device=identity.device,
        environment=identity.environment,
        mode=identity.mode.value,
        sandbox=identity.sandbox,
        threads="One thread"
        if config.threads == 1
        else f"{config.threads} threads; set OMP_NUM_THREADS={config.threads}",
    )


def _provenance(store: Store, *, name: str, judgement: Judgement, run: RunFacts, config: RunConfig) -> str:
    found = portrait(store, name)
    facts: dict[str, Any] = {
        "format": 1,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "evokernel": __version__,
        "candidate": name,
        "program_hash": found.stored.program_hash,
        "language": found.stored.candidate.language,
        "run": {"id": run.run_id, "created": run.created, "store": str(run.path), "seed": run.seed},
        "task": {"spec": config.task, "file_hash": task_hash(config.task), "hash": judgement.identity.task_hash},
        "config": config.model_dump(mode="json"),
        "lineage": [asdict(chapter) for chapter in story(store, name)],
        "final": judgement_document(judgement, task=config.task, file="kernel.cpp"),
        "evaluations": portrait_document(found)["evaluations"],
    }
    return json.dumps(facts, indent=2) + "\n"
