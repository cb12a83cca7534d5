"""Runs OpenEvolve for so many seconds against the stub: `python openevolve_run.py FOLDER SECONDS`; prints JSON.

Its defaults, but for full rewrites, one evaluator, no cascade, and a population that keeps every program, as ours does.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rates import resident_mb, summary, until_there

CONFIG = """\
max_iterations: 1000000
checkpoint_interval: 100
random_seed: 42
diff_based_evolution: false
max_code_length: 20000
llm:
  api_base: http://127.0.0.1:{port}/v1
  api_key: none
  retries: 1
  models:
    - name: stub
      weight: 1.0
database:
  population_size: 1000000
evaluator:
  cascade_evaluation: false
  parallel_evaluations: 1
  max_retries: 0
"""
EVALUATOR = """\
import os, re, time
from openevolve.evaluation_result import EvaluationResult

LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "judged.log")


def evaluate(path):
    value = float(re.search(r"PARAM = ([0-9.]+)", open(path).read()).group(1))
    with open(LOG, "a") as file:
        file.write("%.6f\\n" % time.time())
    return EvaluationResult(metrics={"combined_score": value}, artifacts={})
"""
INITIAL = """\
# EVOLVE-BLOCK-START
PARAM = 0.000001
# EVOLVE-BLOCK-END


def run(seed=0):
    return PARAM
"""


RESUME_S = 180.0


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start it in a folder with its three files."""
    command = [str(Path(sys.executable).with_name("openevolve-run")), "initial.py", "evaluator.py"]
    with (folder / "output.txt").open("a") as output:
        return subprocess.Popen(
            [*command, "--config", "config.yaml", "--output", "out", "--iterations", "1000000", *more],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it and what it started."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
            process.wait(20)
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue


def grow(process: subprocess.Popen[bytes], seconds: float) -> float:
    """Let it run for so long; return the most memory its main process had, in MB."""
    most, end = 0.0, time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(1)
        most = max(most, resident_mb(process.pid))
    return most


def resume_s(folder: Path) -> float | None:
    """Return how long it takes from the start of the command to the first new program, or None beyond the limit."""
    log = folder / "judged.log"
    checkpoints = sorted((folder / "out/checkpoints").iterdir(), key=lambda path: int(path.name.rpartition("_")[2]))
    size, began = log.stat().st_size, time.monotonic()
    process = start(folder, "--checkpoint", str(checkpoints[-1].relative_to(folder)))
    try:
        while time.monotonic() < began + RESUME_S and process.poll() is None:
            if log.stat().st_size > size:
                return round(time.monotonic() - began, 1)
            time.sleep(0.05)
        return None
    finally:
        stop(process)


def main() -> None:
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    folder.mkdir(parents=True)
    stub = subprocess.Popen([sys.executable, str(Path(__file__).with_name("stub.py")), str(folder / "port")])
    try:
        port = until_there(folder / "port")
        files = {"config.yaml": CONFIG.format(port=port), "evaluator.py": EVALUATOR, "initial.py": INITIAL}
        for name, text in files.items():
            (folder / name).write_text(text)
        process = start(folder)
        most = grow(process, seconds)
        stop(process)
        found = summary(folder / "judged.log", memory_mb=most)
        print(json.dumps(found | {"resume_s": resume_s(folder)}))
    finally:
        stub.kill()


if __name__ == "__main__":
    main()
