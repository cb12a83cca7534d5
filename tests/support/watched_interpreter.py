"""Triton's interpreter under watch: an access beyond the tensors of a launch raises, and so does a false hint.

A GPU's sanitizers see the first, on some sizes; nothing sees the second but a kernel that fails, or is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def watch() -> None:
    """Change the interpreter of this process."""
    from triton.runtime import interpreter

    builder, convert = interpreter.InterpreterBuilder, interpreter._implicit_cvt
    load, store = builder.create_masked_load, builder.create_masked_store
    launch = interpreter.GridExecutor.__call__
    known: dict[int, int] = {}  # tensors of this launch: others may have ended, and left their memory

    def launched(self: Any, *arguments: Any, **named: Any) -> Any:
        known.clear()
        return launch(self, *arguments, **named)

    def converted(argument: Any) -> Any:
        if hasattr(argument, "untyped_storage"):
            memory = argument.untyped_storage()
            known[memory.data_ptr()] = memory.data_ptr() + memory.nbytes()
        return convert(argument)

    def check(places: Any, mask: Any, size: int) -> None:
        first = places.data[np.broadcast_to(mask.data, places.data.shape)].astype(np.int64)
        inside = np.zeros(first.shape, bool)
        for begin, end in known.items():
            inside |= (first >= begin) & (first + size <= end)
        assert inside.all(), f"{(~inside).sum()} accesses are beyond the tensors of the launch"

    def loaded(self: Any, places: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        check(places, mask, places.get_element_ty().primitive_bitwidth // 8)
        return load(self, places, mask, *rest, **named)

    def stored(self: Any, places: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        check(places, mask, value.data.itemsize)
        return store(self, places, value, mask, *rest, **named)

    interpreter.GridExecutor.__call__ = launched
    interpreter._implicit_cvt = converted
    builder.create_masked_load, builder.create_masked_store = loaded, stored
    interpreter.TensorHandle.set_attr = _checked_hint


def _checked_hint(self: Any, name: str, values: list[int]) -> None:
    """Look at a hint for the last axis, as `tl.multiple_of` and `tl.max_contiguous` give it."""
    block, data = values[-1], np.atleast_1d(self.data)
    runs = data.reshape(-1, data.shape[-1])
    if name == "tt.contiguity":
        assert data.shape[-1] % block == 0, f"blocks of {block} in {data.shape[-1]} numbers"
        assert (np.diff(runs.reshape(-1, block), axis=1) == 1).all(), f"not contiguous in blocks of {block}: {data}"
    elif name == "tt.divisibility":
        begins = np.diff(runs, axis=1, prepend=runs[:, :1] - 2) != 1
        assert not (runs[begins] % block).any(), f"no multiples of {block}: {data}"
    self.attr[name] = values
