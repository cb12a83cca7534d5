"""Mutants of kernels: one small edit each, in C++ by tree-sitter, in Triton and on the host by Python's syntax tree.

Each operator is a way in which a kernel comes out wrong: a term, a mask, a scalar, an edge or a synchronisation is
missing, a start value is wrong, old content of an output is taken in, a number is narrower.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from evokernel.languages.cpp.guide import entry_signature
from evokernel.task import Task

Edit = tuple[str, int, int, str]
"""Operator, begin and end in bytes, and the new text."""

LARGE = 4096
"""Product of sizes above which `at_size` runs the mutant."""
_CUDA_WORDS = re.compile(rb"__(?:global|device|shared|constant|forceinline|restrict|launch_bounds)__(?:\([^)]*\))?")
_FLOAT = re.compile(r"(?:\d+\.\d*|\.\d+|\d+e)[\de+-]*f?|0x[\da-f.]+p.*", re.IGNORECASE)
_BARRIER = re.compile(
    r"(?:__syncthreads|__syncwarp|__threadfence\w*|__pipeline_\w+|[\w.]*\bsync\w*|[\w.]*wait\w*|tl\.debug_barrier)\(.*",
    re.DOTALL,
)
_PRAGMA = re.compile(rb"#pragma omp (?:barrier|critical|atomic)[^\n]*| reduction\([^)]*\)")
_KEPT = {"+": "both", "*": "both", "-": "left", "/": "left", "%": "left"}
_ARITHMETIC = {ast.Add: "both", ast.Mult: "both", ast.Sub: "left", ast.Div: "left"}
_EXTREMES = ("max", "min", "fmax", "fmin", "fmaxf", "fminf", "maximum", "minimum")
_NARROW = {"int64_t": "int32_t", "size_t": "int32_t", "double": "float", "float": "short"}
_FUNCTIONS = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "erf", "sigmoid", "abs")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A kernel with one edit."""

    operator: str
    """The kind of edit."""
    line: int
    """Line of the kernel, from 1."""
    before: str
    """The edited text."""
    after: str
    """The text in its place."""
    source: str
    """The whole source."""


def mutants(source: str, language: str, *, scalars: frozenset[str]) -> list[Mutant]:
    """Return all mutants of a kernel, in the order of its text.

    Args:
        source: the kernel.
        language: its language.
        scalars: names of the task's scalars that are no sizes.
    """
    text = source.encode()
    edits = set(_cpp_edits(text, scalars) if language == "cpp" else _python_edits(text, language, scalars))
    made: dict[str, Mutant] = {}
    for operator, begin, end, new in sorted(edits, key=lambda edit: (edit[1:], edit[0])):
        changed = (text[:begin] + new.encode() + text[end:]).decode()
        line, before = text[:begin].count(b"\n") + 1, text[begin:end].decode()
        made.setdefault(changed, Mutant(operator, line, before, new, changed))
    made.pop(source, None)
    return list(made.values())


def at_size(kernel: str, mutated: str, language: str, *, task: Task) -> str:
    """Return a source that is the mutant where the product of the sizes is above `LARGE`, and the kernel elsewhere."""
    names = ", ".join(argument.name for argument in task.signature.arguments)
    large = " * ".join(scalar.name for scalar in task.signature.scalars if scalar.dtype == "int64") + f" > {LARGE}"
    if language == "cpp":
        parts = re.findall(r"^#include.*$", kernel, re.MULTILINE)
        for name, text in (("original", kernel), ("mutant", mutated)):
            body = re.sub(r"^#include.*$", "", text, flags=re.MULTILINE)
            parts.append(f"namespace {name} {{\n#define run run_{name}\n{body}\n#undef run\n}}")
        call = f"if ({large}) mutant::run_mutant({names}); else original::run_original({names});"
        return "\n".join([*parts, f"{entry_signature(task.signature)} {{ {call} }}\n"])
    tree = ast.parse(mutated)
    defined = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    defined += [
        each.id
        for stmt in tree.body
        if isinstance(stmt, ast.Assign)
        for each in stmt.targets
        if isinstance(each, ast.Name)
    ]
    renamed = re.sub(
        rf"\b({'|'.join(defined)})\b", r"\1_mutant", re.sub(r"^(import|from) .*$", "", mutated, flags=re.MULTILINE)
    )
    choice = f"    if {large}:\n        run_mutant({names})\n    else:\n        run_original({names})\n"
    return f"{kernel}\n\nrun_original = run\n{renamed}\n\ndef run({names}):\n{choice}"


# ----------------------------------------------------------------------------------------------------------- C++


