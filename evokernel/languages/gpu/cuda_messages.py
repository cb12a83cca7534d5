"""Messages to authors on failures of a build in the language `cuda`."""

from collections.abc import Mapping
from typing import Any

from evokernel.languages.gpu import triton_messages
from evokernel.source.tunables import read_tunables

_ADVICE = {
    "shared memory": "make the tiles in shared memory smaller, or keep fewer of them in flight",
    "threads": "launch smaller blocks",
    "registers": "declare the kernel with __launch_bounds__(threads of a block), or launch smaller blocks",
}


def digest_failure(failure: Mapping[str, Any], source: str) -> str:
    """Return the message of a failure as `evaluate/inside/untrusted/cuda_faults` describes one.

    Raises:
        ValueError: it is another document.
    """
    try:
        if failure["hidden"] or failure["stage"] != "resources":
            return triton_messages.digest_failure(failure, source)
        resource, required, limit = str(failure["resource"]), int(failure["required"]), int(failure["limit"])
        advice = _ADVICE[resource]
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not a failure: {error!r}") from None
    names = ", ".join(tunable.name for tunable in read_tunables(source).tunables)
    here = f" (tunables here: {names})" if names else ""
    unit = "bytes of shared memory" if resource == "shared memory" else resource
    return f"the kernel needs {required} {unit} for a block; the device has {limit}: {advice}{here}"
