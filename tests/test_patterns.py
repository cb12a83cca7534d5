"""Every regular expression of the package takes time in proportion to the text, whatever the text is."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.pattern_cost import costly

ROOT = Path(__file__).parents[1]
PACKAGES = ("evokernel", "islands", "operators", "archive")
METHODS = frozenset({"search", "match", "fullmatch", "sub", "subn", "findall", "finditer", "split"})
LINEAR = {
    "evokernel.languages.cpp.tokens:_TOKEN": "it takes all that it reads: each of its parts may end anywhere",
    "evokernel.languages.cpp.tokens:_RAW": "where it fails, the rest of the text is one token",
    "evokernel.languages.messages:_PATH": "it fails only behind the last / of a word",
}
"""Patterns that the check takes for costly, and why they are not."""
OF_USERS = {"evokernel/config/run.py", "evokernel/languages/constrained.py"}
"""Modules with patterns that a user's config gives."""


@dataclass(frozen=True, slots=True)
class Use:
    """One pattern of a module, and how it is used."""

    place: str
    name: str
    pattern: str
    flags: int
    methods: frozenset[tuple[str, int]]
    """Methods that are called with it, and with how many arguments."""

    @property
    def cost(self) -> str:
        """A character that makes it costly, or nothing."""
        anchored = bool(self.methods) and self.methods <= {("match", 1), ("fullmatch", 1)}
        whole = {method for method, _ in self.methods} == {"fullmatch"}
        return costly(self.pattern, self.flags, search=not anchored, whole=whole)


def _files() -> Iterator[tuple[Path, str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(r"^ *import re$", text, re.MULTILINE):
                yield path, ".".join(path.relative_to(ROOT).with_suffix("").parts), ast.parse(text)


class _Placeholders(ast.NodeTransformer):
    """Puts `x` in the place of what an f-string takes from the variables of a function."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        known = all(name.id in self._names for name in ast.walk(node) if isinstance(name, ast.Name))
        return node if known else ast.Constant("x")


def _value(node: ast.expr, module: ModuleType) -> Any:
    tree = ast.Expression(_Placeholders(vars(module) | {"str": str}).visit(node))
    return eval(compile(ast.fix_missing_locations(tree), "pattern", "eval"), vars(module))


def _calls(tree: ast.Module) -> Iterator[tuple[str, str, ast.Call]]:
    """Yield calls of methods on names: name, method, call."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            yield node.func.value.id, node.func.attr, node


def _named(tree: ast.Module) -> dict[ast.expr, str]:
    """Return the names that values are assigned to."""
    found: dict[ast.expr, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[value] = name
    return found


def uses() -> list[Use]:
    """Return the patterns of all modules."""
    files = list(_files())
    called: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for path, _, tree in files:
        for name, method, call in _calls(tree):
            if method in METHODS and name != "re":
                place = str(path) if name.startswith("_") else ""
                called.setdefault((place, name), set()).add((method, len(call.args)))
    found: list[Use] = []
    for path, dotted, tree in files:
        names = _named(tree)
        for owner, method, call in _calls(tree):
            if owner != "re" or method not in METHODS | {"compile"}:
                continue
            place, name = f"{path.relative_to(ROOT)}", names.get(call, f"line {call.lineno}")
            if place in OF_USERS:
                continue
            module = importlib.import_module(dotted)
            given = [*call.args[1:], *(each.value for each in call.keywords if each.arg == "flags")]
            flags = [_value(each, module) for each in given if re.match(r"re\.[A-Z]", ast.unparse(each))]
            key = ("" if not name.startswith("_") else str(path), name)
            methods = called.get(key, set()) if method == "compile" else {(method, 1)}
            patterns = _patterns(call.args[0], module)
            found += [Use(place, f"{dotted}:{name}", each, sum(flags), frozenset(methods)) for each in patterns]
    return found


def _patterns(node: ast.expr, module: ModuleType) -> list[str]:
    """Return the patterns that an expression stands for: all of the module's own where it is a variable."""
    try:
        value = _value(node, module)
    except NameError:
        held = [each for each in vars(module).values() if isinstance(each, dict)]
        compiled = [each for group in held for each in group.values() if isinstance(each, re.Pattern)]
        assert compiled, f"{module.__name__}: write {ast.unparse(node)} where a test can read it, in a constant"
        return [each.pattern for each in compiled]
    return [value.decode() if isinstance(value, bytes) else value]


def test_every_pattern_is_linear() -> None:
    found = uses()
    assert len(found) > 100
    assert [(each.place, each.pattern) for each in found if not isinstance(each.pattern, str)] == []
    costs = {each.name: (each.place, each.pattern, each.cost) for each in found if each.cost}
    assert {name: cost for name, cost in costs.items() if name not in LINEAR} == {}
    assert costs.keys() == LINEAR.keys()


@pytest.mark.parametrize(
    ("pattern", "arguments", "cost"),
    [
        (r"\s+$", {}, True),  # tried again from each blank
        (r"^\s*x", {"flags": re.MULTILINE}, True),  # from each line end
        (r"^[ \t]*x", {"flags": re.MULTILINE}, False),
        (r"\w+", {}, False),  # takes what it reads
        (r"\w+;", {}, True),
        (r"\b\w+;", {}, False),
        (r"(?<!\w)\w+;", {}, False),
        (r"(?<!\d)\w+;", {}, True),
        (r"a*a*b", {"search": False}, True),
        (r"(a+)+b", {"search": False}, True),
        (r"[a-z]+\d", {"search": False}, False),
        (r"(\w+)\s*;?\s*#", {"search": False}, True),
        (r"(\w+)\s*(?:;\s*)?#", {"search": False}, False),
        (r'"[^"\n]*"', {}, False),
        (r"/\*(?:.|\n)*?\*/", {}, True),
        (r"`{3,}(?!`)[^`]*$", {"search": False}, False),
        (r"`{3,}.*$", {"search": False}, True),
        (r"\w+", {"search": False, "whole": True}, False),
        (r"x{0,30}y{0,30}z", {}, False),
        (r"(a|b)*\1c", {"search": False}, True),
        (r"(?=.*x)y", {}, True),
        (r"A+a", {"flags": re.IGNORECASE}, True),
        ("×+÷", {}, True),
    ],
)
def test_the_check_knows_what_costs(pattern: str, arguments: dict[str, Any], cost: bool) -> None:
    assert bool(costly(pattern, **arguments)) is cost
