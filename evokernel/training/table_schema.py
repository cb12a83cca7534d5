"""Types of the columns of training tables: declared, since an empty column of one run is a full one of the next."""

from collections.abc import Mapping
from typing import Any

_NUMBERS = frozenset(
    (
        *("speedup", "speedup_low", "speedup_high", "gain", "predicted_gain", "best"),
        *("reward_rule", "reward_execution", "reward_speed", "reward_plan", "rejected_reward_execution"),
        *("score", "return_discounted", "return_max"),
    )
)
_COUNTS = frozenset(("step", "length"))
Row = Mapping[str, Any]


def card_features(row: Row, indent: str) -> str:
    """Return the columns of a table as `features` of a dataset card, in YAML.

    Args:
        row: any row of it; all have the same keys, and lists in it are not empty.
        indent: blanks before each line.
    """
    lines = []
    for name, value in row.items():
        if isinstance(value, list):
            lines.append(f"{indent}- name: {name}\n{indent}  list:\n{card_features(value[0], indent + '  ')}")
        else:
            lines.append(f"{indent}- name: {name}\n{indent}  dtype: {_type(name)}\n")
    return "".join(lines)


def arrow_fields(row: Row) -> list[tuple[str, Any]]:
    """Return the columns of a table as fields of a pyarrow schema. Raises `ModuleNotFoundError` without pyarrow."""
    import pyarrow

    kinds = {"string": pyarrow.string(), "float64": pyarrow.float64(), "int64": pyarrow.int64()}
    return [
        (
            name,
            pyarrow.list_(pyarrow.struct(arrow_fields(value[0]))) if isinstance(value, list) else kinds[_type(name)],
        )
        for name, value in row.items()
    ]


def _type(name: str) -> str:
    return "float64" if name in _NUMBERS else "int64" if name in _COUNTS else "string"
