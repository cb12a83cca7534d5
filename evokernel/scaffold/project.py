"""Files of a new project: the task, kernels to start from and a config that runs as it is."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

from evokernel.errors import TaskError
from evokernel.evaluate.build.confined_generators import confine_generators
from evokernel.scaffold.config_schema import MODELINE, SCHEMA_FILE, schema_text
from evokernel.scaffold.inductor.seed import COMPILE_S as GPU_COMPILE_S
from evokernel.scaffold.loops.triangular import library_steps
from evokernel.scaffold.operation.additive_masks import find_masks
from evokernel.scaffold.operation.dimensions import Layout, derive_layout, layout_without, shapes_at
from evokernel.scaffold.operation.example_text import parse_inputs, without_bound
from evokernel.scaffold.operation.index_bounds import (
    find_bounds,
    find_lengths,
    find_offsets,
    find_segments,
    find_signed,
    one_signed,
    tied_by_indices,
    unsorted_offsets,
)
from evokernel.scaffold.operation.trial import (
    changes_apart,
    gpu_complaint,
    operations_of,
    places_once,
    sorted_inputs,
    state_apart,
)
from evokernel.scaffold.operation.user_operation import UserOperation, find_subject
from evokernel.scaffold.operation_analysis import OperationAnalysis, analyse
from evokernel.scaffold.output_folder import check_folder
from evokernel.scaffold.parameter_gradients import useless_apart
from evokernel.scaffold.project_admission import admission_of, with_results
from evokernel.scaffold.project_precision import project_precision, tensor_dtypes
from evokernel.scaffold.project_seeds import COMPILE_S, OperationTask, Seed, make_seeds, quiet
from evokernel.scaffold.size_limits import raised_lows
from evokernel.scaffold.task_text import TaskDraft, task_text, template
from evokernel.scaffold.weight_scales import weight_scales
from evokernel.scaffold.workloads import LIMITS, WorkloadCosts, WorkloadDraft, dims_of, plan_workloads
from evokernel.source.expressions import evaluate
from evokernel.task import DISTRIBUTIONS, DTYPES, Task
from evokernel.tasks import load_task

_ENDS: Mapping[str, str] = {"cpp": ".cpp", "triton": "_triton.py", "cuda": ".cu.py"}
_MOST_COMPILED = 600
"""Operations of torch in all steps that a reference takes in Python which a compiler is asked to write down."""

_NAMED = 3
"""Inputs that a remark names, where there may be many."""
_ROOM_FOR_COMPILERS = {"cpp": (3.0, COMPILE_S), "triton": (18.0, GPU_COMPILE_S)}
"""By language, the time of a compiler that a search's own limit has room for on a busy machine, and the limit that the
config gives to kernels that take more, both in s."""


@dataclass(frozen=True)
class Project:
    """Files that were written, and the findings on the task."""

    files: tuple[Path, ...]
    """In the order task, kernels, config."""
    task: Task
    layout: Layout
    seeds: tuple[Seed, ...]
    """Kernels to start from, one for each device class."""
    remarks: tuple[str, ...]
    """Choices that were made for the user."""
    admission: str = ""
    """Result of the admission; empty where it failed."""
    unfit: str = ""
    """Reason why the admission failed; else empty."""


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """Choices that a user may leave to `init`."""

    devices: tuple[str, ...] = ("cpu", "cuda")
    """Device classes of the workloads."""
    cpu_dtype: str = ""
    """Dtype of floating-point numbers on a processor; empty for float32 in place of shorter ones."""
    shapes: tuple[str, ...] = ()
    """Further sizes that matter, each as example inputs are given."""
    device_shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further sizes for one device class only."""
    called: tuple[tuple[Mapping[str, tuple[int, ...]], int], ...] = ()
    """Shapes of the tensors in recorded calls, that of the example first, with how often each came: their weights."""
    distribution: str = "normal"
    """Distribution that search workloads are timed on."""
    seen: str = ""
    """Values in recorded calls, in words; part of the description."""
    fewer_distributions: bool = False
    """Leave distributions out on which honest answers would be refused."""
    stem: str = ""
    """Beginning of the names of the files; empty for the operation's name."""
    kernel: Callable[[Task, Path], str] | None = None
    """Returns the GPU program to start from, for the task and its file; None for Inductor's."""
    gpu_language: str = "triton"
    """Language of that program."""
    tell: Callable[[str], None] = quiet
    """Called with what is done next, in words: a deep network takes minutes."""


