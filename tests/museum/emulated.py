"""Runs kernels for a GPU on a processor, on odd shapes: Triton in its interpreter, CUDA C++ on `cuda_on_cpu.h`.

Triton is given fp32 whatever the task's dtype is. Of CUDA C++ the recorded plan says what is launched on which buffers,
and a program made from it does just that, on the task's own dtypes.
"""

import functools
import itertools
import re
import subprocess
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from evokernel.cuda import Module
from evokernel.evaluate.artifact_mode.parameters import Place
from evokernel.evaluate.artifact_mode.plan import Copy, Fill, LaunchPlan, RecordedLaunch, Step
from evokernel.evaluate.inside.driver.kernel_parameters import POINTER, Parameter
from evokernel.evaluate.numerics.arrays import float_dtypes
from evokernel.protocols import Language
from evokernel.task import TINY, Task
from tests.museum.pipeline import Passed, pass_doors
from tests.support.due_outputs import Question, ask
from tests.support.interpret import Case, interpret

ROWS = ({"R": 3, "C": 37}, {"R": 19, "C": 70})
PRODUCTS = ({"M": 33, "N": 35, "K": 37}, {"M": 16, "N": 64, "K": 48})
SIZES: Mapping[str, Sequence[Mapping[str, int]]] = {
    "gemm": PRODUCTS,
    "histogram": ({"N": 300, "B": 37}, {"N": 1000, "B": 64}),
}
"""By task, or the part of its name before a `_`; other tasks have rows."""
SMALL = {
    **{"BLOCK": 16, "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "BLOCK_R": 16, "BLOCK_C": 16},
    **{"ROWS": 4, "SHARES": 2, "PROGRAMS": 3},
}
"""Values of tunables that give such sizes several programs and loop rounds."""
_HEADER = Path(__file__).parents[1] / "support" / "cuda_on_cpu.h"
_DYNAMIC = re.compile(r"extern __shared__ ([\w ]+?) (\w+)\[\];")
_HELPERS = """
#include <fstream>
#include <iterator>
#include <map>
#include <string>
static std::map<std::string, std::vector<char>> buffers;
struct Pointer {
    void* address;
    template <typename T>
    operator T*() const { return static_cast<T*>(address); }
};
static Pointer at(const char* name, long long offset) { return {buffers[name].data() + offset}; }
static void read(const char* name) {
    std::ifstream file(name, std::ios::binary);
    buffers[name].assign(std::istreambuf_iterator<char>(file), {});
}
static void write(const char* name) {
    std::ofstream(name, std::ios::binary).write(buffers[name].data(), buffers[name].size());
}
static void fill(Pointer to, unsigned pattern, int width, long long bytes) {
    for (long long i = 0; i < bytes; i += width) memcpy(static_cast<char*>(to.address) + i, &pattern, width);
}
"""


def questions(task: Task, *, own_dtype: bool) -> list[Question]:
    """Return what is asked of a kernel: two odd shapes, two distributions; and tiny numbers, where there are floats."""
    sizes = SIZES.get(task.name.partition("_")[0], ROWS)
    dtype = None if own_dtype else "float32"
    distributions = [each for each in ("normal", "integers01") if each in task.distributions]
    tiny = [TINY] if "normal" in task.declared and float_dtypes(task.signature.inputs) else []
    asked = [*itertools.product(sizes, distributions), *itertools.product(sizes[:1], tiny)]
    return [ask(task, dims, each, dtype=dtype) for dims, each in asked]


def interpreted(sources: Mapping[str, tuple[str, Task]]) -> dict[str, list[tuple[Question, list[Any] | str]]]:
    """Return, for Triton sources by name, what was asked and what a call left, or the traceback of one that failed."""
    asked = {name: questions(task, own_dtype=False) for name, (_, task) in sources.items()}
    cases = [Case(sources[name][0], each.arguments, SMALL) for name in sources for each in asked[name]]
    left = iter(interpret(cases, timeout_s=600))
    return {name: [(each, next(left)) for each in asked[name]] for name in sources}


def emulated(language: Language, source: str, task: Task, *, folder: Path) -> list[tuple[Question, list[Any]]]:
    """Return, for a CUDA source, what was asked and what a call left. `folder` takes a program and its data."""
    asked = questions(task, own_dtype=True)
    passed = pass_doors(language, source, task, hidden=tuple(each.workload for each in asked))
    assert isinstance(passed, Passed), passed
    plans = passed.checked.plans.shapes[len(task.workloads["cuda"].search) :]
    program = _program(source, dict(zip(map(str, range(len(asked))), plans, strict=True)), folder)
    return [(each, _run(program, str(number), each)) for number, each in enumerate(asked)]


def _run(program: Path, number: str, question: Question) -> list[Any]:
    tensors = {name: value for name, value in question.named.items() if isinstance(value, torch.Tensor)}
    for name, tensor in tensors.items():
        (program.parent / name).write_bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    subprocess.run([program, number], cwd=program.parent, check=True, timeout=300)
    return [_read(program.parent / name, value) if name in tensors else value for name, value in question.named.items()]


def _read(file: Path, like: torch.Tensor) -> torch.Tensor:
    return torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8).view(like.dtype).view(like.shape)


