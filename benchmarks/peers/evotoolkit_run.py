"""Runs evotoolkit for so many seconds with a model that answers at once: `python evotoolkit_run.py FOLDER SECONDS`.

FunSearch in its steady mode, its event log on disk; prints JSON. The model is in the process, since the client of
evotoolkit speaks nothing but TLS.
"""

import contextlib
import json
import re
import sys
import threading
import time
from pathlib import Path

from evotoolkit import EvaluationResult, Runner, TaskSpec
from evotoolkit.proposers import ChatProposer
from evotoolkit.strategies import FunSearchStrategy
from programs import make_program
from rates import resident_mb, summary


class Model:
    """Answers with another program each time."""

    _model = "stub"

    def __init__(self) -> None:
        self._served = 0
        self._lock = threading.Lock()

    def get_response(self, messages):
        with self._lock:
            self._served += 1
            program = make_program(self._served, "python")
        usage = {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000}
        return f"name: x\ncode:\n```python\n{program}```\nthought: a small change\n", usage


class Evaluator:
    """Reads the one number that counts."""

    spec = TaskSpec("t", "Raise PARAM.", "python", "main.py")

    def __init__(self, log: Path, end: float) -> None:
        self._log = log
        self._end = end
        self._runner = None

    def evaluate(self, files):
        value = float(re.search(r"PARAM = ([0-9.]+)", files["main.py"]).group(1))
        with self._log.open("a") as file:
            file.write(f"{time.time():.6f}\n")
        if time.monotonic() > self._end:
            raise KeyboardInterrupt
        return EvaluationResult(True, value, "")


def main() -> None:
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    log = folder.with_suffix(".log")
    evaluator = Evaluator(log, time.monotonic() + seconds)
    strategy = FunSearchStrategy(evaluator.spec)
    proposer = ChatProposer(Model())
    runner = Runner(
        evaluator=evaluator,
        proposer=proposer,
        strategy=strategy,
        output_dir=folder,
        budget=10_000_000,
        mode="steady",
        verbose=False,
    )
    with contextlib.suppress(KeyboardInterrupt):
        runner.run()
    memory = resident_mb("self")
    began = time.monotonic()
    Runner.resume(folder, evaluator=evaluator, proposer=proposer, strategy=FunSearchStrategy(evaluator.spec))
    print(json.dumps(summary(log, memory_mb=memory) | {"resume_s": round(time.monotonic() - began, 2)}))


if __name__ == "__main__":
    main()
