"""CUDA C++ sources in the form that rewrites read: kernels, launches and macros, with their places in the text."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from evokernel.source.tunables import read_tunables
from operators.rewrites.cuda.syntax import field, names_in, plain, rebound_in, statements, walk

CUDA_WORDS = re.compile(
    r"\b__(?:global|device|host|shared|constant|forceinline|noinline|restrict|managed|grid_constant)__\b"
    r"|\b__(?:launch_bounds|align|maxnreg|cluster_dims)__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)"
)
"""Words that only CUDA C++ has, with their arguments."""
_UNSEEN = re.compile(rf"{CUDA_WORDS.pattern}|^[ \t]*#[ \t]*pragma[^\n]*", re.MULTILINE)
_CONDITIONAL = {"preproc_if", "preproc_ifdef", "preproc_def", "preproc_function_def", "preproc_include"}
_PLACES = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
_MACRO = re.compile(r"[\w\s+\-*/%().,]*")
_SIZES = {"double": 8, "long long": 8, "float": 4, "int": 4, "unsigned": 4, "unsigned int": 4}
_SIZES |= {"unsigned short": 2, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2}


class UnreadableCuda(ValueError):
    """Error of a text that is not a Python module with one `run` and one readable string of CUDA C++."""


@dataclass(frozen=True, slots=True)
class CudaLaunch:
    """One launch `kernels.name[grid, block](...)`."""

    grid: ast.expr
    """The grid."""
    block: ast.expr
    """The block."""
    arguments: tuple[ast.expr, ...]
    """What the kernel is given, in order."""


@dataclass(frozen=True, slots=True)
class CudaPointer:
    """A pointer of a kernel: a parameter, or a variable that is an offset from one."""

    place: int
    """Its place among all parameters, from 0; -1 for a variable of the kernel."""
    node: Node
    """Its declaration."""
    name: str
    """Its name."""
    element: str
    """The type that it points to, without `const`."""
    constant: bool
    """Says whether what it points to is const."""
    root: str
    """The parameter that it comes from."""


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A `__global__` function that `run` launches."""

    name: str
    """Its name."""
    parameters: Node
    """The list of its parameters."""
    body: Node
    """Its block."""
    pointers: Mapping[str, CudaPointer]
    """Its pointers to global memory, by name."""
    numbers: frozenset[str]
    """Names of its whole numbers."""
    launches: tuple[CudaLaunch, ...]
    """All its launches."""

    def is_input(self, base: Node) -> bool:
        """Say whether a node names a pointer to memory that the kernel only reads."""
        pointer = self.pointers.get(plain(base))
        return pointer is not None and pointer.constant


