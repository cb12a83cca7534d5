"""Example inputs as text, for example `x: bf16[8192x4096], idx: int64[8192] < 4096, eps: 1e-6`."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import is_float, torch_dtype
from evokernel.task import DTYPES

_SHORT = {
    "f64": "float64", "fp64": "float64", "double": "float64", "f32": "float32", "fp32": "float32", "float": "float32",
    "f16": "float16", "fp16": "float16", "half": "float16", "bf16": "bfloat16", "i64": "int64", "long": "int64",
    "i32": "int32", "int": "int32", "i8": "int8", "u8": "uint8", "byte": "uint8",
    "e4m3": "float8_e4m3fn", "fp8": "float8_e4m3fn", "e5m2": "float8_e5m2",
}  # fmt: skip
_EXTENTS = r"[1-9]\d*(?:\s*[x,]\s*[1-9]\d*)*"
_TENSOR = re.compile(
    rf"(?:(?P<dtype>[a-z]\w*)\s*\[(?P<inner>{_EXTENTS}|)\]|(?P<plain>{_EXTENTS}))(?P<sorted>\s+sorted\b)?"
    r"(?:\s*<\s*(?P<below>\d+))?"
)
_FORMS = (
    '"name: 1024x1024", "name: bf16[1024x1024]", "name: int64[1024] < 4096", "name: int32[65] sorted < 4097" for '
    'offsets that rise from 0 to 4096, "name: f32[]" or "name: 0.5"'
)
FEW = 8
"""Integers without a bound are drawn below this."""


_INTEGERS = {"idx", "index", "indices", "id", "ids", "label", "labels", "target", "targets", "of", "positions", "token"}
"""Words in names of indices."""


def inputs_line(text: str, missing: Collection[str], order: Sequence[str]) -> str:
    """Return example inputs as text, in some order, with guesses for those that are missing."""
    parts = (item.partition(":") for item in _items(text))
    known = {name.strip(): f"{name.strip()}: {value.strip()}" for name, _, value in parts}
    known |= {name: f"{name}: {_guess(name)}" for name in missing}
    return ", ".join(known[name] for name in order if name in known)


def _guess(name: str) -> str:
    """Return an example for a name: masks and indices are called so by most."""
    words = set(name.lower().split("_"))
    if words & {"mask", "masks", "keep"}:
        return "bool[1024x1024]"
    return "int64[1024] < 1024" if words & _INTEGERS else "1024x1024"


def parse_inputs(text: str) -> dict[str, Any]:
    """Return example inputs by name: `x: 64x32` is a tensor, `eps: 1e-6`, `causal: True` and `mode: 'a'` are not.

    The largest integer of a tensor with a bound N is N - 1; sorted ones begin at 0. Raises `TaskError` if an item
    is not of that form.
    """
    made: dict[str, Any] = {}
    generator = torch.Generator().manual_seed(0)
    for item in filter(None, (part.strip() for part in _items(text))):
        name, colon, value = (part.strip() for part in item.partition(":"))
        if not colon or not name.isidentifier():
            raise TaskError(f"--inputs: expected {_FORMS} between commas, got {item!r}")
        tensor = parse_tensor(name, value, generator=generator)
        made[name] = _constant(name, value) if tensor is None else tensor
    return made


def _items(text: str) -> list[str]:
    """Return the parts between commas that stand in no brackets."""
    items, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            items.append("")
        else:
            items[-1] += character
    return items


def parse_tensor(name: str, text: str, *, generator: torch.Generator) -> torch.Tensor | None:
    """Return a tensor of random contents for `64x32`, `int64[64] < 32` or `f32[]`; None for another text.

    Raises `TaskError` if it is a tensor of an unknown type, or its bound is for integers.
    """
    found = _TENSOR.fullmatch(text)
    if found is None:
        return None
    extents = found["plain"] or found["inner"]
    shape = [int(extent) for extent in extents.replace("x", ",").split(",")] if extents else []
    dtype = _SHORT.get(found["dtype"] or "", found["dtype"] or "float32")
    if dtype not in DTYPES:
        raise TaskError(f"--inputs {name}: the type {dtype!r} is none of {', '.join(DTYPES)}")
    if found["below"] and "int" not in dtype:
        raise TaskError(f"--inputs {name}: a bound is for integers; write for example int64[1024] < {found['below']}")
    if found["sorted"] and (not shape or dtype == "bool"):
        raise TaskError(
            f"--inputs {name}: sorted is for numbers along an axis; write for example int32[65] sorted < 4097"
        )
    try:
        made = _random_tensor(name, shape, dtype, below=found["below"], generator=generator)
        return _in_order(made) if found["sorted"] else made
    except (RuntimeError, TypeError, ValueError) as error:  # the last two for what is no 64-bit number
        raise TaskError(f"--inputs {name}: {text} cannot be made here: {str(error).splitlines()[0]}") from error


def _random_tensor(
    name: str, shape: list[int], dtype: str, *, below: str | None, generator: torch.Generator
) -> torch.Tensor:
    if is_float(dtype):
        return torch.randn(shape, generator=generator).to(torch_dtype(dtype))
    if dtype == "bool":
        return torch.randint(0, 2, shape, generator=generator).bool()
    kind = torch.iinfo(torch_dtype(dtype))
    if not below and kind.bits == 8:
        return torch.randint(kind.min, kind.max + 1, shape, generator=generator).to(torch_dtype(dtype))
    bound = int(below or FEW)
    if not 1 <= bound <= kind.max + 1:
        raise TaskError(f"--inputs {name}: {dtype} below {bound}; expected < 1 to < {kind.max + 1}")
    values = torch.randint(0, bound, shape, generator=generator)
    values.view(-1)[-1] = bound - 1
    return values.to(torch_dtype(dtype))


def _in_order(values: torch.Tensor) -> torch.Tensor:
    """Return numbers sorted along the last axis; integers with more than one number along it begin at 0."""
    made = values.sort(-1).values if values.element_size() > 1 else values.float().sort(-1).values.to(values.dtype)
    if not made.is_floating_point() and made.shape[-1] > 1:
        made[..., -1], made[..., 0] = values.max(), 0
    return made


def without_bound(text: str, ranges: Mapping[str, str | int]) -> list[str]:
    """Return a remark on each input of integers that example inputs give no bound, so that a guess is its range.

    `ranges` are what the inputs of the task stay below, by name: a size where the integers index.
    """
    made = []
    for name, _, value in (item.partition(":") for item in _items(text)):
        name, found = name.strip(), _TENSOR.fullmatch(value.strip())
        if found and not found["below"] and ranges.get(name) == FEW:
            example = f"{name}: {found[0]} < 1000"
            made.append(f'{name} holds integers below {FEW}, since --inputs names no bound: "{example}" would be one')
    return made


def _constant(name: str, value: str) -> Any:
    words = {"True": True, "False": False, "None": None}
    if value in words:
        return words[value]
    if re.fullmatch(r"'[^']*'|\"[^\"]*\"", value):
        return value[1:-1]
    try:
        return int(value) if re.fullmatch(r"[+-]\d+", value) else float(value)
    except ValueError:
        raise TaskError(f"--inputs {name}: {value!r} is neither a tensor nor a number; expected {_FORMS}") from None