def _cpp_edits(text: bytes, scalars: frozenset[str]) -> Iterator[Edit]:
    plain = _CUDA_WORDS.sub(lambda found: b" " * len(found[0]), text)
    tree = Parser(Language(tree_sitter_cpp.language())).parse(plain)
    for pragma in _PRAGMA.finditer(text):
        yield "synchronisation", *pragma.span(), ""
    nodes = [tree.root_node]
    while nodes:
        node = nodes.pop()
        nodes += node.children
        for operator, place, new in _cpp_node(node, scalars):
            yield operator, place.start_byte, place.end_byte, new


def _said(node: Node | None) -> str:
    return (node.text or b"").decode() if node is not None else ""


def _cpp_node(node: Node, scalars: frozenset[str]) -> Iterator[tuple[str, Node, str]]:
    words = _said(node)
    match node.type:
        case "binary_expression":
            yield from _cpp_binary(node)
        case "conditional_expression":
            yield "mask", node, _said(node.child_by_field_name("consequence"))
            yield "mask", node, _said(node.child_by_field_name("alternative"))
        case "if_statement":
            for condition in node.children_by_field_name("condition"):
                yield "mask", condition, "(true)"
                yield "statement", condition, "(false)"
        case "call_expression":
            yield from _cpp_call(node)
        case "expression_statement" if _BARRIER.fullmatch(words):
            yield "synchronisation", node, ";"
        case "expression_statement" if node.children[0].type == "assignment_expression":
            yield "statement", node, ";"
        case "assignment_expression":
            yield from _cpp_assignment(node)
        case "init_declarator":
            yield from _cpp_declared(node)
        case _:
            yield from _cpp_word(node, words, scalars)


def _cpp_word(node: Node, words: str, scalars: frozenset[str]) -> Iterator[tuple[str, Node, str]]:
    above = node.parent.type if node.parent else ""
    if node.type == "number_literal" and _FLOAT.fullmatch(words) and words.strip("0.fF"):
        yield "scalar", node, "0.0f"
        yield "scalar", node, f"({words} * 1.001f)"
    elif node.type == "identifier" and words in scalars and above != "parameter_declaration":
        yield "scalar", node, "0.0f"
    elif node.type == "unary_expression" and words == "-INFINITY":
        yield "start value", node, "0.0f"
        yield "start value", node, "-50.0f"
    elif node.type in ("type_identifier", "primitive_type") and above == "declaration" and words in _NARROW:
        yield "narrow", node, _NARROW[words]


def _cpp_binary(node: Node) -> Iterator[tuple[str, Node, str]]:
    left, right = (_said(node.child_by_field_name(side)) for side in ("left", "right"))
    sign = _said(node.child_by_field_name("operator"))
    if sign in _KEPT:
        operator = "address" if _in_subscript(node) else "term"
        yield operator, node, left
        if _KEPT[sign] == "both":
            yield operator, node, right
    elif sign in ("&&", "&"):
        yield "mask", node, left
        yield "mask", node, right
    elif sign in ("<", "<="):
        yield "edge", node, f"{left} + 1 {sign} {right}"
        yield "bounds", node, f"{left} <= {right}" if sign == "<" else f"{left} <= {right} + 1"


def _in_subscript(node: Node | None) -> bool:
    while node is not None and node.type != "subscript_argument_list":
        node = node.parent
    return node is not None


def _cpp_call(node: Node) -> Iterator[tuple[str, Node, str]]:
    name = _said(node.child_by_field_name("function")).rpartition("::")[2].partition("<")[0]
    given = node.child_by_field_name("arguments")
    arguments = [_said(each) for each in given.named_children] if given is not None else []
    if name in _EXTREMES:
        yield from (("mask", node, each) for each in arguments)
    elif name.startswith("atomicAdd") and len(arguments) == 2:
        yield "synchronisation", node, f"(*({arguments[0]}) += ({arguments[1]}))"
    elif len(arguments) == 1:
        yield "term", node, f"({arguments[0]})"


def _cpp_assignment(node: Node) -> Iterator[tuple[str, Node, str]]:
    target, value = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign, left, right = _said(node.child_by_field_name("operator")), _said(target), _said(value)
    if sign in ("+=", "-=", "*=", "/="):
        yield "term", node, f"{left} = {right}"
    elif sign == "=" and target is not None and target.type == "subscript_expression":
        yield "output kept", node, f"{left} = {left} > ({right}) ? {left} : ({right})"
        yield "output kept", node, f"{left} += {right}"


def _cpp_declared(node: Node) -> Iterator[tuple[str, Node, str]]:
    value, kind = node.child_by_field_name("value"), _said(node.parent.children[0] if node.parent else None)
    if value is None:
        return
    loop = node.parent is not None and node.parent.parent is not None and node.parent.parent.type == "for_statement"
    if loop:
        yield "edge", value, f"{_said(value)} + 1"
    elif kind in ("float", "double"):
        yield "start value", value, "0" if _said(value).strip("0.fF") else "1"


# -------------------------------------------------------------------------------------------------------- Python