@dataclass(frozen=True, slots=True, eq=False)
class CudaModule:
    """A parsed source."""

    text: str
    """The source as it was written."""
    start: int
    """Offset in it of its CUDA C++."""
    cpp: str
    """The CUDA C++ as it was written."""
    root: Node
    """Its syntax tree, in which words that only CUDA has and pragmas are blanks; offsets are characters of `cpp`."""
    tree: ast.Module
    """The syntax tree of the Python around it."""
    call: ast.Call
    """The call of `Module`."""
    run: ast.FunctionDef
    """The entry point."""
    kernels: Mapping[str, CudaKernel]
    """The kernels that are launched, by name."""
    macros: Mapping[str, str]
    """Macros without arguments that are defined once, by name."""
    choices: Mapping[str, tuple[int, ...]]
    """Values that a macro may take which is a tunable of the source."""
    constants: frozenset[str]
    """Names that mean the same number in `run` and in the kernels."""
    sizes: Mapping[str, int]
    """Bytes of each type that is known."""

    @classmethod
    def parse(cls, text: str) -> CudaModule:
        """Read a source. Raises `UnreadableCuda` if it is no such module."""
        try:
            tree = ast.parse(text)
            choices = {each.name: each.choices for each in read_tunables(text).tunables}
        except (SyntaxError, ValueError, RecursionError) as error:
            raise UnreadableCuda(f"not a Python module: {error}") from error
        runs = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run"]
        modules = [node for node in ast.walk(tree) if _is_module(node)]
        if len(runs) != 1 or len(modules) != 1:
            raise UnreadableCuda("not one `run` and one `kernels = Module(...)` at the top level")
        (bound,), (run,) = modules, runs
        name, call = bound.targets[0].id, bound.value  # type: ignore[attr-defined]
        start, cpp = _string(text, call.args[0])
        plain = _UNSEEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), re.sub(r"[^\x00-\x7f]", "?", cpp))
        root = cpp_parser().parse(plain.encode()).root_node
        launches = tuple(_launches(run, name))
        uses = Counter(n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == name)
        seen = Counter(of for of, _ in launches)
        launches = tuple(each for each in launches if uses[each[0]] == seen[each[0]])
        macros = _macros(root)
        kernels = {kernel.name: kernel for kernel in _kernels(cpp, root, launches, macros)}
        passed = {k.arg: k.value.id for k in call.keywords if k.arg is not None and isinstance(k.value, ast.Name)}
        own_names = {argument.arg for argument in run.args.args} | _bound(run).keys()
        constants = frozenset(name for name, value in passed.items() if name == value) - own_names - macros.keys()
        known = {macro: choices[own] for macro, own in passed.items() if own in choices and macro not in macros}
        return cls(text, start, cpp, root, tree, call, run, kernels, macros, known, constants, _sizes(root))

    def written(self, node: Node) -> str:
        """Return the text of a node as it was written."""
        return self.cpp[node.start_byte : node.end_byte]

    def indent(self, at: int) -> str:
        """Return the white space that the line of an offset begins with."""
        line = self.cpp[self.cpp.rfind("\n", 0, at) + 1 :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def line_before(self, node: Node) -> str:
        """Return what stands in the line of a node before it."""
        return self.cpp[self.cpp.rfind("\n", 0, node.start_byte) + 1 : node.start_byte]

    def pragma_before(self, at: int) -> int:
        """Return the offset of the first of the pragmas in the lines in front of a statement, else its own offset."""
        while True:
            begin = self.cpp.rfind("\n", 0, at) + 1
            above = self.cpp[self.cpp.rfind("\n", 0, max(begin - 1, 0)) + 1 : begin]
            if not above.lstrip().startswith("#pragma") or self.cpp[begin:at].strip():
                return at
            at = begin - len(above.lstrip())

    def words(self) -> frozenset[str]:
        """Return every identifier the text holds, comments included."""
        return frozenset(re.findall(r"\w+", self.text))

    def expanded(self, text: str) -> str:
        """Return a text with its macros spelled out."""
        for _ in range(len(self.macros) + 1):
            wider = re.sub(r"\b[A-Za-z_]\w*\b", lambda match: self.macros.get(match[0], match[0]), text)
            if wider == text:
                break
            text = wider
        return text

    def same(self, left: str, right: str) -> bool:
        """Say whether an expression of the kernels and one of `run` are the same number."""
        one, other = (_arithmetic(self.expanded(each)) for each in (left, right))
        words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", self.expanded(right)))
        return one is not None and one == other and words <= self.constants | _PLACES


def _bound(run: ast.FunctionDef) -> Counter[str]:
    return Counter(n.id for n in ast.walk(run) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def spliced(module: CudaModule, start: int, end: int, spans: Iterable[tuple[int, int, str]] = ()) -> list[str]:
    """Return the lines from one offset of the CUDA C++ to another, unindented, with the spans inside replaced."""
    text, at = "", start
    for first, last, new in sorted(spans):
        if start <= first and last <= end:
            text, at = text + module.cpp[at:first] + new, last
    indent = module.indent(start)
    head, *rest = (text + module.cpp[at:end]).split("\n")
    return [head, *(line.removeprefix(indent) for line in rest)]


def apart(module: CudaModule, kernel: CudaKernel) -> bool:
    """Say whether each launch passes different tensors for a kernel's pointers: those of `run`, or new ones."""
    run = module.run
    bound = _bound(run)
    new = {
        plain_target.id
        for stmt in ast.walk(run)
        if isinstance(stmt, ast.Assign) and ast.unparse(stmt.value).startswith(("torch.empty(", "torch.zeros("))
        for plain_target in stmt.targets
        if isinstance(plain_target, ast.Name) and bound[plain_target.id] == 1
    }
    tensors = ({argument.arg for argument in run.args.args} - bound.keys()) | new
    for launch in kernel.launches:
        places = [pointer.place for pointer in kernel.pointers.values() if pointer.place >= 0]
        if len(launch.arguments) <= max(places, default=-1):
            return False
        passed = [launch.arguments[place] for place in places]
        names = [argument.id for argument in passed if isinstance(argument, ast.Name)]
        if len(names) < len(passed) or len(set(names)) < len(names) or not set(names) <= tensors:
            return False
    return True


@lru_cache(maxsize=1)
def cpp_parser() -> Parser:
    """Return the parser of C++."""
    return Parser(Language(tree_sitter_cpp.language()))


def _is_module(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return False
    call = node.value
    named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Module"
    return named and isinstance(call, ast.Call) and len(call.args) == 1 and all(k.arg for k in call.keywords)


def _string(text: str, node: ast.expr) -> tuple[int, str]:
    """Return the offset and the text of a string that holds what the file shows, character by character."""
    written = ast.get_source_segment(text, node) or ""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or written.count(node.value) != 1:
        raise UnreadableCuda("the CUDA C++ is not one plain string")
    return offset_of(text, node.lineno, node.col_offset) + written.index(node.value), node.value


def offset_of(text: str, line: int, column: int) -> int:
    """Return the offset in a text of a line (from 1) and a column in UTF-8 bytes, as `ast` counts them."""
    lines = text.split("\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())


def _launches(run: ast.FunctionDef, module: str) -> Iterator[tuple[str, CudaLaunch]]:
    for node in ast.walk(run):
        match node:
            case ast.Call(
                func=ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id=owner), attr=name), slice=ast.Tuple(elts=[grid, block, *_])
                ),
                args=arguments,
                keywords=[],
            ) if owner == module:
                yield name, CudaLaunch(grid, block, tuple(arguments))


def _kernels(
    cpp: str, root: Node, launches: Sequence[tuple[str, CudaLaunch]], macros: Mapping[str, str]
) -> Iterator[CudaKernel]:
    for node in walk(root):
        body, parameters = field(node, "body"), field(node, "declarator", "parameters")
        if node.type != "function_definition" or body is None or parameters is None or node.has_error:
            continue
        name = plain(field(node, "declarator", "declarator"))
        own = tuple(launch for of, launch in launches if of == name)
        head = cpp[max(cpp.rfind("}", 0, node.start_byte), cpp.rfind(";", 0, node.start_byte), 0) : body.start_byte]
        if not own or "__global__" not in head:
            continue
        inside = list(walk(body))
        if any(n.type in _CONDITIONAL or (n.type == "lambda_capture_specifier" and "&" in plain(n)) for n in inside):
            continue  # what the preprocessor leaves, or what a lambda changes, is not seen here
        if not all(map(_MACRO.fullmatch, (macros[word] for word in names_in(body) if word in macros))):
            continue  # a macro that is more than a number may hold any statement
        declared = [each for each in parameters.named_children if each.type == "parameter_declaration"]
        pointers = {p.name: p for place, each in enumerate(declared) for p in _pointer(place, each)}
        pointers |= {p.name: p for each in statements(body) for p in _alias(each, body, pointers)}
        numbers = {
            plain(d) for each in declared if (d := field(each, "declarator")) is not None and d.type == "identifier"
        }
        yield CudaKernel(name, parameters, body, pointers, frozenset(numbers), own)


def _pointer(place: int, node: Node) -> Iterator[CudaPointer]:
    kind, declarator = field(node, "type"), field(node, "declarator")
    if kind is not None and declarator is not None and declarator.type == "pointer_declarator":
        inner = field(declarator, "declarator")
        if inner is not None and inner.type == "identifier":
            constant = any(child.type == "type_qualifier" and plain(child) == "const" for child in node.children)
            yield CudaPointer(place, node, plain(inner), plain(kind), constant, plain(inner))


def _alias(node: Node, body: Node, pointers: Mapping[str, CudaPointer]) -> Iterator[CudaPointer]:
    """Yield the pointer that a statement declares as an offset from a parameter, once and for all."""
    kind, declarators = field(node, "type"), node.children_by_field_name("declarator")
    if node.type != "declaration" or kind is None or len(declarators) != 1:
        return
    pointer, value = field(declarators[0], "declarator"), field(declarators[0], "value")
    if pointer is None or value is None or pointer.type != "pointer_declarator":
        return
    inner = field(pointer, "declarator")
    bases = names_in(value) & pointers.keys()
    if inner is not None and inner.type == "identifier" and len(bases) == 1:
        base = pointers[next(iter(bases))]
        if plain(kind) == base.element and plain(inner) not in rebound_in(body):
            yield CudaPointer(-1, node, plain(inner), base.element, base.constant, base.root)


def _macros(root: Node) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for node in walk(root):
        if node.type == "preproc_def" and (name := plain(field(node, "name"))):
            if not plain(node).endswith("\n"):  # the parser takes a comment for the end of a macro
                raise UnreadableCuda(f"the macro {name} goes on behind a comment")
            found.setdefault(name, []).append(plain(field(node, "value")).partition("//")[0].strip())
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _sizes(root: Node) -> dict[str, int]:
    sizes = _SIZES.copy()
    for node in walk(root):
        kind, name = plain(field(node, "type")), field(node, "declarator")
        if node.type == "type_definition" and name is not None and kind in sizes:
            sizes[plain(name)] = sizes[kind]
    return sizes


def _arithmetic(text: str) -> str | None:
    """Return a form of whole-number arithmetic that is the same for other layout; None for anything else."""
    try:
        return ast.dump(ast.parse(text.strip().replace("/", "//"), mode="eval"))
    except (SyntaxError, ValueError, RecursionError):
        return None
