import time

import pytest
import torch

from evokernel.evaluate.device.cpu_roofline import is_impossible
from evokernel.evaluate.device.gpu_roofline import device_name, floor_of, measure_device
from evokernel.evaluate.device.nvml import visible_gpu


@pytest.fixture(scope="module")
def sheet() -> dict[str, float]:
    torch.zeros(1, device="cuda")
    begin = time.perf_counter()
    measured = measure_device()
    print(f"\nmeasured in {time.perf_counter() - begin:.2f} s:")
    for name, value in measured.items():
        print(f"  {name} {value:.6g}")
    return measured


def test_the_sheet_is_plausible(sheet: dict[str, float]):
    assert 200 < sheet["dram_copy_gb_s"] < 10e3
    assert 200 < sheet["dram_read_gb_s"] < 10e3
    assert sheet["l2_read_gb_s"] > sheet["dram_read_gb_s"]
    assert 5e3 < sheet["peak_fp32_gflop_s"] < 200e3
    assert sheet["peak_fp16_gflop_s"] > 2 * sheet["peak_fp32_gflop_s"]
    assert 0.2 < sheet["graph_launch_us"] < sheet["launch_us"] < 50


def test_nvml_and_torch_agree_on_the_gpu(sheet: dict[str, float]):
    gpu = visible_gpu()
    print(f"\n{gpu}")
    assert gpu is not None
    assert gpu.name == device_name() == torch.cuda.get_device_name()
    assert gpu.capability == sheet["capability"]
    assert gpu.multiprocessors == sheet["multiprocessors"]
    assert gpu.shared_bytes == sheet["shared_bytes"]
    assert gpu.memory_bytes == pytest.approx(sheet["memory_bytes"], rel=0.05)


def test_looking_for_a_gpu_takes_no_time():
    visible_gpu()
    begin = time.perf_counter()
    visible_gpu()
    assert time.perf_counter() - begin < 0.1


def test_what_torch_does_is_not_impossible(sheet: dict[str, float]):
    for dtype, side in (("bfloat16", 4096), ("float32", 2048), ("float32", 1024)):
        left, right = (torch.zeros((side, side), dtype=getattr(torch, dtype), device="cuda") for _ in range(2))
        least = floor_of(2 * side**3, 3 * left.nbytes, dtype, sheet, allow_tf32=False).us
        taken = _mean_us(left, right)
        print(f"\n{dtype} {side}: {taken:.1f} us, floor {least:.1f} us")
        assert not is_impossible(taken, least)


def _mean_us(left: torch.Tensor, right: torch.Tensor) -> float:
    out = torch.empty_like(left)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(5):
        torch.matmul(left, right, out=out)
    begin.record()
    for _ in range(20):
        torch.matmul(left, right, out=out)
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e3 / 20