_DEFAULT = ProjectSettings()


def init_project(
    path: Path,
    *,
    name: str = "",
    inputs: str = "",
    out: Path,
    force: bool = False,
    example_inputs: Sequence[Any] | None = None,
    settings: ProjectSettings = _DEFAULT,
) -> Project:
    """Write task, kernels and config for the PyTorch operation in a file.

    Args:
        path: the Python file.
        name: the function or module in it, where there are several.
        inputs: example inputs as text, see `example_text.parse_inputs`.
        out: the folder to write to.
        force: replace files that are there.
        example_inputs: tensors and numbers by position, in place of those of `get_inputs()`.

    Raises:
        TaskError: the operation cannot be found, run or described; the message says what to do.
    """
    check_folder(out)
    subject = changes_apart(state_apart(find_subject(path, name=name, inputs=inputs, example_inputs=example_inputs)))
    devices, complaint = _devices(subject, settings)
    stem = settings.stem or stem_of(subject)
    files = _seed_files(stem, out, devices, settings)
    task_file, config_file, schema_file = out / f"{stem}_task.py", out / f"{stem}.yaml", out / SCHEMA_FILE
    _refuse_to_replace((task_file, *files.values(), config_file), force=force)
    layout = tied_by_indices(subject, derive_layout(subject))
    subject, layout, scales = _that_counts(subject, layout, settings.tell)
    floats = project_precision(subject, layout, devices, cpu_dtype=settings.cpu_dtype)
    plain = subject.with_floats(floats.on.get("cpu") or floats.signature) if floats.changes else subject

    def own(device: str) -> list[dict[str, tuple[int, ...]]]:
        texts = (*settings.shapes, *settings.device_shapes.get(device, ()))
        return [*(dict(shapes) for shapes, _ in settings.called[1:]), *map(_shapes, texts)]

    settings.tell("writing down its operations, and planning sizes to measure and to check")
    layout, analysis = analyse(plain, layout, own=[*chain.from_iterable(map(own, devices))])
    ranges, offsets = find_bounds(subject, layout), find_offsets(subject, layout)
    plans = {
        device: replace(
            plan_workloads(
                plain,
                layout,
                _cost(subject, layout, analysis),
                limits=LIMITS[device],
                own=[layout.example, *(dims_of(layout, each) for each in own(device))],
                counts=[count for _, count in settings.called],
                missing=analysis.missing,
                scales=scales,
            ),
            dtype=floats.on.get(device, ""),
        )
        for device in devices
    }
    draft = TaskDraft(
        subject=subject,
        layout=layout,
        dtypes=tensor_dtypes(subject, layout, floats.signature),
        ranges=ranges,
        offsets=offsets,
        lengths=find_lengths(subject, layout),
        scales=scales,
        signed=find_signed(subject, layout),
        sorted=sorted_inputs(subject),
        places=_places(subject, layout, ranges),
        segments=find_segments(subject, layout, ranges),
        masks=find_masks(subject),
        workloads=plans,
        seeds={language: file.name for language, file in files.items()},
        flops=analysis.flops,
        reduction=analysis.reduction,
        exact=analysis.exact,
        distribution=settings.distribution,
        seen=settings.seen,
    )
    signs = {name: ends for name, ends in one_signed(subject).items() if name not in draft.masks}

    def written(each: TaskDraft) -> Task:
        task_file.write_text(task_text(each, stem=stem, out=out), encoding="utf-8")
        return _loaded(task_file)

    out.mkdir(parents=True, exist_ok=True)
    with whole_or_nothing((task_file, *files.values(), config_file, schema_file)):
        draft, task = with_results(draft, signs, written)
        if lows := raised_lows(task, analysis.traced):
            draft = replace(draft, workloads={device: _above(plan, lows) for device, plan in draft.workloads.items()})
            task = written(draft)
        seeds = make_seeds(
            OperationTask(subject, task, task_file, layout.example, _too_long(subject, layout)),
            files,
            traced=analysis.traced,
            why=analysis.why,
            kernel=settings.kernel,
            tell=settings.tell,
        )
        config = template("config.yaml.txt", stem=stem, task=task_file.name, file=path.name)
        config_file.write_text(MODELINE + config + _patience(seeds), encoding="utf-8")
        schema_file.write_text(schema_text(), encoding="utf-8")
        settings.tell("trying the task: right answers must pass, and wrong ones fail")
        draft, task, admission, unfit = admission_of(
            draft, task, signs, written, fewer_distributions=settings.fewer_distributions
        )
    remarks = (
        *(complaint, floats.remark, _left_out(draft), _in_order(draft)),
        *_remarks(subject, layout, plans),
        *without_bound(inputs, ranges),
    )
    return Project(
        files=(task_file, *files.values(), config_file, schema_file),
        task=task,
        layout=layout,
        seeds=seeds,
        remarks=tuple(filter(None, remarks)),
        admission=admission,
        unfit=unfit and unfit + (unsorted_offsets(subject, layout) or library_steps(analysis.why)),
    )


