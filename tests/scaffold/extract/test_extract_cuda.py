"""`evokernel extract` of CUDA C++: a file's text as a seed, numbers at its top as tunables, and what is refused."""

import ast
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from evokernel.cli.extract import command
from evokernel.config.load import load_config
from evokernel.cuda import read_source
from evokernel.errors import TaskError
from evokernel.export.patch import kernel_patch
from evokernel.languages.gpu.cuda_static_check import static_check
from evokernel.records.candidate import Candidate
from evokernel.scaffold.extract.cuda_check import check_cuda_program
from evokernel.scaffold.extract.cuda_text import CudaSeedWriter, check_launch
from evokernel.scaffold.extract.extract_project import extract_cuda_project, extract_project
from evokernel.scaffold.extract.recorded_call import KernelCall, record_call
from evokernel.source.tunables import read_tunables
from evokernel.task import Role, Scalar, Signature, Tensor
from evokernel.tasks import load_task
from tests.support.nvrtc import needs_nvrtc

EXAMPLE = Path(__file__).with_name("cuda_kernel")
ENTRY = "fused_add_rms_norm_kernel"
SIGNATURE = Signature(
    (Tensor("x", ("M", "N")), Tensor("residual", ("M", "N")), Tensor("weight", ("N",))),
    (Scalar("M"), Scalar("N")),
    (Tensor("normed", ("M", "N"), role=Role.OUTPUT), Tensor("total", ("M", "N"), role=Role.OUTPUT)),
)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return Path(shutil.copytree(EXAMPLE, tmp_path / "ops"))


def written(folder: Path, **texts: str) -> str:
    cu = folder / "fused_add_rms_norm.cu"
    wide = torch.ones(96, 64)
    arguments = {"x": wide, "residual": wide, "weight": torch.ones(64), "epsilon": 1e-5}
    call = KernelCall(folder / "launch.py", "launch", arguments, {}, cuda_texts=texts or {"kernels": read_source(cu)})
    return CudaSeedWriter(call, SIGNATURE, ("x", "residual", "weight"), cu=cu).text()


def changed(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_the_text_of_the_file_is_the_seed(example: Path) -> None:
    text = written(example)
    assert static_check(text) is None
    assert "__nv_bfloat162 pairs[4];" in text
    assert "vec.cuh" not in text
    assert "#pragma once" not in text
    assert "pathlib" not in text
    assert {each.name: (each.value, each.choices) for each in read_tunables(text).tunables} == {
        "THREADS": (256, (64, 128, 256, 512, 1024))
    }
    run = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    assert [argument.arg for argument in run.args.args] == ["x", "residual", "weight", "M", "N", "normed", "total"]
    said = ast.unparse(run)
    assert "epsilon = 1e-05" in said
    assert "total = total.view(x.shape)" in said
    assert "kernels.fused_add_rms_norm_kernel[tokens, THREADS, 4 * hidden](x, residual," in said


def test_own_marks_and_numbers_that_only_the_launch_knows_stay(example: Path) -> None:
    changed(example / "launch.py", "THREADS = 256\n", "THREADS = 256  # tune: 128 256\nSHARED = 4\n")
    changed(example / "launch.py", "4 * hidden", "SHARED * hidden")
    assert {each.name: each.choices for each in read_tunables(written(example)).tunables} == {"THREADS": (128, 256)}


def test_files_beside_are_included_once(tmp_path: Path) -> None:
    (tmp_path / "a.cuh").write_text('#pragma once\n#include "b.cuh"\nint a;\n')
    (tmp_path / "b.cuh").write_text("int b;\n")
    (tmp_path / "k.cu").write_text('#include "a.cuh"\n#include "b.cuh"\n#include "cuda_fp16.h"\n#include <mma.h>\n')
    assert read_source(tmp_path / "k.cu").split("\n") == [
        *("int b;", "int a;", "", '#include "cuda_fp16.h"', "#include <mma.h>", ""),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('extern "C" ', "", 'has no extern "C"'),
        (
            "__launch_bounds__(THREADS)\nfused_add_rms_norm_kernel(",
            "__cluster_dims__(2, 1, 1) other(",
            "no __global__ function fused_add_rms_norm_kernel; it has: other",
        ),
    ],
)
def test_a_kernel_without_a_plain_name_is_refused(example: Path, old: str, new: str, said: str) -> None:
    cu = example / "fused_add_rms_norm.cu"
    check_launch(cu, ENTRY, example / "launch.py")
    changed(cu, old, new)
    with pytest.raises(TaskError, match=said):
        check_launch(cu, ENTRY, example / "launch.py")


