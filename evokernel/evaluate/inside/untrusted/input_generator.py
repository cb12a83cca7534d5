"""Runs an input generator of a task, which is a user's code, and hands its contents over as bytes.

Unlike the other programs it imports from evokernel, as the task file does: its sandbox shows the package.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.tasks import load_task


def answer(request: dict[str, Any], folder: str) -> tuple[dict[str, Any], bytes]:
    """Make contents for seeds, in their order, until the time is up; one at least.

    Args:
        request: `task` (for `load_task`), `generator` (its number in the signature), `sizes`, `seeds`, `tensors` (name,
            dtype and shape of each that it makes), `budget_s` and `room_bytes` for all contents together.
        folder: where it may write.

    Returns:
        `made`, the number of contents, and their bytes: all tensors of the first seed, in order, then those of the
        next. Or `failure`, in words.
    """
    blob, made = bytearray(), 0
    try:
        generator = list(load_task(request["task"]).signature.generators)[request["generator"]]
        end = time.monotonic() + request["budget_s"]
        for seed in request["seeds"]:
            content = _content(generator(dict(request["sizes"]), seed), request["tensors"])
            if made and (time.monotonic() > end or len(blob) + len(content) > request["room_bytes"]):
                break
            blob += content
            made += 1
    except TaskError as error:
        return {"failure": str(error)}, b""
    except Exception as error:  # noqa: BLE001  a user's code may raise anything, and the answer reports it
        return {"failure": f"raised {type(error).__name__}: {error}"}, b""
    return {"made": made}, bytes(blob)


def _content(made: Any, tensors: Sequence[tuple[str, str, list[int]]]) -> bytes:
    """Return the bytes of one content. Raises `TaskError` where it is not as declared."""
    names = [name for name, _, _ in tensors]
    if not isinstance(made, Mapping) and len(names) == 1:
        made = {names[0]: made}
    if not isinstance(made, Mapping) or set(made) != set(names):
        found = sorted(map(str, made)) if isinstance(made, Mapping) else type(made).__name__
        raise TaskError(f"must return a dict of the tensors {', '.join(names)}, but returned {found}")
    return b"".join(_raw(name, made[name], dtype, shape) for name, dtype, shape in tensors)


def _raw(name: str, given: Any, dtype: str, shape: list[int]) -> bytes:
    try:
        values = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TaskError(f"returned {name!r} as {type(given).__name__}, which is no tensor: {error}") from None
    if list(values.shape) != shape:
        raise TaskError(f"returned {name!r} of shape {list(values.shape)}; declared is {shape}")
    kind = getattr(torch, dtype)
    if values.dtype != kind and not (values.is_floating_point() and kind.is_floating_point):
        raise TaskError(f"returned {name!r} as {values.dtype}; declared is {dtype}: convert it")
    plain = values.detach().to(kind).contiguous().reshape(-1)
    return bytes(plain.view(torch.uint8).numpy())
