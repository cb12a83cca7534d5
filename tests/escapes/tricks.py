"""What each hostile program ends with: where it is refused, and where the sandbox names the hole it gets through."""

from collections.abc import Iterable
from dataclasses import dataclass

from evokernel.records.evaluation import Status

GOT_THROUGH = "SIGILL"
"""How a worker says that a trick was not refused, see prelude.h."""
OUT_OF_TIME = "did not end within"
"""How a judge says that a sanitizer run took too long."""
FILES = ("files readable by everybody", "files that you can read")
NAMES = ("file names and attributes seen anywhere", *FILES)
WRITABLE = ("files that the candidate's user may write can be written",)
JUDGE = ("the judge's environment and memory can be read and changed",)
NUMBERS = ("process numbers",)
IDENTITY = ("under your user id",)


COMPILE_S = 20
"""The longest that a compiler may take, in s: others than the one that takes minutes end in time on a busy machine."""


@dataclass(frozen=True, slots=True)
class Trick:
    """What a program may end with where it is refused, the likeliest first and with it what its author is told.

    `holes` are words of the holes through which it gets, where the sandbox has them.
    """

    statuses: tuple[Status, ...] = (Status.OK,)
    told: str = ""
    holes: tuple[str, ...] = ()
    sanitized: bool = False
    """It does something under the sanitizers only, which on a busy machine may run out of time, at all or for it."""

    def is_open(self, holes: Iterable[str]) -> bool:
        """Tell whether a sandbox with these holes says that the trick gets through."""
        return any(words in hole for hole in holes for words in self.holes)


def _ends(*statuses: Status, told: str = "") -> Trick:
    return Trick(statuses, told)


def _opens(words: tuple[str, ...]) -> Trick:
    return Trick(holes=words)


TRICKS = {
    "endless_loop": _ends(Status.TIMEOUT, told="no answer within 2 s"),
    "daemons": _ends(Status.OK),
    "fork_bomb": _ends(Status.OK),
    "thread_bomb": _ends(Status.OK),
    "thread_left_behind": _ends(Status.OK),
    "segfault": _ends(Status.WORKER_DIED, told="SIGSEGV"),
    "deep_recursion": _ends(Status.WORKER_DIED, told="SIGSEGV"),
    "abort": _ends(Status.WORKER_DIED, told="SIGABRT"),
    "throw": _ends(Status.WORKER_DIED, told="SIGABRT"),
    "exit_0": _ends(Status.WORKER_DIED, told="its process ended"),
    "exit_0_at_once": _ends(Status.WORKER_DIED, told="its process ended"),
    "hangs_up": _ends(Status.WORKER_DIED, told="its process ended"),
    "longjmp": _ends(Status.UNWRITTEN_OUTPUT, Status.WORKER_DIED, Status.TIMEOUT),
    # The first process of a namespace is deaf to its own signals, that of the sanitizers is not.
    "stops_itself": _ends(Status.OK, Status.TIMEOUT, Status.SANITIZER),
    "constructor_hangs": _ends(Status.TIMEOUT, told="while loading"),
    "constructor_exits": _ends(Status.WORKER_DIED, told="while loading"),
    "constructor_tries": _opens(WRITABLE),
    "memory_100_gib": _ends(Status.OUT_OF_MEMORY, told="memory could not be allocated"),
    "memory_hoarded": _ends(Status.OUT_OF_MEMORY, told="memory could not be allocated"),
    "memory_touched": Trick((Status.OUT_OF_MEMORY,), "512 MiB of memory in use", sanitized=True),
    "fill_disk": _opens(WRITABLE),
    "chatter": _ends(Status.OK),
    "secret_in_environment": _ends(Status.OK),
    "secret_at_home": _opens(FILES),
    "secret_of_the_judge": _opens(JUDGE),
    "memory_of_the_judge": _opens(JUDGE),
    "sees_names": _opens(NAMES),
    "sees_processes": _opens(NUMBERS),
    "runs_as_you": _opens(IDENTITY),
    "sockets": _ends(Status.OK),
    "writes_outside": _opens(WRITABLE),
    "changes_attributes": _ends(Status.OK),
    "signals": _ends(Status.OK),
    "shared_pages": _ends(Status.OK),
    "float_mode": _ends(Status.OK),
    "ten_mib_of_errors": _ends(Status.COMPILE_ERROR),
    "compiler_minutes": _ends(Status.COMPILE_TIMEOUT, told=f"more than {COMPILE_S} s"),
    "compiler_gigabytes": _ends(Status.COMPILE_ERROR, Status.COMPILE_TIMEOUT, told="memory"),
    "compiler_disk": _ends(Status.COMPILE_ERROR, Status.COMPILE_TIMEOUT, told="File too large"),
    "includes_outside": _ends(Status.STATIC_REJECT, told="only standard headers"),
    "embeds_outside": Trick((Status.COMPILE_ERROR,), "key", FILES),
    "no_text": _ends(Status.STATIC_REJECT),
    "empty": _ends(Status.STATIC_REJECT, told="entry point is missing"),
    "fifty_mib": _ends(Status.STATIC_REJECT, told="the limit is"),
}
LEAVING = ("constructor_tries", "fill_disk")
"""What leaves files where nothing guards them."""