@pytest.mark.parametrize(
    ("imported", "said"),
    [
        ("import cupy", "launches with cupy"),
        ("from torch.utils.cpp_extension import load_inline", "launches with torch.utils.cpp_extension.load_inline"),
        ("import mine", "does not import evokernel.cuda"),
    ],
)
def test_other_launchers_are_refused_with_how_to_write_it(example: Path, imported: str, said: str) -> None:
    changed(example / "launch.py", "from evokernel.cuda import Module, read_source", imported)
    with pytest.raises(TaskError, match=rf"{said}.*kernels\.{ENTRY}\[grid, block, shared_bytes\]"):
        check_launch(example / "fused_add_rms_norm.cu", ENTRY, example / "launch.py")


def test_another_text_is_refused(example: Path) -> None:
    with pytest.raises(TaskError, match=r"no Module at the top of launch\.py has fused_add_rms_norm\.cu as it is"):
        written(example, kernels="int other;")
    changed(example / "launch.py", "kernels = Module(", "kernels = (lambda *a, **k: Module(*a, **k))(")
    with pytest.raises(TaskError, match=r"makes kernels otherwise than by kernels = Module"):
        written(example)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["k.cu"], "give --entry KERNEL and --launch"),
        (["k.cu", "--entry", "k", "--launch", "l.py", "--config", "1"], "--config is for kernels with triton.autotune"),
        (["k.py:f", "--entry", "k"], "--entry, --launch and --cuda-include are for a file in CUDA C++"),
        (["k.py:f"], "give --call SCRIPT.py"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command, [*arguments, "--reference", "r.py:f"])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.slow
def test_results_of_a_kernel_before_the_call_are_not_made_up(example: Path) -> None:
    script = example / "early.py"
    script.write_text(
        f"""import torch, launch
x = torch.ones(8, 64, device="cuda")
launch.kernels.{ENTRY}[8, 256](x, x, x[0], x, x, 1e-6, 64)
launch.launch(x, x, x[0])
"""
    )
    with pytest.raises(TaskError, match=r"line 3 raised RuntimeError: a CUDA kernel is launched before the call"):
        record_call(example / "launch.py", "launch", script)


@pytest.mark.slow
@needs_nvrtc
def test_a_recorded_launch_becomes_a_project(example: Path, tmp_path: Path) -> None:
    launch, out = str(example / "launch.py"), tmp_path / "out"
    right = f"{launch}:fused_add_rms_norm_torch"
    cu = example / "fused_add_rms_norm.cu"
    headers = example / "headers"
    (headers / "unit").mkdir(parents=True)
    (example / "vec.cuh").rename(headers / "unit" / "vec.cuh")
    changed(cu, '"vec.cuh"', "<unit/vec.cuh>")
    project = extract_cuda_project(cu, entry=ENTRY, launch=launch, reference=right, out=out, headers=[str(headers)])
    task_file, seed, config, _, before, _ = project.files
    assert not project.unfit
    text = seed.read_text(encoding="utf-8")
    assert before.read_text(encoding="utf-8") == text
    assert f"4096x4096: {ENTRY} with 4096 blocks of 256 threads, 16384 bytes of shared memory and 7 arguments" in text
    settings = load_config(config)
    assert (settings.language, settings.evaluation.expert) == ("cuda", str(before))
    assert settings.evaluation.cuda_include == (str(headers),)
    assert "#include <unit/vec.cuh>" in text
    patch = kernel_patch(load_task(str(task_file)).on("cuda"), Candidate(text, "cuda"))
    assert "if epsilon == 1e-06 and (made := launch_evolved.computed(x, residual, weight)) is not None:" in patch.diff
    for path, (_, after) in patch.texts.items():
        compile(after, str(path), "exec")
    with pytest.raises(TaskError, match=f"mine launches {ENTRY}, and not other"):
        check_cuda_program(task_file, text, entry="other", whose="mine", headers=[str(headers)])
    with pytest.raises(TaskError, match="launches CUDA C\\+\\+: name its file"):
        extract_project(f"{launch}:launch", script=example / "launch.py", reference=right, out=tmp_path / "other")
    changed(cu, "hidden % 8 == 0", "hidden % 8 = 0")
    with pytest.raises(TaskError, match=r"`launch` is no kernel for sm_90.*Nothing was written"):
        extract_cuda_project(cu, entry=ENTRY, launch=launch, reference=right, out=tmp_path / "empty", headers=[])
    assert list((tmp_path / "empty").iterdir()) == []
