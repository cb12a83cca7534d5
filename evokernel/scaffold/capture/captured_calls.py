"""`evokernel.capture`: sizes, types and values of the calls of an operation while a program runs."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch

from evokernel.errors import TaskError
from evokernel.scaffold.capture.call_forms import CallForm, Sizes, TensorForm, form_of, sizes_of
from evokernel.scaffold.capture.call_watch import CallWatch
from evokernel.scaffold.capture.module_text import construction, module_text
from evokernel.scaffold.capture.value_statistics import ValueStatistics, statistics_of
from evokernel.scaffold.operation.function_text import own_file, standalone_text
from evokernel.scaffold.operation.user_operation import argument_name
from evokernel.scaffold.project import Project, ProjectSettings, init_project, whole_or_nothing

_SAMPLED_CALLS = 4
"""Calls of one size whose values are looked at."""
_SAMPLED_SIZES = 32
"""Sizes of which values are looked at."""
_MOST_SIZES = 4
"""Sizes that become workloads, the most frequent ones."""
_SHOWN = 12


@dataclass
class SizeCalls:
    """Calls of one form and size."""

    count: int = 0
    """Number of calls."""
    statistics: dict[str, ValueStatistics] = field(default_factory=dict)
    """Of the tensor arguments, over the first calls; empty where too many other sizes came before."""


@dataclass
class CapturedCalls:
    """Calls of one operation, by form and size."""

    name: str
    """The operation's."""
    file: str = ""
    """File that the operation can be imported from; empty where `text` defines it."""
    text: str = ""
    """Text of a file that defines it."""
    forms: dict[CallForm, dict[Sizes, SizeCalls]] = field(default_factory=dict)
    """By form, and by the shapes of the tensors."""
    empty: int = 0
    """Number of calls with a tensor without elements, which are left out."""

    def __len__(self) -> int:
        return sum(calls.count for sizes in self.forms.values() for calls in sizes.values())

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self)} calls"]
        for form, sizes in self.forms.items():
            for shapes, calls in _by_count(sizes)[:_SHOWN]:
                said = [f"{name}: {form.tensors[name].dtype}[{'x'.join(map(str, shape))}]" for name, shape in shapes]
                constants = [f"{name}={value}" for name, value in form.arguments if isinstance(value, str)]
                lines.append(f"{calls.count:>8}  {', '.join(said + constants)}")
            lines += [f"          and {len(sizes) - _SHOWN} further sizes"] * (len(sizes) > _SHOWN)
            lines += [f"          {said}" for said in _values(form, sizes)]
        return "\n".join(lines)

    __repr__ = __str__

    def add(self, arguments: Mapping[str, Any], made: str) -> None:
        """Count a call."""
        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        if any(value.numel() == 0 for value in tensors.values()):
            self.empty += 1
            return
        sizes = self.forms.setdefault(form_of(arguments, made), {})
        calls = sizes.setdefault(sizes_of(arguments), SizeCalls())
        calls.count += 1
        if calls.count <= _SAMPLED_CALLS and len(sizes) <= _SAMPLED_SIZES:
            for name, value in tensors.items():
                found, before = statistics_of(value), calls.statistics.get(name)
                calls.statistics[name] = before.joined(found) if before else found

    def init(
        self,
        out: str | Path = ".",
        *,
        force: bool = False,
        devices: Sequence[str] = ("cpu", "cuda"),
        cpu_dtype: str = "",
    ) -> Project:
        """Write task, kernels and config, as `evokernel init` does.

        The most frequent sizes are the first search workloads, weighted by how often they came. Kernels are timed on
        the distribution that the values of the largest tensor were most like. Raises `TaskError` if there are no calls,
        calls of several forms, or the operation makes no task.

        Args:
            out: the folder to write to.
            force: replace files that are there.
            devices: device classes of the workloads.
            cpu_dtype: type of floating-point numbers on a processor; empty for float32 in place of shorter ones.
        """
        form, sizes = self._one_form()
        common = _by_count(sizes)[:_MOST_SIZES]
        values = _joined(sizes)
        first = dict(common[0][0])
        example = [
            form_.example(first[name], values[name]) if isinstance(form_, TensorForm) else _value(name, form_)
            for name, form_ in form.arguments
        ]
        apart = Path(out) / f"{self.name}_source.py"
        if self.text and apart.exists() and not force:
            raise TaskError(f"{apart} exists; pass force (--force) to replace it, or another folder (--out)")
        settings = ProjectSettings(
            devices=tuple(devices),
            cpu_dtype=cpu_dtype,
            called=tuple(({argument_name(key): each for key, each in shapes}, calls.count) for shapes, calls in common),
            distribution=values[max(first, key=lambda key: prod(first[key]))].distribution,
            seen=f"seen in {len(self)} call{'s' * (len(self) > 1)}: {'; '.join(_values(form, sizes))}",
        )
        with whole_or_nothing([apart] if self.text else []):
            if self.text:
                Path(out).mkdir(parents=True, exist_ok=True)
                apart.write_text(self.text, encoding="utf-8")
            return init_project(
                apart if self.text else Path(self.file),
                name=self.name,
                out=Path(out),
                force=force,
                example_inputs=example,
                settings=settings,
            )

    def _one_form(self) -> tuple[CallForm, dict[Sizes, SizeCalls]]:
        if not self.forms:
            left = f" with elements in all tensors ({self.empty} without)" if self.empty else ""
            raise TaskError(
                f"{self.name} was never called{left}. Expected calls of a Python function, or of a class of modules, "
                "under this name; torch.compile, CUDA graphs and operations of torch itself call none: run without "
                "them, or put the operation into a function"
            )
        first, *others = self.forms
        if others:
            counts = [sum(calls.count for calls in sizes.values()) for sizes in self.forms.values()]
            differences = dict.fromkeys(each for other in others for each in first.differences(other))
            instance = " (of a class, capture one of its modules)" if first.made else ""
            raise TaskError(
                f"{self.name} was called in {len(counts)} ways ({', '.join(map(str, counts))} calls), and a task is "
                f"one: {'; '.join([*differences][:_SHOWN])}. Capture a part of the program with calls of one kind"
                f"{instance}, or give each kind a function of its own"
            )
        odd = {name: value for name, value in first.arguments if isinstance(value, str) and value.startswith("a ")}
        if odd:
            said = ", ".join(f"{name} is {value}" for name, value in odd.items())
            raise TaskError(f"{self.name}: {said}; expected tensors, numbers, texts or None: wrap it")
        return first, self.forms[first]

    def packed(self) -> str:
        """Return all of it as text, for `unpacked` in another process."""
        forms = [
            (
                [(name, value if isinstance(value, str) else asdict(value)) for name, value in form.arguments],
                form.made,
                [
                    (shapes, calls.count, {name: asdict(each) for name, each in calls.statistics.items()})
                    for shapes, calls in sizes.items()
                ],
            )
            for form, sizes in self.forms.items()
        ]
        return repr((self.name, self.file, self.text, self.empty, forms))


