"""Checks of a Python source for a GPU without running it: early feedback for authors, not security.

A hostile source passes any check of its text; the sandbox keeps it harmless.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from evokernel.languages.text_checks import check_text

ENTRY = "run"
_REFUSED_NAMES = frozenset(
    {"exec", "eval", "compile", "open", "input", "breakpoint", "globals", "locals", "vars", "setattr", "delattr"}
)
_REFUSED_PARTS = frozenset({"runtime", "knobs", "backends", "compiler", "testing", "profiler", "autotune"})
_TORCH_DTYPES = """
    float8_e4m3fn float8_e5m2
    bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 half float double int long
    short float8_e4m3fn float8_e5m2
"""
_TORCH = frozenset(
    {
        *_TORCH_DTYPES.split(),
        *("Size", "Tensor", "cuda", "device", "dtype", "finfo", "iinfo"),
        *("empty", "empty_like", "empty_strided", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"),
    }
)
"""The names that host code may take from torch: dtypes, scratch and descriptions. Kernels do the computing."""
_TORCH_CUDA = frozenset({"current_device", "device", "get_device_capability", "get_device_properties"})
_AUTOTUNE = (
    "triton.autotune is not allowed: declare each choice as a tunable (NUM_WARPS = 4  # tune: 2 4 8) and pass it to "
    "the launch; the search finds the best values"
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules that differ between the languages whose sources are Python."""

    modules: frozenset[str]
    """Modules that may be imported."""
    parents: tuple[str, ...] = ()
    """Beginnings of the names of further modules."""
    decorators: frozenset[str] = frozenset()
    """Decorators that a function may have."""
    decorators_meant: str = "none are"
    """The end of a message on another decorator."""


TRITON = Dialect(
    modules=frozenset({"triton", "triton.language", "triton.tools.tensor_descriptor", "torch", "math"}),
    parents=("triton.language.",),
    decorators=frozenset({"jit", "heuristics"}),
    decorators_meant="only triton.jit and triton.heuristics are",
)


def static_check(source: str, *, dialect: Dialect = TRITON) -> str | None:
    """Return why a source cannot be tried, or None."""
    problem = check_text(source)
    if problem is not None:
        return problem
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (RecursionError, MemoryError):
        return "the source is nested too deeply"
    torch_names = set(_names_of_torch(tree))
    for node in ast.walk(tree):
        problem = _check_node(node, dialect) or _check_torch(node, torch_names)
        if problem is not None:
            return f"line {getattr(node, 'lineno', 1)}: {problem}"
    if not any(isinstance(node, ast.FunctionDef) and node.name == ENTRY for node in tree.body):
        return f"the entry point is missing: the source must define `def {ENTRY}(...)` at its top level"
    return None


def _check_node(node: ast.AST, dialect: Dialect) -> str | None:
    match node:
        case ast.Import(names=names):
            return _check_modules([alias.name for alias in names], dialect)
        case ast.ImportFrom():
            return _check_import_from(node, dialect)
        case ast.Global():
            return "global is not allowed: nothing may be kept from one call to the next"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return _check_name(name, part=isinstance(node, ast.Attribute))
        case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
            return _check_definition(node.name, decorators, dialect)
        case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
            return "async is not allowed"
    return None


def _check_import_from(node: ast.ImportFrom, dialect: Dialect) -> str | None:
    if node.level or node.module is None:
        return "relative imports are not allowed"
    names = [alias.name for alias in node.names]
    if "autotune" in names:
        return _AUTOTUNE
    if "*" in names:
        return f"from {node.module} import * is not allowed: name what is used"
    if not _allowed(node.module, dialect):
        return _check_modules([f"{node.module}.{name}" for name in names], dialect)
    refused = sorted(_REFUSED_PARTS.intersection(names))
    return f"{node.module}.{refused[0]} is not allowed" if refused else None


def _check_modules(modules: list[str], dialect: Dialect) -> str | None:
    for module in modules:
        if not _allowed(module, dialect):
            known = ", ".join(sorted(dialect.modules))
            return f"import of {module} is not allowed: a kernel may import {known}"
    return None


def _allowed(module: str, dialect: Dialect) -> bool:
    return module in dialect.modules or (bool(dialect.parents) and module.startswith(dialect.parents))


def _check_name(name: str, *, part: bool) -> str | None:
    if name == "autotune":
        return _AUTOTUNE
    if name.startswith("__") or (part and name.startswith("_")):
        return f"{name} is not allowed"
    if part and name in _REFUSED_PARTS:
        return f".{name} is not allowed: kernels leave Triton's own machinery alone"
    if not part and name in _REFUSED_NAMES:
        return f"{name} is not allowed"
    return None


def _names_of_torch(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.asname or alias.name for alias in node.names if alias.name == "torch")


def _check_torch(node: ast.AST, torch_names: set[str]) -> str | None:
    """Refuse names of torch that compute, wait or reach elsewhere, and any assignment to an attribute."""
    match node:
        case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
            return f"assigning to .{name} is not allowed: run() changes nothing but its outputs"
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in torch_names and name not in _TORCH:
            return f"torch.{name} is not allowed: host code may allocate scratch and name dtypes; kernels compute"
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr="cuda"), attr=name) if (
            owner in torch_names and name not in _TORCH_CUDA
        ):
            return f"torch.cuda.{name} is not allowed: only {', '.join(sorted(_TORCH_CUDA))}"
        case ast.ImportFrom(module="torch", names=aliases):
            refused = [alias.name for alias in aliases if alias.name not in _TORCH]
            return f"torch.{refused[0]} is not allowed: name dtypes and ways to allocate only" if refused else None
    return None


def _check_definition(name: str, decorators: list[ast.expr], dialect: Dialect) -> str | None:
    if not name.isascii():
        return f"{name}: names of functions must be ASCII"
    for decorator in decorators:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        word = next(_words(called), "")
        if word == "autotune":
            return _AUTOTUNE
        if word not in dialect.decorators:
            return f"decorator {ast.unparse(decorator)[:60]} is not allowed: {dialect.decorators_meant}"
    return None


def _words(expression: ast.expr) -> Iterator[str]:
    """Yield the last name of a dotted expression, if it is one."""
    if isinstance(expression, ast.Attribute):
        yield expression.attr
    elif isinstance(expression, ast.Name):
        yield expression.id