def _seed_files(stem: str, out: Path, devices: Sequence[str], settings: ProjectSettings) -> dict[str, Path]:
    """Return the files of the kernels to start from, by language."""
    languages = ["cpp" if device == "cpu" else settings.gpu_language for device in devices]
    return {language: out / f"{stem}{_ENDS[language]}" for language in languages}


def _that_counts(
    subject: UserOperation, layout: Layout, tell: Callable[[str], None]
) -> tuple[UserOperation, Layout, dict[str, float]]:
    """Return an operation without the parameters that do not count, its layout, and the scales of its weights."""
    if subject.parameters:
        tell(f"finding out which of {len(subject.parameters)} parameters count")
    scales = weight_scales(subject, layout)
    counting = useless_apart(subject, layout, scales)
    return counting, layout if counting is subject else layout_without(layout, counting), scales


def _places(subject: UserOperation, layout: Layout, ranges: Mapping[str, str | int]) -> dict[str, tuple[str, str]]:
    """Return the number of places in each input that has each of them once, and the size that they stay below."""
    pairs = {name: (str(layout.inputs[name][0]), ranges.get(name)) for name in places_once(subject)}
    return {
        name: (count, below)
        for name, (count, below) in pairs.items()
        if count in layout.example and isinstance(below, str) and count != below
    }


def _patience(seeds: Sequence[Seed]) -> str:
    """Return the line of a config that gives compilers more time, where the kernel to start from may need it."""
    room = ((seed.compile_s, *_ROOM_FOR_COMPILERS[seed.language]) for seed in seeds if seed.compile_s)
    needed = max((limit for taken, enough, limit in room if taken > enough), default=None)
    return f"evaluation: {{compile_timeout_s: {needed:g}}} # a kernel to start from compiles long\n" if needed else ""


def _too_long(subject: UserOperation, layout: Layout) -> str:
    """Return what is said of an operation with too many steps in Python for a compiler; nothing for others."""
    count = operations_of(subject, {name: tuple(each.shape) for name, each in subject.inputs.items()})
    if not layout.stepped or count <= _MOST_COMPILED:
        return ""
    return f"its steps in Python are {count} operations, and a compiler would write as many kernels; a loop does better"


def _loaded(file: Path) -> Task:
    return confine_generators(load_task(str(file)), str(file))


def _devices(subject: UserOperation, settings: ProjectSettings) -> tuple[tuple[str, ...], str]:
    """Return the device classes that the operation can be tried on, and a remark where these are fewer.

    Raises:
        TaskError: there are none; the message says what to change.
    """
    complaint = gpu_complaint(subject) if "cuda" in settings.devices else ""
    left = tuple(device for device in settings.devices if not complaint or device != "cuda")
    if not left:
        raise TaskError(complaint)
    return left, complaint and f"nothing for a GPU was written: {complaint}, and run init again"


def _shapes(text: str) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in parse_inputs(text).items() if hasattr(value, "shape")}


def _refuse_to_replace(files: Iterable[Path], *, force: bool) -> None:
    there = [str(file) for file in files if file.exists()]
    if there and not force:
        raise TaskError(f"{', '.join(there)} exist; pass --force to replace them, or --out for another folder")


@contextmanager
def whole_or_nothing(files: Iterable[Path]) -> Iterator[None]:
    """Remove the new ones of these files where the block fails or is interrupted."""
    new = [file for file in files if not file.exists()]
    try:
        yield
    except BaseException:
        for file in new:
            file.unlink(missing_ok=True)
        raise


def stem_of(subject: UserOperation) -> str:
    """Return the beginning of the names of a project's files."""
    name = subject.path.stem if subject.title in ("Model", "forward", "run") else subject.title
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|\W", "_", name).lower()