def unpacked(text: str) -> CapturedCalls:
    """Return what `packed` made a text of. Raises `TaskError` for values that are no numbers."""
    try:
        name, file, source, empty, forms = ast.literal_eval(text)
        made = CapturedCalls(name, file, source, empty=empty)
        for arguments, expression, sizes in forms:
            form = CallForm(
                tuple((key, value if isinstance(value, str) else TensorForm(**value)) for key, value in arguments),
                expression,
            )
            made.forms[form] = {
                shapes: SizeCalls(count, {key: ValueStatistics(**each) for key, each in statistics.items()})
                for shapes, count, statistics in sizes
            }
    except (ValueError, SyntaxError, TypeError) as error:
        raise TaskError(f"the recorded calls cannot be read: {error}") from None
    return made


class CallRecorder:
    """Adds calls of Python code to `CapturedCalls`."""

    def __init__(self, calls: CapturedCalls, *, module: torch.nn.Module | None = None) -> None:
        self._calls, self._module = calls, module
        self._made: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()

    def __call__(self, frame: FrameType) -> None:
        """Add the call that begins in a frame. Raises `TaskError` where the operation cannot be written down."""
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        arguments = {name: frame.f_locals[name] for name in names}
        owner = arguments.get("self")
        if not isinstance(owner, torch.nn.Module) or code.co_name != "forward":
            if not self._calls.file and not self._calls.text:
                found = frame.f_globals.get(code.co_qualname)
                self.define(inspect.unwrap(found) if callable(found) else None, code)
            self._calls.add(arguments, "")
            return
        if self._module not in (None, owner):
            return
        made = self._made.get(owner) or self._made.setdefault(owner, construction(owner))
        if not self._calls.text:
            kind = type(owner).__name__
            self._calls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower().lstrip("_")
            if self._calls.name == kind:
                self._calls.name += "_module"
            self._calls.text = module_text(owner, made, self._calls.name)
        self._calls.add({name: value for name, value in arguments.items() if name != "self"}, made)

    def define(self, function: Any, code: CodeType) -> None:
        """Take file or text of a function. Raises `TaskError`."""
        closed = [name for name in code.co_freevars if name != "__class__"]
        if closed:
            raise TaskError(
                f"{code.co_name} uses variables of the function around it ({', '.join(closed)}), which differ from "
                "call to call: pass them as arguments"
            )
        if not isinstance(function, FunctionType) or function.__code__ is not code or not code.co_name.isidentifier():
            raise TaskError(
                f"{code.co_qualname} is not at the top of its file; expected a function that is, or an nn.Module"
            )
        file = None if function.__name__.startswith("_") else own_file(function)
        self._calls.name = function.__name__.lstrip("_")
        self._calls.file = str(file or "")
        if file is None:
            alias = f"\n\n{self._calls.name} = {function.__name__}\n" if self._calls.name != function.__name__ else ""
            self._calls.text = standalone_text(function) + alias


