"""The clock of a queue, which signal handlers wake."""

import sys
import threading
from types import FrameType
from typing import Any

from evokernel.queue.clock import QueueClock


def test_a_handler_may_wake_it_at_any_line_of_its_wait() -> None:
    clock, woken = QueueClock(), list[int]()

    def rest_with_a_handler_at_every_line() -> None:
        def trace(frame: FrameType, event: str, value: Any) -> Any:
            if frame.f_code.co_name != "wake":
                woken.append(frame.f_lineno)
                clock.wake()
            return trace

        sys.settrace(trace)
        clock.rest(3600.0)

    thread = threading.Thread(target=rest_with_a_handler_at_every_line, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert woken