def _cost(subject: UserOperation, layout: Layout, analysis: OperationAnalysis) -> WorkloadCosts:
    widths = [tensor.element_size() for tensor in subject.inputs.values()]
    widths += [DTYPES[dtype] for dtype in layout.output_dtypes]

    def counts(dims: Mapping[str, int]) -> list[int]:
        shapes = [*shapes_at(layout, dims).values()]
        shapes += [tuple(evaluate(extent, dims) for extent in shape) for shape in layout.outputs]
        return [prod(shape) for shape in shapes]

    def inner(dims: Mapping[str, int]) -> int:
        return max((prod(layout.sizes.at(each, dims) for each in shape) for shape in analysis.largest), default=0)

    return WorkloadCosts(
        flops=lambda dims: evaluate(analysis.flops, dims),
        moved=lambda dims: sum(count * width for count, width in zip(counts(dims), widths, strict=True)),
        elements=lambda dims: max(sum(counts(dims)[: len(subject.inputs)]), inner(dims)),
    )


def _remarks(subject: UserOperation, layout: Layout, plans: Mapping[str, WorkloadDraft]) -> list[str]:
    made = [_cut(device, plan) for device, plan in plans.items() if plan.cut]
    made += [*dict.fromkeys(said for plan in plans.values() if (said := _grows(subject, layout, plan)))]
    if steps := dict.fromkeys(str(subject.inputs[name].shape[axis]) for name, axis in layout.stepped):
        made.append(
            f"{subject.title} takes {' and '.join(steps)} steps in Python, and so many for all sizes of the task"
        )
    if subject.in_place:
        made.append(f"{subject.name} changes {' and '.join(subject.in_place)} in place, and so do kernels")
    if subject.zeros:
        made.append(f"no effect on the results, so that kernels do not get them: {', '.join(subject.zeros)}")
    if subject.construct and subject.target.training and {*subject.kept} - subject.masks.keys():
        made.append(f"{subject.name} is in training mode; each call starts with its buffers as the file makes them")
    return made


def _left_out(draft: TaskDraft) -> str:
    names = [name for name in DISTRIBUTIONS if name not in (draft.distributions or DISTRIBUTIONS)]
    why = "honest answers would be refused" if draft.left_out else f"{draft.subject.name} has no one result"
    return f"not judged on the distribution {' and '.join(names)}, on which {why}" if names else ""


def _in_order(draft: TaskDraft) -> str:
    names, signed = " and ".join(draft.segments), " and ".join([*draft.signs][:_NAMED])
    signed += f" and {len(draft.signs) - _NAMED} more" * (len(draft.signs) > _NAMED)
    said = [f"the numbers in {names} are in order in your example, and kernels may rely on it"] * bool(names)
    said += [f"the numbers in {signed} have one sign in your example, and kernels may rely on it"] * bool(signed)
    said += [f"{mask.closed:g} stands in places of {name}, as in your example" for name, mask in draft.masks.items()]
    return "; ".join(said)


def _cut(device: str, plan: WorkloadDraft) -> str:
    own, measured = (["x".join(map(str, dims.values())) for dims in each] for each in (plan.cut, plan.search))
    return (
        f"your {'size' if len(own) == 1 else 'sizes'} {', '.join(own)} would take long on {device}, where only "
        f"{', '.join(measured)} are measured: put {'it' if len(own) == 1 else 'them'} into the task file to change that"
    )


def _above(plan: WorkloadDraft, lows: Mapping[str, int]) -> WorkloadDraft:
    """Return workloads whose hidden sizes are these at least."""
    probe = {**plan.probe} | {name: (low, max(low, plan.probe[name][1])) for name, low in lows.items()}
    return replace(plan, probe=probe)


def _grows(subject: UserOperation, layout: Layout, plan: WorkloadDraft) -> str:
    """Return what is said where results grow with a size beyond what fp32 holds."""
    above = {name: size for name, size in layout.example.items() if size > plan.highest.get(name, size)}
    if not above:
        return ""
    sizes = " and ".join(f"{name}={plan.highest[name]}" for name in above)
    return (
        f"on random inputs the results of {subject.name} grow beyond what fp32 holds above {sizes}: hidden checks stay "
        "below, and at your sizes right and wrong look alike. Make inputs that it takes in the function, for example "
        "torch.eye(n, device=x.device) + 0.1 * x for a matrix that is solved for"
    )
