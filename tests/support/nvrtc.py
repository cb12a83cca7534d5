"""The mark of tests that compile CUDA C++, which needs no GPU but NVRTC, and what takes machine code apart."""

import pytest

from evokernel.evaluate.inside.driver.nvrtc import NvrtcMissing, find_nvrtc
from evokernel.evaluate.inside.untrusted.cubin_description import find_cuobjdump


def _missing() -> str:
    try:
        find_nvrtc()
    except NvrtcMissing as error:
        return str(error)
    return "" if find_cuobjdump() else "cuobjdump is missing"


needs_nvrtc = pytest.mark.skipif(bool(_missing()), reason=_missing() or "nothing is missing")
