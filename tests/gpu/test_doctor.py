"""`evokernel doctor` on a machine with a GPU: every part is looked at, and candidates can reach the GPU."""

import pytest

from evokernel.doctor.finding import FindingLevel
from evokernel.doctor.gpu import examine_gpu
from evokernel.evaluate.device.device_class import this_machine
from tests.support.fakes import PARTS_OF_A_GPU

pytestmark = pytest.mark.gpu


def test_every_part_of_a_gpu_is_looked_at() -> None:
    found = {finding.name: finding for finding in examine_gpu(this_machine())}
    assert found.keys() == PARTS_OF_A_GPU
    for name in ("gpu", "torch cuda", "triton", "nvrtc", "gpu nodes"):
        assert found[name].state is FindingLevel.OK, found[name]
