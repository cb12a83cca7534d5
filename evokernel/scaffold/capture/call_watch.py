"""Watch over a running program: each call of chosen Python code, as it begins."""

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from evokernel.errors import TaskError


class CallWatch:
    """Hands over the frames of chosen code, in this thread and in those that start meanwhile.

    An error while one is handed over ends the watch, not the program.
    """

    def __init__(self, wanted: Callable[[CodeType], bool], seen: Callable[[FrameType], None]) -> None:
        self._wanted, self._seen = wanted, seen
        self._before: Any = None
        self.fault: TaskError | None = None
        """The error that ended the watch."""

    def __enter__(self) -> "CallWatch":
        found = sys.getprofile()
        self._before = found if callable(found) else None
        threading.setprofile(self._look)
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        threading.setprofile(self._before)

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._before is not None:  # one watch within another
            self._before(frame, event, argument)
        if event == "call" and self.fault is None and self._wanted(frame.f_code):
            try:
                self._seen(frame)
            except TaskError as error:
                self.fault = error
            except Exception as error:  # noqa: BLE001 - the program that is watched goes on
                self.fault = TaskError(f"a call of {frame.f_code.co_name} could not be read: {error}")
