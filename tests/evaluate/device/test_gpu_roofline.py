import pytest

from evokernel.errors import HarnessError
from evokernel.evaluate.device.cpu_roofline import is_impossible
from evokernel.evaluate.device.gpu_roofline import device_name, floor_of
from evokernel.records.timing import Limit

SHEET = {
    "peak_fp32_gflop_s": 50e3,
    "peak_tf32_gflop_s": 400e3,
    "peak_fp16_gflop_s": 800e3,
    "peak_bf16_gflop_s": 800e3,
    "peak_fp64_gflop_s": 60e3,
    "dram_read_gb_s": 2500.0,
    "dram_copy_gb_s": 3000.0,
    "l2_read_gb_s": 5000.0,
    "l2_copy_gb_s": 4000.0,
    "l2_bytes": 50e6,
    "graph_launch_us": 1.2,
}


@pytest.mark.parametrize(
    ("flops", "moved", "dtype", "allow_tf32", "us"),
    [
        (1e12, 0, "bfloat16", False, 1000.0),  # 800 TFLOP/s and a quarter
        (1e12, 0, "float16", False, 1000.0),
        (1e12, 0, "float32", True, 1000.0),  # TF32 is as coarse as halves, and they are faster
        (1e12, 0, "float32", False, 3000.0),  # three products of halves
        (7.5e11, 0, "float64", False, 10000.0),
        (1e12, 0, "int32", False, 0.0),
        (1e12, 0, "", False, 0.0),  # a task of integers alone
        (0, 300e6, "float32", False, 100.0),  # copying is the faster way here
        (0, 37.5e6, "float32", False, 5.0),  # fits the second level
        (1e12, 300e9, "bfloat16", False, 1e5),
    ],
)
def test_the_floor_is_the_longer_of_arithmetic_and_memory(
    flops: float, moved: float, dtype: str, allow_tf32: bool, us: float
):
    assert floor_of(flops, moved, dtype, SHEET, allow_tf32=allow_tf32).us == pytest.approx(us)


def test_a_gpu_without_a_type_or_a_known_cache_has_a_floor_all_the_same():
    sheet = {name: value for name, value in SHEET.items() if name.startswith(("peak_fp32", "dram"))}
    computed = floor_of(1e12, 0, "bfloat16", sheet, allow_tf32=False)
    assert (computed.us, computed.limit) == (pytest.approx(16000.0), Limit.ARITHMETIC)
    moved = floor_of(0, 3e6, "bfloat16", sheet, allow_tf32=False)
    assert (moved.us, moved.limit) == (pytest.approx(1.0), Limit.MEMORY)


def test_a_matrix_product_as_fast_as_the_library_is_never_impossible():
    least = floor_of(2 * 4096**3, 3 * 2 * 4096**2, "bfloat16", SHEET, allow_tf32=False)
    assert not is_impossible(2 * 4096**3 / 800e6, least.us)
    assert least.limit is Limit.ARITHMETIC


@pytest.mark.parametrize(("moved", "limit"), [(3e6, Limit.LAUNCH), (30e6, Limit.MEMORY), (0, Limit.LAUNCH)])
def test_what_takes_less_than_a_launch_in_a_graph_is_limited_by_that(moved: float, limit: Limit):
    assert floor_of(0, moved, "float32", SHEET, allow_tf32=False).limit is limit


def test_without_a_gpu_the_name_is_an_error_that_says_where_to_look(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(HarnessError, match="nvidia-smi"):
        device_name()
