"""A task at other sizes: the same computation, with workloads that its author did not name."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from evokernel.task import Task, Workload
from evokernel.tasks import load_task, task_path

NATIVE = "torch"
"""Name that tasks give to the baseline that an operator falls back to."""
REFERENCE = "reference"
"""Name of the baseline of a task that names none: its reference."""
_TEXT = """from evokernel.tasks.at_sizes import at_sizes

task = at_sizes({spec!r}, {device!r}, {dims!r})
"""


def at_sizes(spec: str, device_class: str, dims: Iterable[Mapping[str, int | float]]) -> Task:
    """Return a task whose search workloads are at given sizes, on one class of devices, against torch alone.

    Raises:
        TaskError: the task cannot be loaded, or has no workloads for that class of devices.
    """
    task = load_task(spec)
    offered = task.on(device_class).workloads[device_class]
    baselines = task.on(device_class).baselines
    native = {name: baselines[name] for name in (NATIVE, *baselines) if name in baselines} if baselines else None
    only = dict([next(iter(native.items()))]) if native else None
    search = tuple(Workload(f"size-{place}", dict(each)) for place, each in enumerate(dims))
    return replace(
        task,
        workloads={device_class: replace(offered, search=search, baselines=only, further_dtypes=())},
        baselines=only,
    )


def write_at_sizes(folder: Path, spec: str, device_class: str, dims: Iterable[Mapping[str, int | float]]) -> str:
    """Write a task file for `at_sizes`; return its path."""
    path = folder / "task.py"
    text = _TEXT.format(spec=str(task_path(spec)), device=device_class, dims=[dict(each) for each in dims])
    path.write_text(text, encoding="utf-8")
    return str(path)
