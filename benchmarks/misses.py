"""How often one judge errs about exhibits in C++: fresh judges for each round, and each verdict on the wrong side.

`python benchmarks/misses.py [ROUNDS] [--task NAME]`; a round of all exhibits takes 10 to 15 minutes on two cores.
"""

import argparse
import sys
from itertools import groupby
from pathlib import Path

from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.records.evaluation import Stage

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.museum.exhibits import CHEATS, HONEST, Exhibit, read_exhibits
from tests.museum.on_processor import judge_exhibits


def exhibits(task: str) -> list[Exhibit]:
    """Return all honest kernels, and the cheats whose verdict hangs on no time, of a task or of all."""
    cheats = read_exhibits(CHEATS / "cpp")
    untimed = [each for each in cheats if all(stage is not Stage.QUICK for _, stage in each.verdicts())]
    found = [each for each in (*untimed, *read_exhibits(HONEST / "cpp")) if task in ("", each.head["task"])]
    return sorted(found, key=_room)


def main() -> None:
    """Print each verdict on the wrong side, and after each round how many there were of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=1)
    parser.add_argument("--task", default="", help="a file of tests/museum/tasks without its suffix; all by default")
    asked = parser.parse_args()
    chosen = exhibits(asked.task)
    if not chosen:
        parser.error(
            f"no exhibit in C++ has the task {asked.task!r}; expected a file of tests/museum/tasks without .py"
        )
    verdicts = misses = 0
    for number in range(1, asked.rounds + 1):
        for _, room in groupby(chosen, key=_room):
            members = list(room)
            with JudgeHostClient("cpu") as host:
                found = judge_exhibits(members, start=host)
            for each in members:
                verdict = found[each.name]
                if not each.rightly_judged(verdict.status, verdict.stage):
                    misses += 1
                    print(
                        f"{each.label}: {verdict.status.value} at {verdict.stage.value}; {verdict.feedback}", flush=True
                    )
            verdicts += len(members)
        print(f"after round {number}: {misses} of {verdicts} verdicts on the wrong side", flush=True)


def _room(exhibit: Exhibit) -> tuple[str, int]:
    return exhibit.task, exhibit.threads


if __name__ == "__main__":
    main()
