"""Earlier texts of built-in tasks with the same results, so that their stores can be resumed."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

_ON_A_PROCESSOR: Mapping[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Hashes of earlier texts by the current one. On a processor, reference, signature, workloads, tolerances and baselines
are the same. The texts differ in GPU parts (cuBLASLt, torch.compile), so on a GPU they are other tasks.

A changed text needs an entry under its own hash, or stores of the earlier text are refused. Compare the two tasks part
by part before you write one.
"""


def earlier_texts(text_hash: str, *, device: str) -> tuple[str, ...]:
    """Return the hashes of earlier texts that make the same task on a class of devices."""
    return tuple(_ON_A_PROCESSOR.get(text_hash, "").split()) if device == "cpu" else ()
