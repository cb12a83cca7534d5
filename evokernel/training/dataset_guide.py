"""Dataset cards: README.md of the folder and of each table, as the Hugging Face hub and `datasets` read them."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from evokernel import __version__

_NUMBERS = frozenset(
    (
        *("speedup", "speedup_low", "speedup_high", "gain", "predicted_gain", "best"),
        *(
            "reward_rule",
            "reward_execution",
            "reward_speed",
            "reward_plan",
            "rejected_reward_execution",
            "rejected_gain",
        ),
        *("score", "return_discounted", "return_max"),
    )
)
_COUNTS = frozenset(("step", "length", "earlier"))
Row = Mapping[str, Any]
ABOUT = {
    "kernels": "Every judged kernel, wrong ones too: source, verdict, feedback, speed-up with its 95 % interval, "
    "parent, diff to the parent.",
    "sft": "Right kernels as answers: to the task (`form` reference), where fast; to their slower parent (edit); to "
    "their parent and a plan (plan).",
    "preference": "Two kernels of one parent, on one task and device: `chosen` is right and faster beyond doubt than "
    "`rejected`, or `rejected` is wrong; `gain` and `rejected_gain` are over that parent.",
    "fixes": "A wrong kernel with what the judge said of it, and the right one that was made of it.",
    "trajectories": "Ways from a seed to a kernel without children: every step with score, discounted and "
    "maximal return; `earlier` is the number of steps that a long one lacks at its beginning.",
}


def folder_card(files: Mapping[str, Sequence[str]], examples: Mapping[str, Row], contents: Mapping[str, bytes]) -> str:
    """Return the card of the whole folder, in which each table is a configuration: `load_dataset(folder, table)`.

    Args:
        files: by table the paths of its files, relative to the folder, each named by its split.
        examples: a row of each.
        contents: of the files, by path.
    """
    configs = "".join(
        f"- config_name: {table}\n{_digest(*(contents[path] for path in paths))}  data_files:\n"
        + "".join(f"  - split: {path.split('/')[-1].split('.')[0]}\n    path: {path}\n" for path in paths)
        for table, paths in files.items()
    )
    columns = "".join(f"- config_name: {table}\n  features:\n{card_features(examples[table], '  ')}" for table in files)
    about = "\n".join(f"* `{table}`: {ABOUT[table]}" for table in files)
    return (
        f"---\nconfigs:\n{configs}dataset_info:\n{columns}tags:\n- code\n- gpu-kernels\n---\n\n"
        "# Training data of evokernel\n\n"
        f'{about}\n\nEach is read by name: `load_dataset(folder, "{next(iter(files))}")`; its folder has a card.\n'
    )


def card(
    table: str,
    splits: Mapping[str, tuple[int, bytes]],
    runs: Sequence[Mapping[str, Any]],
    *,
    example: Row,
    suffix: str,
    form: str,
) -> str:
    """Return the card of a table: where its files are, what a row is, which runs it comes from.

    `splits` has the number of rows of each file and its content.
    """
    files = "".join(f"  - split: {split}\n    path: {split}.{suffix}\n" for split in splits)
    counts = ", ".join(f"{count} rows for {split}" for split, (count, _) in splits.items())
    digest = _digest(*(content for _, content in splits.values()))
    sources = "\n".join(f"| {run['id']} | {run['store']} | {run['task']} | {run['device']} |" for run in runs)
    return (
        f"---\nconfigs:\n- config_name: default\n{digest}  data_files:\n{files}"
        f"dataset_info:\n  features:\n{card_features(example, '  ')}tags:\n- code\n- gpu-kernels\n---\n\n"
        f"# {table}\n\n{ABOUT[table]}\n\n{counts}; form `{form}`; written by evokernel {__version__}.\n\n"
        "A speed-up holds on its device alone: do not mix devices in one objective.\n"
        "`reward_rule` is 1 unless the judge refused text or behaviour; `reward_execution` is 1 for a right kernel, "
        "0.25 for one that was built; `reward_speed` is the low end of the speed-up; `reward_plan` compares predicted "
        "and measured gain.\n\n"
        f"| run | store | task | device |\n|---|---|---|---|\n{sources}\n"
    )


def _digest(*contents: bytes) -> str:
    """Return the line of a configuration that differs where its rows do.

    `datasets` knows a folder that it has read by its card, and would return the rows of an earlier dataset.
    """
    return f"  description: rows {hashlib.sha256(b''.join(contents)).hexdigest()[:16]}\n"


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
        (name, pyarrow.list_(pyarrow.struct(arrow_fields(value[0]))) if isinstance(value, list) else kinds[_type(name)])
        for name, value in row.items()
    ]


def _type(name: str) -> str:
    return "float64" if name in _NUMBERS else "int64" if name in _COUNTS else "string"
