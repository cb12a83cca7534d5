"""Writer of the loop representation as C++."""

import operators.rewrites.cpp.ir.syntax as ir

INDENT = "  "
_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"))
PRECEDENCE = {op: level + 2 for level, ops in enumerate((*_LEVELS, ("*", "/", "%"))) for op in ops}
_UNARY = 12
_PRIMARY = 13


def _binding(expr: ir.Expr) -> int:
    match expr:
        case ir.Ternary() | ir.RawExpr():
            return 1
        case ir.Binary(op, _, _):
            return PRECEDENCE[op]
        case ir.Unary() | ir.RefCast():
            return _UNARY
        case ir.Num(text) if text.startswith("-"):
            return _UNARY
        case _:
            return _PRIMARY


def _inner(expr: ir.Expr, least: int) -> str:
    text = write_expr(expr)
    return text if _binding(expr) >= least else f"({text})"


def write_expr(expr: ir.Expr) -> str:
    """Return the expression as C++ with no more parentheses than needed."""
    match expr:
        case ir.Num(text) | ir.Var(text) | ir.RawExpr(text):
            return text
        case ir.Unary(op, value):
            inner = _inner(value, _UNARY)
            return f"{op}({inner})" if inner.startswith(op) else f"{op}{inner}"
        case ir.Binary(op, left, right):
            level = PRECEDENCE[op]
            return f"{_inner(left, level)} {op} {_inner(right, level + 1)}"
        case ir.Ternary(cond, then, orelse):
            return f"{_inner(cond, 2)} ? {_inner(then, 2)} : {_inner(orelse, 1)}"
        case ir.Call(name, args):
            return f"{name}({', '.join(map(write_expr, args))})"
        case ir.Index(base, subs):
            return base + "".join(f"[{write_expr(sub)}]" for sub in subs)
        case ir.Cast(kind, value):
            return f"static_cast<{kind}>({write_expr(value)})"
        case ir.RefCast(kind, value):
            return f"({kind}&){write_expr(value)}"
        case ir.Braces(kind, items):
            return f"{kind}{{{', '.join(map(write_expr, items))}}}"


def _simple(stmt: ir.Stmt) -> str:
    match stmt:
        case ir.Decl():
            text = f"{stmt.type} {stmt.name}" + "".join(f"[{write_expr(d)}]" for d in stmt.dims)
            return f"{text};" if stmt.init is None else f"{text} = {write_expr(stmt.init)};"
        case ir.Assign():
            return f"{write_expr(stmt.target)} {stmt.op} {write_expr(stmt.value)};"
        case ir.ExprStmt():
            return f"{write_expr(stmt.value)};"
        case ir.Raw():
            return stmt.text
        case _:
            raise TypeError(type(stmt).__name__)


def for_header(loop: ir.For) -> str:
    """Return the `for (...)` line of a loop, without its body."""
    step = f"++{loop.var}" if loop.step == ir.Num("1") else f"{loop.var} += {write_expr(loop.step)}"
    upper = _inner(loop.upper, PRECEDENCE["<"] + 1)
    return f"for ({loop.type} {loop.var} = {write_expr(loop.lower)}; {loop.var} < {upper}; {step})"


def _braced(header: str, body: tuple[ir.Stmt, ...], pad: str) -> list[str]:
    single = (
        len(body) == 1 and not body[0].notes + body[0].after and not isinstance(body[0], (ir.If, ir.Decl, ir.Block))
    )
    if single and not (isinstance(body[0], ir.For) and body[0].pragmas):
        return [pad + header, *write_stmts(body, pad + INDENT)]
    return [f"{pad}{header} {{", *write_stmts(body, pad + INDENT), f"{pad}}}"]


def _block(body: tuple[ir.Stmt, ...], pad: str) -> list[str]:
    return write_stmts(body, pad + INDENT)


def write_stmts(body: tuple[ir.Stmt, ...], pad: str) -> list[str]:
    """Return the statements as lines, each starting with `pad`."""
    lines: list[str] = []
    for stmt in body:
        lines += [pad + note for note in stmt.notes]
        match stmt:
            case ir.For():
                lines += [f"#pragma {pragma}" for pragma in stmt.pragmas]
                lines += _braced(for_header(stmt), stmt.body, pad)
            case ir.If():
                lines += [f"{pad}if ({write_expr(stmt.cond)}) {{", *_block(stmt.then, pad)]
                if stmt.orelse:
                    lines += [f"{pad}}} else {{", *_block(stmt.orelse, pad)]
                lines.append(f"{pad}}}")
            case ir.Block():
                lines += [f"{pad}{{", *_block(stmt.body, pad), f"{pad}}}"]
            case _:
                lines.append(pad + _simple(stmt))
        lines += [pad + note for note in stmt.after]
    return lines


def write(program: ir.Program) -> str:
    """Return the whole source file."""
    params = ", ".join(f"{p.type} {p.name}" for p in program.params)
    lines = [f"{program.prefix}({params}) {{", *write_stmts(program.body, INDENT), "}"]
    return program.head + "\n".join(lines) + program.tail
