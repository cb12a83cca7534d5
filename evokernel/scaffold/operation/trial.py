"""Trial of a user's operation without data: its outputs, or why it can be no task."""

import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from evokernel.errors import TaskError
from evokernel.scaffold.decompositions.recurrent_layers import WholeFunctions
from evokernel.scaffold.operation.nested_values import results_of
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.task import DTYPES

_LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.proxy_tensor")

_WRITES_AT_INDICES = (torch.ops.aten.index_put, torch.ops.aten.index_put_)
_COPIES_TO_INDICES = (torch.ops.aten.index_copy, torch.ops.aten.index_copy_)
_TAKES_ANY_DEVICE = (torch.ops.aten.convolution, torch.ops.aten.embedding)
"""Operations whose devices torch does not compare without data."""


class _RandomOperation(Exception):
    """A random operation, by its name."""


class _NoRandomness(TorchDispatchMode):  # type: ignore[misc]
    """Counts operations, and refuses random ones."""

    calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise _RandomOperation(str(func).rpartition(".")[0])
        if func.overloadpacket in _WRITES_AT_INDICES:  # without data, torch does not compare these shapes
            target, indices, values, *_ = args
            values.expand(target[tuple(slice(None) if each is None else each for each in indices)].shape)
        if func.overloadpacket in _TAKES_ANY_DEVICE:
            devices = {each.device.type for each in args if isinstance(each, torch.Tensor)}
            if len(devices) > 1:
                raise RuntimeError(f"two devices: {', '.join(sorted(devices))}")
        return func(*args, **(kwargs or {}))


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Run torch on small tensors: on a busy machine, threads that wait for each other take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def without_data() -> Iterator[None]:
    """Run torch on shapes alone.

    Attention runs as two products, which check all of their sizes; recurrent layers take all steps at once.
    """
    loggers = [(logger, logger.disabled) for logger in map(logging.getLogger, _LOGGERS)]
    for logger, _ in loggers:  # sizes that do not fit are tried on purpose
        logger.disabled = True
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            FakeTensorMode(allow_non_fake_inputs=True),
            torch.no_grad(),
            sdpa_kernel(SDPBackend.MATH),
            WholeFunctions(),
        ):
            yield
    finally:
        for logger, before in loggers:
            logger.disabled = before


def state_apart(subject: UserOperation) -> UserOperation:
    """Return the operation with the buffers that a call changes kept apart: each call starts with those of the file.

    Results that lie in dicts, or deeper, are named by their places there. Raises `TaskError` if a module keeps a tensor
    of one call for the next.
    """
    tried = _tried(subject)
    for prefix, module in subject.target.named_modules() if subject.construct else ():
        for name in (name for name, value in vars(module).items() if isinstance(value, FakeTensor)):
            raise TaskError(
                f"{subject.name} keeps a tensor of one call for the next ({f'{prefix}.{name}'.lstrip('.')}), and a "
                "kernel sees one call alone. Take it as an argument of forward, and return its new value"
            )
    if tried is None:
        return subject
    inputs, result = tried
    made = list(results_of(result))
    flat = [result] if isinstance(result, torch.Tensor) else result if type(result) in (tuple, list) else []
    if made and list(map(id, flat)) != [id(each) for _, each in made]:
        subject = replace(subject, returned={place: path for place, (path, _) in enumerate(made)})
    changed = {name for name in subject.parameters.values() if inputs[name]._version}
    apart = changed | _unread(subject)
    return subject.keeping(apart) if apart else subject


