"""Patch of a user's file: a winner behind the signature of the function that its task was extracted from."""

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.config.run import DEVICE_OF
from evokernel.export.cuda_helper import with_helper
from evokernel.export.export_kernel import NotExported, config_of
from evokernel.export.template_text import dimensions_in_shapes, fill, numbers_of, strides_text
from evokernel.export.torch_operator import ALIGNMENTS
from evokernel.records.candidate import Candidate
from evokernel.report.lineage import portrait
from evokernel.report.status import run_facts
from evokernel.scaffold.extract.kernel_text import constant_text
from evokernel.task import Task, Tensor
from evokernel.tasks import load_task

_CALL = "computed"


@dataclass(frozen=True, slots=True)
class KernelPatch:
    """Changes to the folder of a user's file."""

    file: Path
    """The user's file."""
    function: str
    """The function in it that calls the winner."""
    texts: Mapping[Path, tuple[str, str]]
    """By file its text before, empty for a new one, and after; those alone that change."""

    @property
    def diff(self) -> str:
        """The changes as a unified diff, for `patch -p1` or `git apply` in the folder of the user's file."""
        parts = []
        for path, (before, after) in self.texts.items():
            old = f"a/{path.name}" if before else "/dev/null"
            lines = difflib.unified_diff(_lines(before), _lines(after), old, f"b/{path.name}")
            parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
        return "".join(parts)

    def apply(self) -> None:
        """Write the files, unless one has changed since. Raises `NotExported` where one has, or cannot be written."""
        for path, (before, _) in self.texts.items():
            if (_text(path) if path.exists() else "") != before:
                raise NotExported(f"{path} has changed meanwhile; nothing was written")
        for path, (_, after) in reversed(list(self.texts.items())):  # the new file first: the old one imports it
            try:
                path.write_text(after, encoding="utf-8", newline="")
            except OSError as error:
                raise NotExported(f"cannot write {path}: {error}") from None


def patch_of_run(store: Store, name: str) -> KernelPatch:
    """Return the patch for a kernel of a run.

    Args:
        store: opened for reading.
        name: id of the candidate, or its beginning.

    Raises:
        NotExported: as `kernel_patch`, or the kernel is not for a GPU.
        StoreError, TaskError: there is no such kernel or config; the task cannot be loaded.
    """
    candidate = portrait(store, name).stored.candidate
    if DEVICE_OF[candidate.language] != "cuda":
        raise NotExported(f"--patch: {candidate.id} is {candidate.language}, and the function launches GPU kernels")
    return kernel_patch(load_task(config_of(run_facts(store)).task).on("cuda"), candidate)


def kernel_patch(task: Task, candidate: Candidate) -> KernelPatch:
    """Return the patch that has the function of a task's origin call a kernel.

    The function asks the kernel first. It takes the tensors that it was judged on, of any size: their types, ranks,
    layouts and alignment, on a GPU, with the numbers of the recorded call; for all others the old text follows. Raises
    `NotExported` if the task was not extracted from a function, or that has changed.

    Args:
        task: for GPUs.
        candidate: in Triton or CUDA C++.
    """
    origin = getattr(task.reference, "__globals__", {}).get("origin")
    if not isinstance(origin, dict) or not {"file", "function", "arguments", "constants"} <= origin.keys():
        raise NotExported(
            f"the task {task.name} says of no function that a kernel could stand behind: --patch is for tasks that "
            "`evokernel extract` wrote"
        )
    if numbers_of(task):
        raise NotExported(f"--patch: the shapes of the inputs do not tell {', '.join(numbers_of(task))}")
    file, function = Path(origin["file"]).resolve(), str(origin["function"])
    evolved = file.with_name(f"{function}_evolved.py")
    before = _text(file)
    after = _calling(file, before, function, evolved.stem, origin)
    earlier = _text(evolved) if evolved.exists() else ""
    texts = {file: (before, after), evolved: (earlier, _evolved(task, candidate, origin))}
    return KernelPatch(file, function, {path: pair for path, pair in texts.items() if pair[0] != pair[1]})


def _calling(file: Path, text: str, function: str, module: str, origin: Mapping[str, Any]) -> str:
    """Return the text of the user's file with the call of the kernel."""
    if f"{module}.{_CALL}(" in text:  # of an earlier patch
        return text
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise NotExported(f"{file} cannot be read as Python: {error}") from None
    host = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function), None)
    if host is None:
        raise NotExported(f"{file} defines no function {function} any more; extract it again, or bring it back")
    has = [argument.arg for argument in (*host.args.posonlyargs, *host.args.args, *host.args.kwonlyargs)]
    wanted = {*origin["arguments"], *origin["constants"]}
    if wanted != {*has}:
        raise NotExported(
            f"{function} of {file} takes {', '.join(has)}, and was extracted with {', '.join(sorted(wanted))}: extract "
            "it again"
        )
    documented = ast.get_docstring(host, clean=False) is not None
    first = host.body[1] if documented and len(host.body) > 1 else host.body[0]
    if first.lineno == host.lineno:
        raise NotExported(f"the body of {function} in {file} must begin in a line of its own")
    lines, indent = text.splitlines(keepends=True), " " * first.col_offset
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    kernel = f"(made := {module}.{_CALL}({', '.join(origin['arguments'])})) is not None"
    asked = " and ".join([*_conditions(origin["constants"]), kernel])
    decorated = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", ()))])
    lines[decorated - 1 : decorated - 1] = [f"{indent}if {asked}:{end}", f"{indent}    return made{end}"]
    place = _after_imports(tree)
    packaged = (file.parent / "__init__.py").exists()
    lines[place:place] = [f"{'from . import' if packaged else 'import'} {module}{end}"]
    return "".join(lines)


def _conditions(constants: Mapping[str, Any]) -> Iterator[str]:
    for name, value in constants.items():
        yield f"{name} is {value}" if value is None or isinstance(value, bool) else f"{name} == {constant_text(value)}"


def _after_imports(tree: ast.Module) -> int:
    """Return the number of lines up to the end of the imports with which a file begins, its docstring among them."""
    place = 0
    for number, node in enumerate(tree.body):
        docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        place = node.end_lineno or node.lineno
    return place


def _evolved(task: Task, candidate: Candidate, origin: Mapping[str, Any]) -> str:
    source = with_helper(candidate.source) if candidate.language == "cuda" else candidate.source
    places = {tensor.name: place for place, tensor in enumerate(task.signature.inputs)}
    told = {name: (places[tensor], axis, times) for name, (tensor, axis, times) in dimensions_in_shapes(task).items()}
    return fill(
        "evolved.py.txt",
        source=source.rstrip("\n"),
        function=str(origin["function"]),
        file=Path(origin["file"]).name,
        candidate=candidate.id,
        alignment=str(ALIGNMENTS["cuda"]),
        inputs=_rows(task.signature.inputs),
        outputs=_rows(task.signature.outputs),
        told=repr(told),
        strides=strides_text(task),
        scalars=repr(tuple(scalar.name for scalar in task.signature.scalars)),
    )


def _rows(tensors: tuple[Tensor, ...]) -> str:
    return f"({' '.join(f'({tensor.name!r}, _torch.{tensor.dtype}, {tensor.shape!r}),' for tensor in tensors)})"


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise NotExported(f"cannot read {path}: {error}") from None


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
