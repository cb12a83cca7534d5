"""Dispatch of an exported operator: which kernel serves which size, the task's own and those between them."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evokernel.config.run import DEVICE_OF, RunConfig
from evokernel.errors import EvokernelError
from evokernel.evaluate.client.devices import StartJudge
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict, judge_each
from evokernel.export.dispatch_tree import TORCH, MeasuredSize, Tree, borders, fit_tree, leaves
from evokernel.export.size_domain import Dims, SizeDomain, size_domain, touched
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Fidelity
from evokernel.records.evaluation_document import speedup_document
from evokernel.records.timing import Speedup
from evokernel.report.verdicts import over_torch
from evokernel.rng import stream
from evokernel.task import Task, Workload
from evokernel.tasks.at_sizes import write_at_sizes

_BORDER_SHARE = 3
"""One of so many drawn sizes lies at a border of the tree of the others."""
_ROOM_BYTES = 2 << 30
"""All tensors of the sizes that one judge holds, each once; it keeps some copies of them."""


class WrongBetween(EvokernelError):
    """A kernel failed at a size between the searched ones."""

    def __init__(self, module: str, complaint: str) -> None:
        super().__init__(complaint)
        self.module = module
        """Name of its module."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The tree of an operator, and the measurements that it was fitted to."""

    domain: SizeDomain
    """The sizes that it answers for."""
    tree: Tree
    """The arm of each size."""
    measured: tuple[tuple[Dims, MeasuredSize], ...]
    """Dimensions and speed-ups over torch; the task's own workloads are the first."""
    accept_from: float
    """The least speed-up over torch of a leaf with a kernel."""

    @property
    def modules(self) -> set[str]:
        """The modules of the kernels that answer in some leaf."""
        return {leaf.arm for _, leaf in leaves(self.tree)} - {TORCH}

    def document(self) -> dict[str, Any]:
        """Return what a provenance says of it."""
        return {
            "accept_from": self.accept_from,
            "leaves": [
                {
                    "where": list(path),
                    "arm": leaf.arm or "torch",
                    "speedup": speedup_document(leaf.interval),
                    "measured": len(leaf.points),
                }
                for path, leaf in leaves(self.tree)
            ],
            "measured": [
                {"dims": dims, "speedups": {arm: speedup_document(each) for arm, each in point.speedups.items()}}
                for dims, point in self.measured
            ],
        }

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield place, arm and speed-up of each leaf, for people."""
        for path, leaf in leaves(self.tree):
            found = leaf.interval
            speed = f"{found.value:.2f}x ({found.low:.2f} to {found.high:.2f})" if leaf.arm else "1x"
            at = f"{len(leaf.points)} size{'' if len(leaf.points) == 1 else 's'}"
            yield ", ".join(path) or "everywhere between", leaf.arm or "torch", f"{speed}, {at}"


@dataclass(frozen=True, slots=True)
class Winner:
    """The kernel for one workload."""

    workload: Workload
    module: str
    """Name of the module that holds it."""
    speedup: Speedup | None
    """On that workload; None where it was not timed alone."""


def winners(
    task: Task, judgements: Mapping[str, KernelVerdict], *, dispatch: Dispatch | None = None, accept_from: float = 0.0
) -> list[Winner]:
    """Return the kernel for each workload that is not left to torch.

    A search workload gets the fastest, by the low end of its speed-up, where its speed-up over torch does not begin
    below `accept_from`. Held-out ones are measured one by one for a dispatch. Else they are timed together, and get
    the kernel that is fastest there, if it is faster than the baselines: an operator must not slow its user down.

    Args:
        task: with the workloads of one class of devices.
        judgements: by module name of each kernel, each right on all workloads.
        dispatch: what was measured beside torch, if it was.
        accept_from: the least speed-up over torch.
    """
    workloads = next(iter(task.workloads.values()))
    beside_torch = [(dims, point.speedups) for dims, point in dispatch.measured] if dispatch else []
    found = []
    for workload in workloads.search:
        timings = [(t, name) for name, j in judgements.items() for t in j.last.timings if t.workload == workload.name]
        timing, module = max(timings, key=lambda pair: pair[0].speedup.low)
        over = over_torch(judgements[module].last, timing)
        over = next((speedups[module] for dims, speedups in beside_torch if dims == workload.dims), over)
        if over.low >= accept_from:
            found.append(Winner(workload, module, timing.speedup))
    held = {name: j.last.metrics.get("holdout_speedup", 0.0) for name, j in judgements.items()}
    for workload in workloads.holdout:
        module = max(held, key=held.__getitem__)
        speedups = next((speedups for dims, speedups in beside_torch if dims == workload.dims), None)
        if speedups is not None:
            module = max(speedups, key=lambda name: speedups[name].low)
            if speedups[module].low >= accept_from:
                found.append(Winner(workload, module, speedups[module]))
        elif held[module] >= max(1.0, accept_from):
            found.append(Winner(workload, module, None))
    return found


def measure_dispatch(
    task: Task,
    kernels: Mapping[str, Candidate],
    config: RunConfig,
    *,
    sizes: int,
    accept_from: float,
    seed: int,
    start: StartJudge | None = None,
    notify: Callable[[str], None] = lambda stage: None,
) -> Dispatch:
    """Judge kernels at drawn sizes and at the task's own, and fit a tree to their speed-ups over torch.

    Two thirds of the sizes spread over the domain; the others lie at the borders of a tree that is fitted to these.

    Args:
        task: with the workloads of one class of devices.
        kernels: by the names of their modules; right on all workloads.
        sizes: how many are drawn.
        accept_from: the least speed-up over torch.
        seed: of the draws.
        start: how judges are started, as in `open_evaluator`.
        notify: takes the name of each stage after the first as it begins.

    Raises:
        TaskError: the task has no sizes between its workloads.
        WrongBetween: a kernel failed at a drawn size.
        HarnessError: the machinery failed.
    """
    domain = size_domain(task)
    rng = stream(seed, 0, "sizes of an export")
    spread = [*domain.workloads(task), *domain.draw(task, sizes - sizes // _BORDER_SHARE, rng)]
    measured = _measured(task, kernels, config, spread, domain, start)
    tree = fit_tree([point for _, point in measured], accept_from=accept_from)
    dims_of = {id(point): dims for dims, point in measured}
    pairs = [(dims_of[id(one)], dims_of[id(other)]) for one, other in borders(tree)]
    closer = domain.between(task, pairs, sizes // _BORDER_SHARE, rng)
    closer = [dims for dims in closer if dims not in spread]
    if closer:
        notify(f"judging at {len(closer)} more sizes, where the answers of neighbours differ")
        measured += _measured(task, kernels, config, closer, domain, start)
        tree = fit_tree([point for _, point in measured], accept_from=accept_from)
    return Dispatch(domain, tree, tuple(measured), accept_from)


def _measured(
    task: Task,
    kernels: Mapping[str, Candidate],
    config: RunConfig,
    sizes: Sequence[Dims],
    domain: SizeDomain,
    start: StartJudge | None,
) -> list[tuple[Dims, MeasuredSize]]:
    found: list[tuple[Dims, MeasuredSize]] = []
    for part in _in_room(task, sizes):
        with tempfile.TemporaryDirectory(prefix="evokernel-sizes-") as folder:
            spec = write_at_sizes(Path(folder), config.task, _device(kernels), part)
            verdicts = judge_each(
                [*kernels.values()],
                spec,
                budget=Fidelity.PRECISE,
                settings=config.evaluation.model_copy(update={"expert": ""}),
                threads=config.threads,
                deterministic=config.constraints.deterministic,
                start=start,
            )
        for module, verdict in zip(kernels, verdicts, strict=True):
            if not verdict.ok:
                where = f"({verdict.status}, at the stage {verdict.stage}): {verdict.feedback or 'no more is known'}"
                raise WrongBetween(module, f"at sizes between the searched ones it failed {where}")
        for place, dims in enumerate(part):
            timings = [verdict.timings[place] for verdict in verdicts]
            speedups = {module: timing.speedup for module, timing in zip(kernels, timings, strict=True)}
            found.append((dims, MeasuredSize({name: int(dims[name]) for name in domain.ranges}, speedups)))
    return found


def _in_room(task: Task, sizes: Sequence[Dims]) -> Iterator[list[Dims]]:
    """Yield the sizes in parts that one judge has room for."""
    part, used = list[Dims](), 0
    for dims in sizes:
        needed = touched(task, Workload("drawn", dims))
        if part and used + needed > _ROOM_BYTES:
            yield part
            part, used = [], 0
        part.append(dims)
        used += needed
    if part:
        yield part


def _device(kernels: Mapping[str, Candidate]) -> str:
    return DEVICE_OF[next(iter(kernels.values())).language]