def changes_apart(subject: UserOperation) -> UserOperation:
    """Return the operation with the new values of inputs that a call changes as results.

    Raises `TaskError` if such an input is not row-major, so that a kernel may only read it.
    """
    if (tried := _tried(subject)) is None:
        return subject
    inputs, result = tried
    changed = [name for name, tensor in inputs.items() if tensor._version]
    if not changed:
        return subject
    if other := [name for name in changed if name in subject.orders]:
        raise TaskError(
            f"{subject.name} changes its input {other[0]!r} in place, which does not lie row by row in memory: only "
            "inputs that are read may lie otherwise. Pass it with .contiguous()"
        )
    paths = subject.returned or {place: path for place, (path, _) in enumerate(results_of(result))}
    flat = [each for _, each in results_of(result)]
    own = [
        (place, path)
        for each, (place, path) in zip(flat, paths.items(), strict=True)
        if all(each is not inputs[name] for name in changed)
    ]
    return replace(subject, in_place=tuple(changed), returned=dict(own))


def _tried(subject: UserOperation) -> tuple[dict[str, torch.Tensor], Any] | None:
    """Call the operation at the sizes of its example; return inputs and result, None where it raises an error."""
    try:
        with without_data():
            inputs = subject.empty({name: tuple(tensor.shape) for name, tensor in subject.inputs.items()})
            return inputs, subject.call(inputs)
    except Exception:  # noqa: BLE001 - it is reported where its outputs are asked for
        return None


def gpu_complaint(subject: UserOperation) -> str:
    """Return what keeps the operation from tensors on a GPU, and what to change; nothing where nothing is known."""
    try:
        with without_data(), _NoRandomness():
            shapes = {name: tuple(tensor.shape) for name, tensor in subject.inputs.items()}
            subject.call(subject.empty(shapes, device="meta"))
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything, a torch built without CUDA, too
        if not re.search("two (different )?devices", str(error)):  # torch 2.13 has a type of its own for it, 2.11 none
            return ""
        frames = [each for each in extract_tb(error.__traceback__) if Path(each.filename) == subject.path]
        where = f" in line {frames[-1].lineno} of {subject.path.name} ({frames[-1].line})" if frames else ""
        return (
            f"{subject.name} would fail on a GPU: a tensor that it makes on the processor meets one on the GPU{where}. "
            f"Make it where the inputs lie, as in torch.arange(n, device={subject.pattern}.device)"
        )
    return ""


def outputs_of(subject: UserOperation, shapes: Mapping[str, tuple[int, ...]]) -> list[Any]:
    """Return the outputs for inputs of these shapes, without data.

    Raises:
        TaskError: the reference raises an error or cannot be compared with a kernel; the message says what to change.
    """
    return _outputs_and_operations(subject, shapes)[0]


