"""Operations of torch under observation: a base of what looks at each one, or changes its result."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class EagerMode(TorchDispatchMode):  # type: ignore[misc]  # torch does not type it
    """A dispatch mode under which nothing is compiled."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch so: otherwise it imports its compiler, for seconds."""
        return False


def arguments_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of an operation by name, with defaults."""
    arguments = func._schema.arguments
    given = {each.name: each.default_value for each in arguments} | dict(kwargs)
    return given | dict(zip((each.name for each in arguments), args, strict=False))


def tensors_of(values: Any) -> list[torch.Tensor]:
    """Return the tensors in nested arguments or results; asked for with every operation."""
    if isinstance(values, torch.Tensor):
        return [values]
    inside = values.values() if isinstance(values, dict) else values if isinstance(values, (tuple, list)) else ()
    return [tensor for each in inside for tensor in tensors_of(each)]
