"""The kernels that GPU tests plant can be built, and their machine code is what each is meant to have."""

import importlib.util
from pathlib import Path

import pytest

from evokernel.evaluate.inside.untrusted.cubin_description import describe
from evokernel.evaluate.instruments.bottlenecks import RULES
from evokernel.languages.gpu.cuda import CudaLanguage
from evokernel.languages.gpu.triton import TritonLanguage
from evokernel.protocols import Language
from tests.gpu import fault_kernels as planted
from tests.support.nvrtc import needs_nvrtc
from tests.support.warm_compiler import WarmForge

pytestmark = [
    needs_nvrtc,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
]
KERNELS = planted.kernels(132)
OTHERS = planted.FOR_SANITIZERS
HOPPER = planted.target_of(90, shared_bytes=232448)


@pytest.fixture(scope="module")
def languages() -> dict[str, Language]:
    forge = WarmForge()
    return {"cuda": CudaLanguage(forge=forge), "triton": TritonLanguage(forge=forge)}


def facts(languages: dict[str, Language], kernel: planted.Planted, folder: Path) -> dict[str, int]:
    content = {"x": b""}
    call = planted.recorded(
        languages[kernel.language], kernel.source, kernel.workload, content, task=planted.TASK, target=HOPPER
    )
    (image,) = call.cubins.values()
    return describe(image, folder)


def test_every_rule_has_a_kernel_and_a_neighbour() -> None:
    names = [rule.name for rule in RULES]
    assert set(names) <= KERNELS.keys()
    assert planted.NEIGHBOUR.keys() == set(names)
    assert set(planted.NEIGHBOUR.values()) <= KERNELS.keys()


@pytest.mark.parametrize("name", [*KERNELS, *OTHERS])
def test_a_planted_kernel_is_what_it_is_meant_to_be(name: str, languages: dict[str, Language], tmp_path: Path) -> None:
    found = facts(languages, {**KERNELS, **OTHERS}[name], tmp_path)
    if name == "register spills":
        assert found["local_accesses"] > 2
    else:
        assert found["local_bytes"] == 0
    match name:
        case "tensor pipe":
            assert found["tensor_cores"] == 2
            assert found["tensor"] >= 4
        case "special functions":
            assert found["special"] >= 64
        case "fp32 pipe" | "idle multiprocessors" | "whole waves" | "tail":
            assert found["fma"] >= 64
        case "integer and logic pipe":
            assert found["integer"] >= 128
        case "instruction issue":
            assert found["fma"] >= 60
            assert found["integer"] >= 30
        case "shared memory bank conflicts" | "shared memory without conflicts":
            assert found["shared"] >= 8
        case "barriers":
            assert found["barriers"] >= 1
        case "too few warps" | "memory latency":
            assert found["loads"] >= 1
