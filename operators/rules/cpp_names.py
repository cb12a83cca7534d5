"""Name check of a C++ source, scope by scope: undeclared names, duplicate declarations, wrong calls."""

import re

from tree_sitter import Node

from operators.rewrites.cuda.source import CUDA_WORDS, cpp_parser
from operators.rewrites.cuda.syntax import field, plain

_SCOPES = {
    *(f"{kind}_statement" for kind in ("compound", "for", "if", "while", "switch")),
    *("for_range_loop", "lambda_expression", "template_declaration"),
}
_NAMES = {"identifier", "type_identifier", "namespace_identifier"}
_DECLARATORS = {
    f"{kind}_declarator"
    for kind in ("init", "pointer", "reference", "array", "function", "structured_binding", "attributed", "variadic")
} | {"parenthesized_declarator"}
_BY_NAME = {"alias_declaration", "enumerator", "type_parameter_declaration", "optional_type_parameter_declaration"}
_MACROS = {"preproc_def", "preproc_function_def"}
_PARAMETERS = {f"{kind}parameter_declaration" for kind in ("", "optional_", "variadic_")}
_DECLARATIONS = {"declaration", "type_definition", "for_range_loop", *_PARAMETERS, *_BY_NAME, *_MACROS}
Fault = tuple[str, ...]


def read_cpp(source: str, *, given: frozenset[str] = frozenset()) -> tuple[set[Fault], int]:
    """Return the faults of a source as `name_check` names them, and the number of places that could not be parsed.

    CUDA C++ is read without the words that only CUDA has; `given` are macros of the compilation.
    """
    text = CUDA_WORDS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    root = cpp_parser().parse(text.encode()).root_node
    reading = _Reading(set(given))
    reading.visit(root)
    return reading.faults | reading.wrong_calls(), _breaks(root)


