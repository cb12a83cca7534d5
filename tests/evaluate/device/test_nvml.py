"""On any machine: what hides a GPU hides it here, too, and what NVML answers is understood. A real one: tests/gpu."""

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evokernel.evaluate.device import nvml
from evokernel.evaluate.device.gpu_conditions import compute_processes


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


ASKED = """
import json
from dataclasses import asdict
from evokernel.evaluate.device import nvml
from evokernel.evaluate.device.gpu_conditions import clocks, compute_processes

def said(ask, index):
    try:
        return ask(index)
    except nvml.NvmlError as error:
        return str(error)

print(json.dumps([
    [asdict(gpu) for gpu in nvml.visible_gpus()], nvml.gpu_count(), compute_processes(0),
    said(compute_processes, 1), said(nvml.handle, 2), said(clocks, 0),
]))
"""


def test_facts_neighbours_and_refusals_are_those_of_the_driver(tmp_path: Path):
    source, library = Path(__file__).with_name("libnvidia-ml.c"), tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": "1,0"}
    done = subprocess.run([sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, check=True)
    gpus, count, processes, refused, nobody, reasons = json.loads(done.stdout)
    h100 = {
        "name": "NVIDIA H100 80GB HBM3",
        "index": 0,
        "uuid": "GPU-1111",
        "capability": 90,
        "multiprocessors": 132,
        "shared_bytes": 227 << 10,
        "registers_per_multiprocessor": 65536,
        "threads_per_multiprocessor": 2048,
        "memory_bytes": 85520809984,
        "driver": "580.65.06",
    }
    a10 = {"name": "NVIDIA A10", "index": 1, "uuid": "GPU-2222", "capability": 86, "multiprocessors": 0}
    small = {"shared_bytes": 99 << 10, "threads_per_multiprocessor": 1536}
    assert gpus == [h100 | a10 | small, h100]
    assert (count, processes) == (2, {"41": 5 << 30, "42": 0})
    assert refused == "nvmlDeviceGetComputeRunningProcesses_v3: Unknown Error"
    assert nobody == "nvmlDeviceGetHandleByIndex: Invalid Argument"
    assert reasons == "nvmlDeviceGetCurrentClocksThrottleReasons is not in this driver's NVML"


def test_without_the_package_there_is_no_gpu():
    code = (
        "import sys; sys.modules['pynvml'] = None; from evokernel.evaluate.device import nvml; print(nvml.gpu_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(nvml.visible_gpus())"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "()"]


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
