"""Text of a seed from a user's file: its kernels, and their host function as `run`, which allocates no results."""

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from evokernel.errors import TaskError
from evokernel.scaffold.extract.recorded_call import Config, KernelCall
from evokernel.scaffold.extract.text_edits import TextEdits
from evokernel.task import Signature

_SHAPED = {"empty": "", "zeros": ".zero_()", "ones": ".fill_(1)", "new_empty": "", "new_zeros": ".zero_()"}
"""Functions that allocate by shape, with what to do to memory that is there already."""
_LIKE = {"empty_like": "", "zeros_like": ".zero_()", "ones_like": ".fill_(1)"}
_VIEWS = frozenset({"view", "reshape", "view_as", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze"})
_LAUNCH_MENUS = {"num_warps": (2, 4, 8, 16), "num_stages": (1, 2, 3, 4)}
_LEAST_TILE = 16
_HINT = "write a function at the top of the file that allocates its results, launches the kernels and returns them"


def kernel_text(
    call: KernelCall, signature: Signature, order: Sequence[str], *, config: int = 0, tiles: bool = True
) -> str:
    """Return a Triton source for a task whose `run` does what the host function does.

    Tunables are the parameters that Triton tunes, with the values of its configurations, and numbers at launches.
    Raises `TaskError` if the file has another form than is understood; the message says what to write.

    Args:
        order: arguments of the host function that are the task's inputs, in its order.
        config: number of the configuration that the tunables begin with.
        tiles: make tunables also of sizes that are written at a launch alone; its grid may count on them.
    """
    return SeedWriter(call, signature, order, config=config, tiles=tiles).text()


def check_function(file: Path, name: str) -> None:
    """Raise `TaskError` where a file has no such function at its top."""
    _Source(file).function(name)


def function_text(file: Path, name: str) -> str:
    """Return a function at the top of a file with what it needs, as a file of its own."""
    return _Source(file).alone(name)


class _Source:
    """A user's file by the statements at its top."""

    def __init__(self, file: Path) -> None:
        try:
            text = file.read_text(encoding="utf-8").replace("\r\n", "\n")
            self._tree = ast.parse(text)
        except (OSError, UnicodeDecodeError, SyntaxError) as error:
            raise TaskError(f"{file} cannot be read as Python: {error}") from None
        self._edits = TextEdits(text.encode())
        self._file = file
        self._defined = {name: node for node in self._tree.body if not _is_main(node) for name in _names(node)}

    def function(self, name: str) -> ast.FunctionDef:
        """Return a function at the top. Raises `TaskError` where there is none of that name."""
        found = self._defined.get(name)
        if isinstance(found, ast.FunctionDef):
            return found
        known = [key for key, node in self._defined.items() if isinstance(node, ast.FunctionDef)]
        raise TaskError(
            f"{self._file} defines no function {name} at its top; it has: {', '.join(known) or 'none'}. Where the "
            f"launch is in a class, {_HINT}"
        )

    def alone(self, name: str) -> str:
        """Return a function with the statements at the top that it needs."""
        function = self.function(name)
        return "\n\n\n".join(map(self._statement, [*self._needed(function), function])) + "\n"

    def _needed(self, host: ast.FunctionDef) -> list[ast.stmt]:
        """Return the statements at the top that a function stands on, in their order."""
        found, waiting = list[ast.stmt](), list(_read(host))
        while waiting:
            node = self._defined.get(waiting.pop())
            if node is not None and node is not host and node not in found:
                found.append(node)
                waiting += _read(node)
        return [node for node in self._tree.body if node in found]

    def _statement(self, node: ast.stmt) -> str:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        return self._edits.piece(
            self._edits.line(first), self._edits.line((node.end_lineno or node.lineno) + 1)
        ).rstrip()


class SeedWriter(_Source):
    """Writes the seed of one call."""

    def __init__(
        self, call: KernelCall, signature: Signature, order: Sequence[str], *, config: int, tiles: bool
    ) -> None:
        super().__init__(call.module)
        self._tiles = tiles
        self._call, self._signature, self._order, self._config = call, signature, order, config
        self._tunables: dict[str, tuple[int | bool, tuple[int | bool, ...]]] = {}

    def text(self) -> str:
        """Return the text. Raises `TaskError` for a form that is not understood."""
        host = self._host()
        needed = self._needed(host)
        menus = {kernel: self._menu(kernel) for kernel in self._call.tuned if self._defined.get(kernel) in needed}
        for node in [*needed, host]:
            if isinstance(node, ast.FunctionDef) and node.name in menus:
                self._untuned(node)
            self._launches(node, menus)
        run = self._run(host)
        imports = [node for node in needed if isinstance(node, (ast.Import, ast.ImportFrom))]
        parts = [
            "\n".join(map(self._statement, imports)),
            "\n".join(map(self._tunable, self._tunables)),
            *(self._statement(node) for node in needed if node not in imports),
            run,
        ]
        return "\n\n\n".join(part for part in parts if part) + "\n"

    def _host(self) -> ast.FunctionDef:
        host = self.function(self._call.function)
        if host.body[0].lineno == host.lineno:
            raise TaskError(f"the body of {host.name} begins in the line of its `def`; put it into lines of its own")
        return host

    # -------------------------------------------------------------------------------- tunables

    def _menu(self, kernel: str) -> dict[str, str]:
        """Make tunables of a kernel's configurations; return what to write for each parameter at its launches."""
        configs = self._call.tuned[kernel]
        if self._config >= len(configs):
            raise TaskError(f"{kernel} has {len(configs)} configurations, numbered from 0; there is no {self._config}")
        given: dict[str, str] = {}
        for key in configs[0]:
            values = _values(kernel, key, configs)
            name = self._free(key.upper() if key in _LAUNCH_MENUS else key, kernel)
            value = configs[self._config][key]
            if isinstance(value, str):
                given[key] = value if value in ("None", "True", "False") else repr(value)
                continue
            self._tunables[name] = (value, values)
            given[key] = name
        return given

    def _free(self, name: str, kernel: str) -> str:
        taken = {*self._tunables, *self._defined, *(node.id for node in ast.walk(self._tree) if _stored(node))}
        candidates = (name, f"{name}_{kernel.upper()}", *(f"{name}_{number}" for number in range(2, 99)))
        return next(each for each in candidates if each not in taken)

    def _tunable(self, name: str) -> str:
        value, choices = self._tunables[name]
        listed = " ".join(map(str, choices))
        return f"{name} = {value}  # tune: {listed}" if len(choices) > 1 else f"{name} = {value}"

    def _untuned(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if _last(called) == "autotune":
                start = self._edits.line(decorator.lineno)
                self._edits.replace(start, self._edits.line((decorator.end_lineno or 0) + 1), "")

    def _launches(self, node: ast.stmt, menus: Mapping[str, Mapping[str, str]]) -> None:
        """Give launches their tunables: those of tuned kernels, and numbers that are written at others."""
        for each in ast.walk(node):
            if not (isinstance(each, ast.Call) and isinstance(each.func, ast.Subscript)):
                continue
            kernel = each.func.value.id if isinstance(each.func.value, ast.Name) else ""
            if kernel in menus:
                self._add_keywords(each, menus[kernel])
                continue
            written = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            for keyword in each.keywords:
                self._number(keyword, kernel, written)

    def _add_keywords(self, launch: ast.Call, given: Mapping[str, str]) -> None:
        there = {keyword.arg for keyword in launch.keywords}
        text = ", ".join(f"{key}={value}" for key, value in given.items() if key not in there)
        close = self._edits.end(launch) - 1
        last = max(map(self._edits.end, [*launch.args, *(each.value for each in launch.keywords)]), default=0)
        tail = self._edits.raw[last:close] if last else b","
        at = close if b"#" in tail or not last else last + len(tail.rstrip())
        comma = b"," in re.sub(rb"#[^\n]*", b"", tail)
        self._edits.replace(at, at, f"{' ' * bool(last)}{text}," if comma and last else text if comma else f", {text}")

    def _number(self, keyword: ast.keyword, kernel: str, written: Sequence[Any]) -> None:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if type(value) is not int or keyword.arg is None:
            return
        menu = set(_LAUNCH_MENUS.get(keyword.arg, ()))
        # where it is written twice, the grid needs it, too
        if not menu and self._tiles and value >= _LEAST_TILE and value.bit_count() == 1 and written.count(value) == 1:
            menu = {each for each in (value // 4, value // 2, value * 2, value * 4) if each >= _LEAST_TILE}
        if menu:
            name = self._free(keyword.arg.upper(), kernel)
            self._tunables[name] = (value, tuple(sorted({*menu, value})))
            self._edits.replace(self._edits.begin(keyword.value), self._edits.end(keyword.value), name)

    # -------------------------------------------------------------------------------- run

    def _run(self, host: ast.FunctionDef) -> str:
        body = host.body[1:] if ast.get_docstring(host, clean=False) is not None else host.body
        last = body[-1] if body else None
        returns = [node for node in _own(host) if isinstance(node, ast.Return)]
        if not isinstance(last, ast.Return) or len(returns) != 1:
            raise TaskError(f"{host.name} must end with its only `return`, which names its results; {_HINT}")
        results = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        outputs = [tensor.name for tensor in self._signature.outputs]
        if len(results) != len(outputs):
            raise TaskError(f"{host.name} returns {len(results)} tensors, and the reference {len(outputs)}")
        allocated = {name: _variable(result) for name, result in zip(outputs, results, strict=True)}
        names = self._names_in_run(host, allocated)
        for name, result in zip(outputs, results, strict=True):
            self._lend(host, body, result, names[name])
        for node in body[:-1]:
            named = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            if isinstance(node, ast.Assert) and {"is_cuda", "device"} & named:  # a recording has no device to look at
                following = self._edits.line((node.end_lineno or node.lineno) + 1)
                self._edits.replace(self._edits.line(node.lineno), following, "")
        indent = " " * body[0].col_offset
        read = {node.id for node in ast.walk(host) if isinstance(node, ast.Name)}
        constants = {n: v for n, v in self._call.arguments.items() if n in read and n not in self._call.tensors}
        lines = [f"{indent}{name} = {constant_text(value)}" for name, value in constants.items()]
        start = self._edits.line(body[0].lineno)
        rest = self._edits.piece(start, self._edits.line(last.lineno)).rstrip()
        head = f"def run({', '.join([*self._order, *names.values()])}):"
        return "\n".join([head, *lines, rest])

    def _names_in_run(self, host: ast.FunctionDef, allocated: Mapping[str, str]) -> dict[str, str]:
        """Return the names of sizes and outputs as arguments of `run`, which must not hide what the function reads."""
        mentioned = {node.id for node in ast.walk(host) if isinstance(node, ast.Name)} | {*self._call.arguments}
        local = {node.id for node in ast.walk(host) if _stored(node)} - {*allocated.values(), *self._call.arguments}
        sizes = {scalar.name: _unused(scalar.name, mentioned - local) for scalar in self._signature.scalars}
        return sizes | {name: name if name == own else _unused(name, mentioned) for name, own in allocated.items()}

    def _lend(self, host: ast.FunctionDef, body: Sequence[ast.stmt], result: ast.expr | None, output: str) -> None:
        """Write the output that a kernel is given in place of the memory that a result is allocated in."""
        wanted = _variable(result)
        stored = [node for node in ast.walk(host) if _stored(node) and node.id == wanted]
        made = [
            node.value
            for node in body
            if isinstance(node, ast.Assign) and [getattr(each, "id", "") for each in node.targets] == [wanted]
        ]
        text = self._view(made[0], output) if wanted and len(made) == len(stored) == 1 else ""
        if not text:
            said = ast.unparse(result) if result else "nothing"
            known = ", ".join(sorted({*_SHAPED, *_LIKE}))
            raise TaskError(
                f"{host.name} returns {said[:60]}, which is not allocated there once by one of {known}; a kernel gets "
                f"the memory of its results: {_HINT}"
            )
        self._edits.replace(self._edits.begin(made[0]), self._edits.end(made[0]), text)

    def _view(self, made: ast.expr, output: str) -> str:
        """Return an output in the shape of an allocation; nothing where this is no allocation."""
        if not isinstance(made, ast.Call):
            return ""
        kind = _last(made.func)
        if kind in _LIKE and made.args:
            return f"{output}.view({self._edits.source(made.args[0])}.shape){_LIKE[kind]}"
        if kind in _SHAPED:
            sizes = [*made.args, *(each.value for each in made.keywords if each.arg == "size")]
            return f"{output}.view({', '.join(map(self._edits.source, sizes))}){_SHAPED[kind]}" if sizes else ""
        return ""


def _variable(result: ast.expr | None) -> str:
    """Return the variable that a function returns, as it is or seen in another shape; nothing for anything else."""
    while isinstance(result, ast.Call) and isinstance(result.func, ast.Attribute) and result.func.attr in _VIEWS:
        result = result.func.value
    return result.id if isinstance(result, ast.Name) else ""


def _values(kernel: str, key: str, configs: Sequence[Config]) -> tuple[int | bool, ...]:
    """Return the values of a parameter in all configurations, ascending; nothing for one that is no number."""
    values = list(dict.fromkeys(each.get(key) for each in configs))
    numbers = [each for each in values if isinstance(each, (bool, int))]
    if len({type(each) for each in values}) > 1 or (not numbers and len(values) > 1):
        raise TaskError(
            f"the configurations of {kernel} give {key} the values {', '.join(map(str, values))[:100]}; expected "
            "integers or truth values in all of them, which a search can tune"
        )
    return tuple(sorted(numbers))


def _names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a file binds."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    else:
        for each in ast.walk(node):
            if isinstance(each, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
                yield from _names(each)
            elif _stored(each):
                yield each.id


def _read(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement reads, those in decorators that Triton's tuner needs apart."""
    tuners = {
        each
        for decorator in getattr(node, "decorator_list", ())
        if _last(getattr(decorator, "func", decorator)) == "autotune"
        for each in ast.walk(decorator)
        if each is not decorator
    }
    local = set[str]()
    if isinstance(node, ast.FunctionDef):
        inner = [each for part in node.body for each in ast.walk(part)]
        local = {each.id for each in inner if _stored(each)} | {each.arg for each in _arguments(node.args)}
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Name)
            and isinstance(each.ctx, ast.Load)
            and each not in tuners
            and each.id not in local
        ):
            yield each.id


def _arguments(found: ast.arguments) -> list[ast.arg]:
    return [*found.posonlyargs, *found.args, *found.kwonlyargs]


def _is_main(node: ast.stmt) -> bool:
    """Say whether a statement is for the file run as a program."""
    return isinstance(node, ast.If) and any(getattr(each, "id", "") == "__name__" for each in ast.walk(node.test))


def _own(host: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions in it."""
    waiting: list[ast.AST] = [*host.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _last(expression: ast.AST) -> str:
    return str(getattr(expression, "attr", getattr(expression, "id", "")))


def _unused(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    return name


def constant_text(value: Any) -> str:
    """Return a number, a text or None as Python spells it."""
    return f'float("{value}")' if isinstance(value, float) and not math.isfinite(value) else repr(value)
