"""Limited resources that a candidate needs, read from its evaluation."""

import re
from collections.abc import Mapping

from evokernel.records.evaluation import Evaluation

_SHORTAGE = re.compile(
    r"the kernel needs (?P<need>\d{1,15}) (?:bytes of |of )?(?P<name>[\w ]{1,40}?)(?: for a (?:block|program))?; "
    r"the (?:device has|limit is) (?P<limit>\d{1,15})"
)
SHARED = "shared memory"


def resources_of(evaluation: Evaluation) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return by name what a candidate needs, and the limits of what it needs too much of.

    What was compiled says its shared memory, in bytes; where the device has too little, the compiler's message says so.
    """
    found = _SHORTAGE.search(evaluation.feedback) if not evaluation.ok else None
    if found is not None:
        return {found["name"]: float(found["need"])}, {found["name"]: float(found["limit"])}
    shared = evaluation.descriptor.get("shared_kib", 0.0)
    return ({SHARED: 1024.0 * shared} if shared > 0 else {}), {}