@contextmanager
def capture(target: Callable[..., Any]) -> Iterator[CapturedCalls]:
    """Record the calls of a function or module while the block runs; the program runs slower meanwhile.

    Args:
        target: a Python function, a module, or a class of modules for all of its instances.

    Raises:
        TaskError: it is none of these, or cannot be written down.
    """
    kind: Any = type(target) if isinstance(target, torch.nn.Module) else target
    module = inspect.isclass(kind) and issubclass(kind, torch.nn.Module)
    function = inspect.unwrap(kind.forward if module else target)
    if not isinstance(function, FunctionType):
        name = getattr(target, "__name__", type(target).__name__)
        raise TaskError(
            f"expected a Python function or an nn.Module, got {name}, a {type(target).__name__}, whose calls cannot be "
            "seen: define a function that calls it, and call that one"
        )
    calls = CapturedCalls(kind.__name__ if module else function.__name__)
    recorder = CallRecorder(calls, module=target if isinstance(target, torch.nn.Module) else None)
    if not module:
        recorder.define(function, function.__code__)
    watch = CallWatch(lambda code: code is function.__code__, recorder)
    with watch:
        yield calls
    if watch.fault is not None:
        raise watch.fault


def _by_count(sizes: Mapping[Sizes, SizeCalls]) -> list[tuple[Sizes, SizeCalls]]:
    return sorted(sizes.items(), key=lambda item: -item[1].count)


def _joined(sizes: Mapping[Sizes, SizeCalls]) -> dict[str, ValueStatistics]:
    found: dict[str, ValueStatistics] = {}
    for calls in sizes.values():
        for name, each in calls.statistics.items():
            found[name] = found[name].joined(each) if name in found else each
    return found


def _values(form: CallForm, sizes: Mapping[Sizes, SizeCalls]) -> list[str]:
    """Return a phrase on the values of each tensor."""
    said = []
    for name, found in _joined(sizes).items():
        gaps = "" if form.tensors[name].dense else ", a view with gaps or overlaps, contiguous in the task"
        said.append(found.in_words(name, form.tensors[name].dtype) + gaps)
    return said


def _value(name: str, text: str) -> Any:
    if text in ("inf", "-inf", "nan"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise TaskError(f"the argument {name!r} is {text}, which a task file cannot spell") from None