def operations_of(subject: UserOperation, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return how many operations of torch a reference calls on inputs of these shapes. Raises as `outputs_of`."""
    return _outputs_and_operations(subject, shapes)[1]


def _outputs_and_operations(subject: UserOperation, shapes: Mapping[str, tuple[int, ...]]) -> tuple[list[Any], int]:
    """Return both, from the first trial at these shapes where there was one: a deep module takes long for each."""
    key = tuple(shapes.items())
    if key not in subject.tried:
        try:
            subject.tried[key] = _found(subject, shapes)
        except TaskError as error:
            subject.tried[key] = str(error)
    found: tuple[list[Any], int] | str = subject.tried[key]
    if isinstance(found, str):
        raise TaskError(found)
    return found


def _found(subject: UserOperation, shapes: Mapping[str, tuple[int, ...]]) -> tuple[list[Any], int]:
    try:
        with without_data(), _NoRandomness() as counter:
            inputs = subject.empty(shapes)
            result = subject.call(inputs)
            changed = [name for name, tensor in inputs.items() if tensor._version]
    except Exception as error:
        raise TaskError(f"{subject.name} {_reason(error)}") from error
    if changed:
        raise TaskError(
            f"{subject.name} changes its input {changed[0]!r} in place at some sizes, and not at others; let it leave "
            "its inputs as they are: compute a new tensor and return it"
        )
    flat = list(result) if isinstance(result, (tuple, list)) else [result]
    for item in flat:
        _check_output(subject.name, item, inputs)
    return flat, counter.calls


def counted_flops(subject: UserOperation) -> int:
    """Return the operations of the products and convolutions at the sizes of the example."""
    with without_data(), FlopCounterMode(display=False) as counter:
        subject.call(subject.empty({name: tuple(tensor.shape) for name, tensor in subject.inputs.items()}))
    return int(counter.get_total_flops())


def _reason(error: Exception) -> str:
    if isinstance(error, _RandomOperation):
        return (
            f"uses random numbers ({error}), so that two right kernels would differ. Pass them in as an input; or put "
            "the module into eval mode, for example self.eval() at the end of its __init__"
        )
    if isinstance(error, DynamicOutputShapeException) and "_ctc_loss" in str(error):
        return (
            "calls ctc_loss, a function of a library whose steps torch does not show. Write them out in the function: "
            "a loop over time with torch.logsumexp of a state, its left neighbour and the next but one (Graves, 2006)"
        )
    if isinstance(error, DynamicOutputShapeException) and "repeat_interleave" in str(error):
        return (
            "repeats elements so often as a tensor says, and so makes a tensor whose shape depends on values; a kernel "
            "gets outputs of known shapes. Declare the length: torch.repeat_interleave(x, lengths, dim=0, "
            "output_size=n), where n is a number or the size of an input, and pass lengths that add up to it"
        )
    if isinstance(error, DynamicOutputShapeException):
        return (
            f"makes a tensor whose shape depends on values ({error}); a kernel gets outputs of known shapes. Use "
            "torch.where(condition, x, 0) or weigh by a mask in its place, for experts y = y + expert(x) * (weights * "
            "(selected == e)).sum(-1, keepdim=True), or return a tensor of the largest shape and a count; what counts "
            "or adds up by number is torch.zeros(n, device=...).index_add(0, numbers, values)"
        )
    if isinstance(error, DataDependentOutputException):
        return (
            f"reads a value of a tensor into Python ({error}), as .item() and `if tensor:` do; one kernel must serve "
            "all values. Use torch.where, or take the number as an argument"
        )
    return f"raised {type(error).__name__}: {_first_line(error)}"


def _check_output(name: str, item: Any, inputs: Mapping[str, torch.Tensor]) -> None:
    if not isinstance(item, torch.Tensor):
        raise TaskError(f"{name} returns a {type(item).__name__}; expected a tensor or a tuple of tensors")
    if item.is_complex():
        raise TaskError(f"{name} returns a tensor of {item.dtype}; return torch.view_as_real(...) of it: real numbers")
    if dtype_name(item) not in DTYPES:
        raise TaskError(
            f"{name} returns a tensor of {item.dtype}; expected one of {', '.join(DTYPES)}: cast it with .to(...)"
        )
    place = item.untyped_storage()._cdata
    source = next((key for key, tensor in inputs.items() if tensor.untyped_storage()._cdata == place), None)
    if source is not None:
        raise TaskError(
            f"{name} returns a view of its input {source!r}, which costs nothing and needs no kernel; a kernel writes "
            "a tensor of its own. If you want the copy, return it with .clone() (.contiguous() may still be a view)"
        )


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the dtype of a tensor as tasks name it."""
    return str(tensor.dtype).removeprefix("torch.")


def runs(subject: UserOperation, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Say whether the reference runs on inputs of these shapes."""
    try:
        outputs_of(subject, {name: tuple(shape) for name, shape in shapes.items()})
    except TaskError:
        return False
    return True


class _Reads(TorchDispatchMode):  # type: ignore[misc]
    """Notes the memory of tensors that operations are given."""

    def __init__(self) -> None:
        super().__init__()
        self.found = set[int]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor))
        self.found.update(each.untyped_storage()._cdata for each in given)
        return func(*args, **(kwargs or {}))


def _unread(subject: UserOperation) -> set[str]:
    """Return the buffers of integers, named as in `inputs`, that a call does not look at; it runs."""
    names = {name for name in subject.parameters.values() if not subject.inputs[name].is_floating_point()}
    if not names:
        return names
    with without_data():
        inputs = subject.empty({name: tuple(tensor.shape) for name, tensor in subject.inputs.items()})
        with _Reads() as reads:
            subject.call(inputs)
    return {name for name in names if inputs[name].untyped_storage()._cdata not in reads.found}


class _ReadsIntegers(TorchDispatchMode):  # type: ignore[misc]
    """Notes whether an operation is given integers in a tensor that may name places in another one: two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        self.found |= len(given) > 1 and any(not each.is_floating_point() for each in given)
        return func(*args, **(kwargs or {}))


def reads_integers(subject: UserOperation) -> bool:
    """Say whether an operation computes with integers or truth values beside other numbers; it runs.

    A count of its calls, as batch normalisation keeps, stands alone.
    """
    with without_data(), _ReadsIntegers() as noted:
        subject.call(subject.empty({name: tuple(each.shape) for name, each in subject.inputs.items()}))
    return bool(noted.found)


class _Notes(TorchDispatchMode):  # type: ignore[misc]
    """Notes the memory of tensors in which an operation searches as in sorted ones, and of places that it stores at."""

    def __init__(self) -> None:
        super().__init__()
        self.sorted, self.places = set[int](), set[int]()
        self._behind: dict[int, tuple[torch.Tensor, set[int]]] = {}  # kept, so that no other tensor takes its memory

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        edges = {"aten.searchsorted.Tensor": 0, "aten.bucketize.Tensor": 1}.get(str(func))
        if edges is not None and (kwargs or {}).get("sorter") is None:
            self.sorted.add(args[edges].untyped_storage()._cdata)
        if func.overloadpacket in _COPIES_TO_INDICES:
            self.places |= self._sources(args[2])
        if func.overloadpacket in _WRITES_AT_INDICES and True not in args[3:]:
            first, *others = (self._sources(each) for each in args[1] if each is not None)
            self.places |= first if len(first) == 1 and all(each == first for each in others) else set()
        made = func(*args, **(kwargs or {}))
        given = [each for each in tree_leaves((args, kwargs)) if _is_whole(each)]
        sources = set[int]().union(*map(self._sources, given))
        for each in filter(_is_whole, tree_leaves(made)):
            self._behind.setdefault(each.untyped_storage()._cdata, (each, sources))
        return made

    def _sources(self, tensor: torch.Tensor) -> set[int]:
        """Return the memory of the integers that these follow from."""
        place = tensor.untyped_storage()._cdata
        return self._behind[place][1] if place in self._behind else {place}


def _is_whole(value: object) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dtype != torch.bool


def _noted(subject: UserOperation) -> tuple[_Notes, dict[str, int]]:
    """Return the notes of a call, and the memory of its inputs."""
    with without_data():
        inputs = subject.empty({name: tuple(each.shape) for name, each in subject.inputs.items()})
        with _Notes() as notes:
            subject.call(inputs)
        return notes, {name: each.untyped_storage()._cdata for name, each in inputs.items()}


def sorted_inputs(subject: UserOperation) -> tuple[str, ...]:
    """Return the floating-point inputs that an operation takes for sorted along their last axis."""
    notes, found = _noted(subject)
    return tuple(n for n, place in found.items() if place in notes.sorted and subject.inputs[n].is_floating_point())


def places_once(subject: UserOperation) -> tuple[str, ...]:
    """Return the inputs of one axis whose numbers are places to store at, none of them twice in the example."""
    notes, found = _noted(subject)
    alone = (name for name, place in found.items() if place in notes.places and subject.inputs[name].ndim == 1)
    return tuple(name for name in alone if 1 < subject.inputs[name].numel() == subject.inputs[name].unique().numel())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else ""