class _Reading:
    """One walk over a tree, in the order of the text, with the declared names of each open scope."""

    def __init__(self, given: set[str]) -> None:
        self.faults: set[Fault] = set()
        self._scopes: list[set[str]] = [given]
        self._taken: dict[str, list[tuple[int, int]]] = {}
        self._calls: set[tuple[str, int]] = set()

    def visit(self, node: Node) -> None:
        """Read a node and its children."""
        match node.type:
            case "function_definition":
                self._function(node)
            case "struct_specifier" | "class_specifier" | "union_specifier" | "enum_specifier":
                self._type(node)
            case "qualified_identifier":
                self._qualified(node)
            case "call_expression":
                self._call(node)
            case kind if kind in _NAMES:
                self._use(node)
            case kind if kind in _SCOPES:
                with_scope = self._declare if kind == "for_range_loop" else self._inside
                self._scopes.append(set())
                with_scope(node)
                self._scopes.pop()
            case kind if kind in _DECLARATIONS:
                self._declare(node)
            case _:
                self._inside(node)

    def wrong_calls(self) -> set[Fault]:
        """Return the calls of the source's own functions with a number of arguments that none of that name takes."""
        return {
            ("called", name, str(count))
            for name, count in self._calls
            if name in self._taken and not any(least <= count <= most for least, most in self._taken[name])
        }

    def _inside(self, node: Node) -> None:
        for child in node.named_children:
            self.visit(child)

    def _inside_scope(self, names: set[str], *parts: Node | None) -> None:
        self._scopes.append(names)
        for part in parts:
            if part is not None:
                self._inside(part)
        self._scopes.pop()

    def _use(self, node: Node) -> None:
        name = plain(node)
        if not any(name in scope for scope in self._scopes):
            self.faults.add(("unknown", name))

    def _name(self, name: str, *, again: bool = False) -> None:
        if name in self._scopes[-1] and not again and len(self._scopes) > 1:
            self.faults.add(("twice", name))
        self._scopes[-1].add(name)

    def _around(self, node: Node) -> set[str]:
        """Return the scope that a function or a type belongs to; parameters of its template have their own."""
        template = node.parent is not None and node.parent.type == "template_declaration"
        return self._scopes[-2 if template else -1]

    def _function(self, node: Node) -> None:
        declarator, body = field(node, "declarator"), field(node, "body")
        while declarator is not None and declarator.type in _DECLARATORS - {"function_declarator"}:
            declarator = field(declarator, "declarator") or next(iter(declarator.named_children), None)
        for child in node.named_children:
            if child not in (declarator, body) and child.type not in _DECLARATORS:
                self.visit(child)
        name, parameters = field(declarator, "declarator"), field(declarator, "parameters")
        if name is not None and name.type == "identifier":
            self._around(node).add(plain(name))
            self._taken.setdefault(plain(name), []).append(_arity(parameters))
        self._inside_scope(set(), parameters, body)  # a body that declares a parameter's name again declares it twice

    def _type(self, node: Node) -> None:
        name, body = field(node, "name"), field(node, "body")
        if name is not None and name.type == "type_identifier":
            if body is not None:
                self._around(node).add(plain(name))
            else:
                self._use(name)
        if body is not None and node.type == "enum_specifier":
            self._inside(body)
        elif body is not None:
            self._inside_scope(_members(body), body)

    def _qualified(self, node: Node) -> None:
        """Read `scope::name`: the outermost scope counts, and the arguments between angle brackets."""
        for child in node.named_children:
            if child.type == "namespace_identifier":
                self._use(child)
            elif child.type in ("template_type", "template_function", "qualified_identifier"):
                for inner in child.named_children[1:] if child.type != "qualified_identifier" else [child]:
                    self.visit(inner)

    def _call(self, node: Node) -> None:
        function, arguments = field(node, "function"), field(node, "arguments")
        if function is not None and function.type == "template_function":
            function = field(function, "name")
        if function is not None and function.type == "identifier" and arguments is not None:
            given = [child for child in arguments.named_children if child.type != "comment"]
            self._calls.add((plain(function), len(given)))
        self._inside(node)

    def _declare(self, node: Node) -> None:
        """Read a declaration: types and initial values are uses, declared names are known from here on."""
        kind = node.type
        declarators = node.children_by_field_name("declarator")
        name = field(node, "name") if kind in _BY_NAME | _MACROS else None
        if name is None and kind in _BY_NAME:
            name = next((child for child in node.named_children if child.type == "type_identifier"), None)
        for child in node.named_children if kind not in _MACROS else ():
            if child in declarators:
                self._declarator(child)
            elif child != name:
                self.visit(child)
        if name is not None:
            self._name(plain(name), again=True)

    def _declarator(self, node: Node) -> None:
        if node.type in ("identifier", "type_identifier"):
            self._name(plain(node))
        elif node.type == "function_declarator":
            name, parameters = field(node, "declarator"), field(node, "parameters")
            if name is not None and name.type == "identifier":  # a function is declared and later defined
                self._name(plain(name), again=True)
                self._taken.setdefault(plain(name), []).append(_arity(parameters))
            self._inside_scope(set(), parameters)
        elif node.type in _DECLARATORS:
            inner = field(node, "declarator")
            named = [child for child in node.named_children if child.type in _NAMES | _DECLARATORS]
            names = named if inner is None else [inner]
            for child in node.named_children:
                if child not in names:
                    self.visit(child)
            for name in names:
                self._declarator(name)
        else:
            self.visit(node)


def _breaks(node: Node) -> int:
    """Return the number of places in a tree that the grammar could not parse."""
    if not node.has_error:
        return 0
    return (node.is_error or node.is_missing) + sum(_breaks(child) for child in node.children)


def _arity(parameters: Node | None) -> tuple[int, int]:
    """Return the least and the most arguments that a list of parameters takes."""
    if parameters is None:
        return 0, 255
    kinds = [child.type for child in parameters.named_children if child.type != "comment"]
    if any("variadic" in kind for kind in kinds) or "..." in plain(parameters):
        return 0, 255
    if [plain(child) for child in parameters.named_children] == ["void"]:
        return 0, 0
    return kinds.count("parameter_declaration"), len(kinds)


def _members(body: Node) -> set[str]:
    """Return the names of the members of a class, which its functions may use before they are declared."""
    found, waiting = set(), list(body.named_children)
    while waiting:
        node = waiting.pop()
        if node.type in ("field_identifier", "identifier") and node.parent is not None:
            if node.type == "field_identifier":
                found.add(plain(node))
        elif node.type != "compound_statement":
            waiting += node.named_children
    return found
