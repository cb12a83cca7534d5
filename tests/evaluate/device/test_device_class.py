"""Which device class a run gets: a table over what is asked for, what the task offers and what the machine has."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from archive.store import Store
from evokernel.config.load import load_config
from evokernel.config.run import RunConfig, dump_config
from evokernel.engine.assemble import check_same_class, make_island
from evokernel.errors import ConfigError, RunMismatch
from evokernel.evaluate.device.cores import default_in_flight
from evokernel.evaluate.device.device_class import Machine, gpus_note, resolve_device
from evokernel.languages.device_limits import DeviceLimits
from evokernel.protocols import Operator
from evokernel.tasks import load_task
from operators.rules.rewrite import Rewrite
from operators.rules.tune import Tune
from tests.support.engine import TASK as CPU_TASK
from tests.support.fakes import H100

GEMM = load_task("gemm")
CONFIGS = Path(__file__).parents[3] / "configs"
GPU = Machine(H100, triton=True)
NO_GPU = Machine(None, triton=True)
NO_TRITON = Machine(H100, triton=False)


def config(**changes: object) -> RunConfig:
    base = {"task": "gemm", "budget": {"evaluations": 5}, "islands": [{"name": "one", "operators": {"tune": 1}}]}
    return RunConfig.model_validate(base | changes)


@pytest.mark.parametrize(
    ("asked", "machine", "device"),
    [
        ({}, GPU, "cuda"),
        ({}, NO_GPU, "cpu"),
        ({}, NO_TRITON, "cpu"),
        ({"device": "cpu"}, GPU, "cpu"),
        ({"language": "cpp"}, GPU, "cpu"),
        ({"device": "cuda"}, GPU, "cuda"),
        ({"language": "triton"}, GPU, "cuda"),
        ({"language": "triton", "device": "cuda"}, GPU, "cuda"),
        ({"seed_sources": ["mine.cpp"]}, GPU, "cpu"),
        ({"seed_sources": ["mine.py"]}, GPU, "cuda"),
        ({"seed_sources": ["mine.cpp", "mine.py"]}, GPU, "cuda"),
    ],
)
def test_choice(asked: dict[str, object], machine: Machine, device: str) -> None:
    resolved = resolve_device(config(**asked), GEMM, machine=machine)
    assert resolved.device == resolved.config.device == device
    assert resolved.config.language == {"cpu": "cpp", "cuda": "triton"}[device]
    assert resolved.note.warning == (machine is NO_TRITON and not asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"language": "cuda"},
        {"seed_sources": ["a.cu.py", "b.cu.py"]},
        {"device": "cuda", "seed_sources": ["a.cu.py"]},
        {"device": "cuda", "language": "cuda", "seed_sources": ["a.cu.py", "b.py"]},
    ],
)
def test_cuda_is_a_language_of_its_own_on_the_same_devices(asked: dict[str, object]) -> None:
    resolved = resolve_device(config(**asked), GEMM, machine=GPU)
    assert (resolved.device, resolved.config.language) == ("cuda", "cuda")
    assert resolved.note.text == "evolving CUDA C++ on NVIDIA H100"
    assert set(resolved.config.islands[0].niches.axes) == {"registers", "shared_kib", "tensor_cores", "spills"}
    with pytest.raises(ConfigError, match="CUDA C\\+\\+ on device class cuda is what the config asks for"):
        resolve_device(config(**asked), GEMM, machine=NO_GPU)


class OfTriton(Rewrite):
    def supports(self, language: str) -> bool:
        return language == "triton"


def test_an_island_leaves_out_what_has_nothing_to_offer_in_its_language() -> None:
    island = config(islands=[{"name": "one", "operators": {"tune": 1, "rewrite": 3}}]).islands[0]
    operators: dict[str, Operator] = {"tune": Tune(), "rewrite": OfTriton()}
    assert make_island(island, operators, language="triton").operators == {"tune": 1, "rewrite": 3}
    assert make_island(island, operators, language="cuda").operators == {"tune": 1}
    only = config(islands=[{"name": "one", "operators": {"rewrite": 1}}]).islands[0]
    with pytest.raises(ConfigError, match="rewrite cannot work on cuda"):
        make_island(only, operators, language="cuda")


def test_a_gpu_that_cannot_be_used_is_named_with_the_reason() -> None:
    note = resolve_device(config(), GEMM, machine=NO_TRITON).note
    assert note.text == (
        "NVIDIA H100 is left alone, evolving C++ on the processor: triton is not installed (pip install triton)"
    )
    note = resolve_device(config(), replace(GEMM, seeds={"cpp": GEMM.seeds["cpp"]}), machine=GPU).note
    assert "has no seed in triton" in note.text
    on_cpu = replace(GEMM, seeds={"cpp": GEMM.seeds["cpp"]}, workloads={"cpu": GEMM.workloads["cpu"]})
    note = resolve_device(config(), on_cpu, machine=GPU).note
    assert note.text.endswith(f"task {GEMM.name!r} has no cuda workloads")


@pytest.mark.parametrize(
    ("asked", "machine", "words"),
    [
        (
            {"device": "cuda"},
            NO_GPU,
            ["Triton on device class cuda", "no NVIDIA GPU is visible here", "both auto"],
        ),
        ({"language": "triton"}, NO_TRITON, ["triton is not installed"]),
        ({"seed_sources": ["mine.py"]}, NO_GPU, ["no NVIDIA GPU"]),
    ],
)
def test_what_is_asked_for_and_impossible_is_refused(
    asked: dict[str, object], machine: Machine, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_device(config(**asked), GEMM, machine=machine)
    for word in words:
        assert word in str(caught.value)


def test_a_task_for_neither_says_both_reasons() -> None:
    task = replace(CPU_TASK, workloads={"cuda": CPU_TASK.workloads["cpu"]}, seeds={"triton": Path("x.py")})
    with pytest.raises(ConfigError, match=r"neither on a GPU \(no NVIDIA GPU[^)]*\) nor.*no cpu workloads and"):
        resolve_device(config(), task, machine=NO_GPU)


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.yaml")), ids=lambda file: file.name)
def test_every_shipped_config_serves_the_machines_its_task_is_for(file: Path) -> None:
    settings = load_config(file)
    task = load_task(settings.task)
    wanted = "cuda" if settings.device == "auto" else settings.device
    assert resolve_device(settings, task, machine=GPU).device == wanted
    if "cpu" not in task.workloads:
        with pytest.raises(ConfigError, match=r"neither on a GPU .* nor on the processor"):
            resolve_device(settings, task, machine=NO_GPU)
        return
    assert resolve_device(settings, task, machine=NO_GPU).device == "cpu"
    forced = load_config(file, overrides=["device=cpu"])
    assert resolve_device(forced, task, machine=GPU).config.language == "cpp"


def test_kernels_are_compiled_against_the_limits_of_the_gpu_that_is_there() -> None:
    assert GPU.limits("cuda") == DeviceLimits()  # those of an H100
    assert GPU.limits("cpu") is None
    assert NO_GPU.limits("cuda") is None


def test_a_store_of_another_class_is_refused_before_anything_starts(tmp_path: Path) -> None:
    on_gpu, on_cpu = (resolve_device(config(), GEMM, machine=machine) for machine in (GPU, NO_GPU))
    with Store.open(tmp_path / "run.db", write=True) as store:
        check_same_class(store, on_cpu)
        store.set_meta("config", dump_config(on_gpu.config))
        check_same_class(store, on_gpu)
        with pytest.raises(RunMismatch) as caught:
            check_same_class(store, on_cpu)
    for word in ("run.db", "device class cuda", "no NVIDIA GPU is visible here", "--set device=cuda", "--fresh"):
        assert word in str(caught.value)


def test_looking_at_this_machine_imports_neither_triton_nor_torch() -> None:
    script = (
        "import sys; from evokernel.evaluate.device.device_class import this_machine; found = this_machine(); "
        "assert found.gpu is None or found.gpu; assert not {'triton', 'torch'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def many(*names: str) -> Machine:
    gpus = [replace(H100, name=name, index=index, uuid=f"GPU-{index}") for index, name in enumerate(names)]
    return Machine(gpus[0], triton=True, others=tuple(gpus[1:]))


@pytest.mark.parametrize(
    ("machine", "wanted", "used", "said"),
    [
        (GPU, "all", [0], None),
        (many("H100", "H100"), "all", [0, 1], "candidates are judged on 2 GPUs"),
        (many("H100", "T400", "H100"), "all", [0, 2], "candidates are judged on 2 GPUs; left alone: T400 (GPU 1)"),
        (many("H100", "H100"), 1, [0], "candidates are judged on 1 GPU; left alone: H100 (GPU 1)"),
        (many("H100", "H100"), 9, [0, 1], "candidates are judged on 2 GPUs"),
        (NO_GPU, "all", [], None),
    ],
)
def test_candidates_go_to_gpus_of_one_model(
    machine: Machine, wanted: int | Literal["all"], used: list[int], said: str | None
) -> None:
    gpus = machine.gpus("cuda", wanted=wanted)
    note = gpus_note(machine, used=gpus)
    assert [gpu.index for gpu in gpus] == used
    assert (note.text if note else None) == said
    assert machine.gpus("cpu", wanted=wanted) == ()


def test_one_name_with_two_sizes_of_memory_is_two_models() -> None:
    small = replace(H100, index=1, memory_bytes=H100.memory_bytes // 2)
    assert Machine(H100, triton=True, others=(small,)).gpus("cuda", wanted="all") == (H100,)


@pytest.mark.parametrize(
    ("device", "gpus", "cores", "expected"),
    [("cpu", 0, 4, 5), ("cuda", 1, 2, 4), ("cuda", 1, 16, 12), ("cuda", 2, 16, 10), ("cuda", 8, 128, 96)],
)
def test_enough_is_in_flight_to_keep_compilers_and_gpus_at_work(
    device: str, gpus: int, cores: int, expected: int
) -> None:
    assert default_in_flight(device, gpus=gpus, cores=cores) == expected
