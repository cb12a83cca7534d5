"""On any machine: what hides a GPU hides it here, too. What NVML answers is tried in tests/gpu."""

import ctypes
import time

import pytest

from evokernel.evaluate.device import nvml
from evokernel.evaluate.device.neighbours import _Process, compute_processes


def nvml_is_here() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles", "-1,0", "MIG-5", " "])
def test_a_variable_that_hides_every_gpu_is_honoured(monkeypatch: pytest.MonkeyPatch, value: str):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert nvml.visible_gpu() is None


@pytest.mark.parametrize("value", [None, "0", "3,1", "GPU-8932f937"])
def test_looking_for_a_gpu_is_cheap_and_never_fails(monkeypatch: pytest.MonkeyPatch, value: str | None):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    nvml.visible_gpu()
    begin = time.process_time()
    nvml.visible_gpu()
    assert time.process_time() - begin < 0.1


@pytest.mark.skipif(nvml_is_here(), reason="this machine has an NVIDIA driver")
def test_without_a_driver_there_is_no_gpu_and_nobody_is_listed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert nvml.visible_gpu() is None
    with pytest.raises(nvml.NvmlError, match="no NVIDIA driver"):
        compute_processes(0)


def test_structures_have_the_layout_of_the_header():
    assert ctypes.sizeof(_Process) == 24
    assert _Process.used.offset == 8


UUIDS = ["GPU-8932f937-d72c", "GPU-8932aaaa-0000", "GPU-11111111-2222"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, [0, 1, 2]),
        ("0", [0]),
        ("2, 0", [2, 0]),
        ("1,9,0", [1]),
        ("0,0", [0]),
        ("GPU-11111111", [2]),
        ("GPU-8932a,GPU-1", [1, 2]),
        ("GPU-ffff", []),
        ("1,MIG-5,0", [1]),
        ("", []),
        ("-1", []),
    ],
)
def test_gpus_are_named_by_number_and_by_the_beginning_of_their_uuid(value: str | None, expected: list[int]):
    assert nvml.named(value, UUIDS) == expected
