"""Takes over the descriptors that a process was forked with, and closes all others."""

import fcntl
import os
from collections.abc import Sequence

OUT_OF_THE_WAY = 64
LAST_DESCRIPTOR = 4096


def keep_only(sources: Sequence[int], targets: Sequence[int]) -> None:
    """Move each source to its target, which started programs do not inherit; close all others but 0, 1 and 2."""
    moved = [fcntl.fcntl(source, fcntl.F_DUPFD, OUT_OF_THE_WAY) for source in sources]
    for source, target in zip(moved, targets, strict=True):
        os.dup2(source, target, inheritable=target <= 2)
    first = 3
    for target in sorted(target for target in targets if target >= first):
        os.closerange(first, target)
        first = target + 1
    os.closerange(first, LAST_DESCRIPTOR)
