"""A task small enough to be judged in seconds."""

import shutil
from pathlib import Path

from tests.e2e import small_task

SEED = Path(__file__).parents[2] / "evokernel" / "tasks" / "gemm" / "seeds" / "naive.cpp"


def place_task(folder: Path) -> tuple[Path, Path]:
    """Put a task file and a right kernel for it into a folder."""
    task, kernel = folder / "small_task.py", folder / "kernel.cpp"
    text = Path(small_task.__file__).read_text(encoding="utf-8")
    task.write_text(text.replace("    seeds={", "    # seeds={"), encoding="utf-8")
    shutil.copy(SEED, kernel)
    return task, kernel