def _python_edits(text: bytes, language: str, scalars: frozenset[str]) -> Iterator[Edit]:
    tree = ast.parse(text)
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    addresses = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.load", "tl.store") and node.args
        for part in ast.walk(node.args[0])
    }
    for function in (each for each in tree.body if isinstance(each, ast.FunctionDef)):
        inside = _host_node if function.name == "run" else _triton_node
        for node in (part for stmt in function.body for part in ast.walk(stmt)):
            for operator, place, new in inside(node, scalars):
                yield ("address" if operator == "term" and place in addresses else operator), *span(place), new
    if language == "triton":
        yield from _grid_y(text)
        return
    for node in ast.walk(tree):  # the C++ in a string
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "__global__" in node.value:
            begin, end = span(node)
            begin += text[begin:end].index(b'"""') + 3
            for operator, first, last, new in _cpp_edits(text[begin : end - 3], scalars):
                yield operator, begin + first, begin + last, new


_Found = Iterator[tuple[str, ast.expr | ast.stmt, str]]


def _host_node(node: ast.AST, scalars: frozenset[str]) -> _Found:
    """Take one tile off a grid."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Tuple):
        first = node.slice.elts[0]
        for extent in first.elts if isinstance(first, ast.Tuple) else [first]:
            if not isinstance(extent, ast.Constant):
                yield "edge", extent, f"max({ast.unparse(extent)} - 1, 1)"


def _triton_node(node: ast.AST, scalars: frozenset[str]) -> _Found:
    match node:
        case ast.BinOp(left, sign, right) if type(sign) in _ARITHMETIC:
            yield "term", node, f"({ast.unparse(left)})"
            if _ARITHMETIC[type(sign)] == "both":
                yield "term", node, f"({ast.unparse(right)})"
        case ast.BinOp(left, ast.BitAnd(), right):
            yield "mask", node, f"({ast.unparse(left)})"
            yield "mask", node, f"({ast.unparse(right)})"
        case ast.Compare(left, [ast.Lt()], [right]):
            yield "edge", node, f"{ast.unparse(left)} + 1 < {ast.unparse(right)}"
            yield "bounds", node, f"{ast.unparse(left)} <= {ast.unparse(right)}"
        case ast.AugAssign(target, _, value):
            yield "statement", node, "pass"
            yield "term", node, f"{ast.unparse(target)} = {ast.unparse(value)}"
        case ast.Constant(value=float(value)) if value:
            yield "scalar", node, "0.0"
            yield "scalar", node, f"({value!r} * 1.001)"
        case ast.Name(id=name) if name in scalars:
            yield "scalar", node, "0.0"
        case ast.Call():
            yield from _triton_call(node)


def _triton_call(node: ast.Call) -> _Found:
    name, given = ast.unparse(node.func), [ast.unparse(each) for each in node.args]
    short = name.rpartition(".")[2]
    for number, word in enumerate(node.keywords):
        if word.arg in ("mask", "other"):
            fewer = [*node.keywords[:number], *node.keywords[number + 1 :]]
            yield "mask", node, ast.unparse(ast.Call(node.func, node.args, fewer))
    words = "".join(f", {each.arg}={ast.unparse(each.value)}" for each in node.keywords)
    match short, given:
        case "float", ["'-inf'"]:
            yield "start value", node, "0.0"
            yield "start value", node, "-50.0"
        case "range", [first, last, step]:
            yield "edge", node, f"range({first} + {step}, {last}, {step})"
            yield "edge", node, f"range({first}, {last} - {step}, {step})"
        case "store", [place, value]:
            yield "output kept", node, f"{name}({place}, tl.maximum(tl.load({place}{words}), {value}){words})"
            yield "output kept", node, f"{name}({place}, tl.load({place}{words}) + {value}{words})"
        case "atomic_add", [place, value, *_]:
            yield "synchronisation", node, f"tl.store({place}, tl.load({place}) + {value}{words})"
        case "debug_barrier", _:
            yield "synchronisation", node, "None"
        case "to", [_] if isinstance(node.func, ast.Attribute):
            yield "narrow", node, ast.unparse(node.func.value)
        case _:
            yield from _chosen(node, short, given)


def _chosen(node: ast.Call, name: str, given: list[str]) -> _Found:
    """Take an argument for the result."""
    if name in _EXTREMES or (name == "where" and len(given) == 3):
        yield from (("mask", node, f"({each})") for each in given[-2:])
    elif name in _FUNCTIONS and len(given) == 1:
        yield "term", node, f"({given[0]})"


def _grid_y(text: bytes) -> Iterator[Edit]:
    """Number the programs of a grid of one dimension by y, which holds 65,535."""
    flat = re.sub(rb"\[\((?P<extent>[^\n]+),\)\]", rb"[(1, \g<extent>)]", text)
    if flat != text and b"program_id(1)" not in text:
        yield "grid y", 0, len(text), flat.replace(b"program_id(0)", b"program_id(1)").decode()