# ------------------------------------------------------------------------------------------------- the program


def _program(source: str, plans: Mapping[str, LaunchPlan], folder: Path) -> Path:
    """Compile a source's CUDA C++ together with a `main` that does what the plan of a number says."""
    namespace = types.ModuleType("kernel")
    exec(source, vars(namespace))
    texts = []
    for module in (each for each in vars(namespace).values() if isinstance(each, Module)):
        macros = [option.removeprefix("-D").split("=", 1) for option in module._options if option.startswith("-D")]
        texts += [f"#define {name} {value}\n" for name, value in macros]
        texts.append(_DYNAMIC.sub(r"\1* \2 = reinterpret_cast<\1*>(dynamic_shared);", module._source))
        texts += [f"#undef {name}\n" for name, _ in macros]
    cases = [f"    if (asked == {number}) {{\n{_steps(plan)}    }}\n" for number, plan in plans.items()]
    names = sorted({place.buffer for plan in plans.values() for place in _places(plan)} - _scratch(plans))
    main = [
        "int main(int, char** told) {\n    const int asked = atoi(told[1]);\n",
        *(f'    read("{name}");\n' for name in names),
        *cases,
        *(f'    write("{name}");\n' for name in names),
        "}\n",
    ]
    program = folder / "kernel"
    program.with_suffix(".cpp").write_text("".join([f'#include "{_prelude().name}/prelude.h"\n', *texts, *main]))
    _compile(f"{program}.cpp", "-o", str(program))
    return program


@functools.cache
def _prelude() -> "tempfile.TemporaryDirectory[str]":
    """Compile what all programs begin with, which takes as long as the rest of one; `prelude.h` in the folder."""
    folder = tempfile.TemporaryDirectory()
    header = Path(folder.name, "prelude.h")
    header.write_text(f'#include "{_HEADER}"\n{_HELPERS}')
    _compile("-x", "c++-header", str(header), "-o", f"{header}.gch")
    return folder


def _compile(*words: str) -> None:
    command = ["g++", "-O1", "-w", "-std=c++17", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[:2000]


def _scratch(plans: Mapping[str, LaunchPlan]) -> set[str]:
    return {name for plan in plans.values() for name in plan.scratch}


def _places(plan: LaunchPlan) -> list[Place]:
    found = []
    for step in plan.steps:
        match step:
            case RecordedLaunch():
                found += [each.value for each in step.parameters if isinstance(each.value, Place)]
            case Fill():
                found.append(step.place)
            case Copy():
                found += [step.place, step.source]
    return found


def _steps(plan: LaunchPlan) -> str:
    lines = [f'buffers["{name}"].assign({size}, 0x5b);' for name, size in plan.scratch.items()]
    return "".join(f"        {line}\n" for line in (*lines, *map(_step, plan.steps)))


def _step(step: Step) -> str:
    match step:
        case RecordedLaunch():
            assert step.cluster == 1, "clusters are for a GPU"
            grid, block = (", ".join(map(str, extents)) for extents in (step.grid, step.block))
            values = ", ".join(map(_value, step.parameters))
            return f"launch(Place{{{grid}}}, Place{{{block}}}, [&] {{ {step.kernel}({values}); }});"
        case Fill():
            return f"fill({_at(step.place)}, {step.pattern}u, {step.width}, {step.size_bytes});"
        case Copy():
            return f"memcpy({_at(step.place)}.address, {_at(step.source)}.address, {step.size_bytes});"


def _value(parameter: Parameter) -> str:
    if parameter.kind == POINTER:
        return "nullptr" if parameter.value is None else _at(parameter.value)
    return repr(parameter.value) + ("ll" if parameter.kind in ("i64", "u64") else "")


def _at(place: Place) -> str:
    return f'at("{place.buffer}", {place.offset})'
