"""Helper of the language `cuda`, written into a file that works without evokernel."""

import ast
import inspect
import textwrap
from types import ModuleType

from evokernel.errors import LanguageError
from evokernel.evaluate.inside.driver import cuda_driver, cuda_module, nvrtc
from evokernel.export.template_text import fill
from evokernel.languages.gpu.cuda_static_check import HELPER_IMPORT

_OF_THE_TEMPLATE = ("_nvrtc", "_cuda_driver", "_cuda_helper", "Module = _cuda_helper()")


def with_helper(source: str) -> str:
    """Return a source in the language `cuda` with the helper in place of the line that imports it.

    Raises `LanguageError` if the source does not import the helper.
    """
    imports = [node for node in ast.parse(source).body if ast.unparse(node) == HELPER_IMPORT]
    if not imports:
        raise LanguageError(f"the source does not say `{HELPER_IMPORT}`")
    node = imports[0]
    lines = source.encode().split(b"\n")  # columns count bytes
    before, after = lines[: node.lineno - 1], lines[(node.end_lineno or node.lineno) - 1 :]
    after[0] = helper_text().encode() + after[0][node.end_col_offset :]
    return b"\n".join([*before, *after]).decode()


def without_helper(text: str) -> str:
    """Return an exported file with the line that imports the helper in its place, as the source was judged.

    Raises `LanguageError` if there is no helper in it.
    """
    nodes = [node for node in ast.parse(text).body if getattr(node, "name", ast.unparse(node)) in _OF_THE_TEMPLATE]
    if len(nodes) != len(_OF_THE_TEMPLATE):
        raise LanguageError("the file does not hold the helper that `evokernel export` writes into it")
    lines = text.encode().split(b"\n")
    first, last = nodes[0].lineno - 1, nodes[-1].end_lineno or 0
    rest = lines[last - 1][nodes[-1].end_col_offset :]
    return b"\n".join([*lines[:first], HELPER_IMPORT.encode() + rest, *lines[last:]]).decode()


def helper_text() -> str:
    """Return a definition of `Module` that does not import evokernel."""
    imported = {
        node.module: [each.name for each in node.names] for node in _imports_of_ours(inspect.getsource(cuda_module))
    }
    return fill(
        "cuda_helper.py.txt",
        nvrtc=_body(nvrtc),
        cuda_driver=_body(cuda_driver),
        cuda_module=_body(cuda_module),
        of_nvrtc=", ".join(imported["nvrtc"]),
        of_cuda_driver=textwrap.fill(", ".join(imported["cuda_driver"]), 110, subsequent_indent="        "),
    ).rstrip("\n")


def _imports_of_ours(text: str) -> list[ast.ImportFrom]:
    return [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom) and node.level > 0]


def _body(module: ModuleType) -> str:
    """Return a module's text as the body of a function, without its docstring and its relative imports."""
    text = inspect.getsource(module)
    left_out = {
        number
        for node in (ast.parse(text).body[0], *_imports_of_ours(text))
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    kept = [line for number, line in enumerate(text.splitlines(), start=1) if number not in left_out]
    return textwrap.indent("\n".join(kept).strip("\n"), "    ")
