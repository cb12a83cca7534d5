"""`evokernel queue run` with toy searches: `toy_queue.py QUEUE SECONDS_EACH [EVALUATIONS]`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from evokernel.queue.file import QueueFile
from evokernel.queue.runner import QueueRunner
from evokernel.queue.session import ChildSession, ChildSessions

TOY = Path(__file__).parents[1] / "cli" / "toy_evolve.py"


class ToySessions(ChildSessions):
    """Starts a toy on the store that the command names."""

    def __init__(self, *settings: str) -> None:
        self._settings = settings

    def start(self, command: Sequence[str], *, log: Path, mark: str) -> ChildSession:
        store = command[command.index("--store") + 1]
        return super().start([sys.executable, str(TOY), store, *self._settings], log=log, mark=mark)


if __name__ == "__main__":
    with QueueFile.open(Path(sys.argv[1])) as queue:
        print(QueueRunner(queue, say=print, host=ToySessions(*sys.argv[2:])).run())
