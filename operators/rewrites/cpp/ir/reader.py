"""Reader of C++ into the loop representation, with tree-sitter.

Text that is not understood is kept (`Raw`, `RawExpr`), so a file always survives a round trip.
"""

import re
from dataclasses import replace
from functools import lru_cache

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.ir.writer import PRECEDENCE

SCALAR_TYPES = frozenset({"float", "double", "int", "int32_t", "int64_t", "long", "size_t", "std::size_t", "unsigned"})
INDEX_TYPES = SCALAR_TYPES - {"float", "double"} | {"std::int64_t", "ptrdiff_t", "std::ptrdiff_t"}
_LITERALS = {"number_literal", "true", "false"}
_NAMES = {"identifier", "qualified_identifier"}
_CALLEES = {"identifier", "qualified_identifier", "template_function"}


class UnreadableCpp(ValueError):
    """Error of a text that is not a C++ file with one readable `run` function."""


@lru_cache(maxsize=1)
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _field(node: Node, name: str) -> Node | None:
    return node.child_by_field_name(name)


def _needed(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        raise UnreadableCpp(f"{node.type} without {name}")
    return child


def _named(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


# ---------------------------------------------------------------------------- expressions


def _expr(node: Node) -> ir.Expr:
    kind = node.type
    if kind in _LITERALS:
        text = _text(node)
        return ir.Unary("-", ir.Num(text[1:])) if text.startswith("-") else ir.Num(text)
    if kind in _NAMES:
        return ir.Var(_text(node))
    if kind == "parenthesized_expression":
        inner = _named(node)
        return _expr(inner[0]) if len(inner) == 1 else ir.RawExpr(_text(node))
    reader = _EXPRESSIONS.get(kind)
    return ir.RawExpr(_text(node)) if reader is None else reader(node)


def _binary(node: Node) -> ir.Expr:
    op = _text(_needed(node, "operator"))
    if op not in PRECEDENCE:
        return ir.RawExpr(_text(node))
    return ir.Binary(op, _expr(_needed(node, "left")), _expr(_needed(node, "right")))


def _unary(node: Node) -> ir.Expr:
    op = _text(_needed(node, "operator"))
    if op not in {"-", "!", "~", "+"}:
        return ir.RawExpr(_text(node))
    return ir.Unary(op, _expr(_needed(node, "argument")))


def _ternary(node: Node) -> ir.Expr:
    cond, then, orelse = (_expr(_needed(node, f)) for f in ("condition", "consequence", "alternative"))
    return ir.Ternary(cond, then, orelse)


def _call(node: Node) -> ir.Expr:
    callee = _needed(node, "function")
    args = tuple(_expr(arg) for arg in _named(_needed(node, "arguments")))
    name = _text(callee)
    cast = re.fullmatch(r"static_cast<(.*)>", name, re.DOTALL)
    if len(args) == 1 and (cast or name in SCALAR_TYPES):
        return ir.Cast(cast[1].strip() if cast else name, args[0])
    return ir.Call(name, args) if callee.type in _CALLEES else ir.RawExpr(_text(node))


def _index(node: Node) -> ir.Expr:
    indices = _named(_needed(node, "indices"))
    base = _expr(_needed(node, "argument"))
    if len(indices) != 1:
        return ir.RawExpr(_text(node))
    match base:
        case ir.Var(name):
            return ir.Index(name, (_expr(indices[0]),))
        case ir.Index(name, subs):
            return ir.Index(name, (*subs, _expr(indices[0])))
        case _:
            return ir.RawExpr(_text(node))


def _cast(node: Node) -> ir.Expr:
    kind = _text(_needed(node, "type"))
    value = _expr(_needed(node, "value"))
    if kind.endswith("&"):
        return ir.RefCast(kind[:-1].strip(), value) if isinstance(value, ir.Index) else ir.RawExpr(_text(node))
    return ir.RawExpr(_text(node)) if isinstance(value, ir.RawExpr) else ir.Cast(kind, value)


def _braces(node: Node) -> ir.Expr:
    items = node if node.type == "initializer_list" else _needed(node, "value")
    kind = _field(node, "type")
    return ir.Braces("" if kind is None else _text(kind), tuple(_expr(item) for item in _named(items)))


def _sizeof(node: Node) -> ir.Expr:
    return ir.Num(_text(node))


_EXPRESSIONS = {
    "binary_expression": _binary,
    "unary_expression": _unary,
    "conditional_expression": _ternary,
    "call_expression": _call,
    "subscript_expression": _index,
    "cast_expression": _cast,
    "initializer_list": _braces,
    "compound_literal_expression": _braces,
    "sizeof_expression": _sizeof,
}

# ---------------------------------------------------------------------------- statements


def _declared(node: Node, kind: str) -> ir.Decl | None:
    """Return one declarator of a declaration; None for the forms that are left as text."""
    init: ir.Expr | None = None
    dims: tuple[ir.Expr, ...] = ()
    if node.type == "init_declarator":
        value = _needed(node, "value")
        if value.type == "argument_list":  # `t(2 * N)`: for a class, `t = 2 * N` is something else
            return None
        init, node = _expr(value), _needed(node, "declarator")
    while node.type == "pointer_declarator":
        qualifiers = [_text(child) for child in node.named_children[:-1]]
        kind += "*" + "".join(f" {q}" for q in qualifiers)
        node = _needed(node, "declarator")
    while node.type == "array_declarator":
        size = _field(node, "size")
        if size is None:
            return None
        dims = (_expr(size), *dims)
        node = _needed(node, "declarator")
    return ir.Decl(kind, _text(node), dims, init) if node.type == "identifier" else None


def _declaration(node: Node) -> list[ir.Stmt]:
    declarators = node.children_by_field_name("declarator")
    first = declarators[0].start_byte if declarators else node.end_byte
    kind = " ".join((node.text or b"")[: first - node.start_byte].decode().split())
    decls = [_declared(declarator, kind) for declarator in declarators]
    if not decls or "static" in kind or any(d is None for d in decls):
        return [ir.Raw(_text(node))]
    return [d for d in decls if d is not None]


def _assign(node: Node) -> ir.Stmt | None:
    op = _text(_needed(node, "operator"))
    target = _expr(_needed(node, "left"))
    if op not in {"=", "+=", "-=", "*=", "/="} or not isinstance(target, (ir.Var, ir.Index, ir.RefCast)):
        return None
    return ir.Assign(target, op, _expr(_needed(node, "right")))


def _expression(node: Node) -> ir.Stmt:
    inner = _named(node)
    if len(inner) != 1:
        return ir.Raw(_text(node))
    expr = inner[0]
    if expr.type == "cast_expression" and _needed(expr, "value").type == "assignment_expression":
        # The grammar takes `(T&)x = y` for a cast of the assignment; C++ casts the target.
        assign = _assign(_needed(expr, "value"))
        kind = _text(_needed(expr, "type"))
        if isinstance(assign, ir.Assign) and isinstance(assign.target, ir.Index) and kind.endswith("&"):
            return replace(assign, target=ir.RefCast(kind[:-1].strip(), assign.target))
        return ir.Raw(_text(node))
    if expr.type == "assignment_expression":
        return _assign(expr) or ir.Raw(_text(node))
    if expr.type == "update_expression":
        target = _expr(_needed(expr, "argument"))
        op = _text(_needed(expr, "operator"))[0] + "="
        return ir.Assign(target, op, ir.ONE) if isinstance(target, (ir.Var, ir.Index)) else ir.Raw(_text(node))
    value = _expr(expr)
    return ir.Raw(_text(node)) if isinstance(value, ir.RawExpr) else ir.ExprStmt(value)


def _loop_upper(cond: ir.Expr, var: str) -> ir.Expr | None:
    match cond:
        case ir.Binary("<" | "!=", ir.Var(name), upper) if name == var:
            return upper
        case ir.Binary("<=", ir.Var(name), upper) if name == var:
            return ir.Binary("+", upper, ir.ONE)
        case _:
            return None


def _for(node: Node) -> ir.Stmt:
    init, cond, update = (_field(node, f) for f in ("initializer", "condition", "update"))
    if init is None or cond is None or update is None or init.type != "declaration":
        return ir.Raw(_text(node))
    decl = _declaration(init)
    head = decl[0]
    if len(decl) != 1 or not isinstance(head, ir.Decl) or head.init is None or head.type not in INDEX_TYPES:
        return ir.Raw(_text(node))
    upper = _loop_upper(_expr(cond), head.name)
    step = _loop_step(update, head.name)
    if upper is None or step is None or (step != ir.ONE and "!=" in _text(cond)):
        return ir.Raw(_text(node))
    body = _body(_needed(node, "body"))
    if any(
        isinstance(s, ir.Raw) and re.search(r"\b(break|continue|return|goto)\b", s.text) for s in ir.walk_stmts(body)
    ):
        return ir.Raw(_text(node))
    return ir.For(head.name, head.init, upper, step, body, head.type)


def _loop_step(update: Node, var: str) -> ir.Expr | None:
    if update.type == "update_expression":
        named = _text(_needed(update, "argument")) == var and _text(_needed(update, "operator")) == "++"
        return ir.ONE if named else None
    if update.type != "assignment_expression" or _text(_needed(update, "left")) != var:
        return None
    return _expr(_needed(update, "right")) if _text(_needed(update, "operator")) == "+=" else None


def _if(node: Node) -> ir.Stmt:
    clause = _needed(node, "condition")
    if _field(clause, "initializer") is not None or _text(node).startswith("if constexpr"):
        return ir.Raw(_text(node))
    cond = _expr(_needed(clause, "value"))
    then = _body(_needed(node, "consequence"))
    alternative = _field(node, "alternative")
    orelse = () if alternative is None else _body(_named(alternative)[0])
    return ir.If(cond, then, orelse)


def _body(node: Node) -> tuple[ir.Stmt, ...]:
    return _sequence(node.named_children) if node.type == "compound_statement" else _sequence([node])


def _statement(node: Node) -> list[ir.Stmt]:
    match node.type:
        case "for_statement":
            return [_for(node)]
        case "if_statement":
            return [_if(node)]
        case "declaration":
            return _declaration(node)
        case "expression_statement":
            return [_expression(node)]
        case "compound_statement":
            return [ir.Block(_body(node))]
        case _:
            return [ir.Raw(_text(node))]


def _sequence(nodes: list[Node]) -> tuple[ir.Stmt, ...]:
    """Return statements with the comments and pragmas before them attached."""
    done: list[ir.Stmt] = []
    notes: list[str] = []
    pragmas: list[str] = []
    for node in nodes:
        text = _text(node)
        if node.type == "comment":
            notes.append(" ".join(text.split()))
        elif node.type == "preproc_call" and text.startswith("#pragma"):
            pragmas.append(" ".join(text.removeprefix("#pragma").split()))
        else:
            first, *rest = _statement(node)
            if pragmas and not isinstance(first, ir.For):
                done += [ir.Raw(f"#pragma {pragma}") for pragma in pragmas]
                pragmas = []
            if isinstance(first, ir.For):
                first = replace(first, pragmas=tuple(pragmas))
            done += [replace(first, notes=tuple(notes)), *rest]
            notes, pragmas = [], []
    done += [ir.Raw(f"#pragma {pragma}") for pragma in pragmas]
    if notes:
        done = [*done[:-1], replace(done[-1], after=tuple(notes))] if done else [ir.Raw(notes[0])]
    return tuple(done)


# ---------------------------------------------------------------------------- files


def _find_run(node: Node) -> Node | None:
    for child in node.named_children:
        if child.type == "function_definition":
            declarator = _needed(child, "declarator")
            if declarator.type == "function_declarator" and _text(_needed(declarator, "declarator")) == "run":
                return child
        elif child.type in {"linkage_specification", "declaration_list"}:
            found = _find_run(child)
            if found is not None:
                return found
    return None


def _param(node: Node) -> ir.Param:
    declarator = _field(node, "declarator")
    if declarator is None or node.type != "parameter_declaration":
        raise UnreadableCpp("a parameter without a name")
    kind = " ".join((node.text or b"")[: declarator.start_byte - node.start_byte].decode().split())
    decl = _declared(declarator, kind)
    if decl is None or decl.dims:
        raise UnreadableCpp(f"parameter {_text(node)!r}")
    return ir.Param(decl.type, decl.name)


@lru_cache(maxsize=64)
def read(source: str) -> ir.Program:
    """Return the program of a source text.

    Only the kernel function itself must parse: the grammar lacks some attributes that a file head may use. Raises
    `UnreadableCpp` if the text does not parse or has no `run` function.
    """
    data = source.encode()
    root = _parser().parse(data).root_node
    run = _find_run(root)
    if run is None or run.has_error:
        raise UnreadableCpp("no readable function `run`")
    params = _needed(_needed(run, "declarator"), "parameters")
    body = _needed(run, "body")
    outer = run.parent
    start = outer if outer is not None and outer.type == "linkage_specification" else run
    return ir.Program(
        head=data[: start.start_byte].decode(),
        prefix=data[start.start_byte : params.start_byte].decode(),
        params=tuple(_param(node) for node in _named(params)),
        body=_body(body),
        tail=data[run.end_byte :].decode(),
    )
