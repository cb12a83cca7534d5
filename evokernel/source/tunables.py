"""Tunables: named numbers and switches in a source with the values they may take, the same lines in every language.

constexpr int MR = 8;  // tune: 4 6 8          (C++)
BLOCK_M = 64  # tune: 16 32 64 128             (Python)
FAST = True  # tune: False True                (a switch; in C++ `false` and `true`)
// tune-where: MR * NR <= 256                  (an optional constraint)
"""

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evokernel.source import SIZE_LIMIT_BYTES
from evokernel.source.expressions import evaluate, names_in

_NUMBER, _SWITCH, _GAP = r"-?\d{1,18}", "(?:[Tt]rue|[Ff]alse)", r"[ \t,]+"
_LINE = re.compile(
    rf"^(?P<head>[^\n#/=]*?\b(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*)(?P<value>(?P<switch>{_SWITCH})|{_NUMBER})"
    r"(?P<tail>[ \t]*(?:;[ \t]*)?(?://|\#)[^\S\n]*tune:[^\S\n]*"
    rf"(?P<choices>(?(switch){_SWITCH}(?:{_GAP}{_SWITCH})*|{_NUMBER}(?:{_GAP}{_NUMBER})*))[^\S\n]*)$",
    re.MULTILINE,
)
_SWITCHES = {"false": 0, "true": 1}
_WHERE = re.compile(r"^[^\S\n]*(?://|\#)[^\S\n]*tune-where:[^\S\n]*(?P<text>\S(?:[^\n]*\S)?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tunable:
    """One named number or switch of a source; a switch is 0 or 1."""

    name: str
    """Its name, unique in the source."""
    value: int
    """Its value in this source."""
    choices: tuple[int, ...]
    """The values that it may take, ascending."""


@dataclass(frozen=True, slots=True)
class TunableSpace:
    """The tunables of a source and the constraints between them."""

    tunables: tuple[Tunable, ...]
    """In the order of the source."""
    constraints: tuple[str, ...]
    """Integer expressions over the names; each must be nonzero."""

    @property
    def values(self) -> dict[str, int]:
        """The values in this source, by name."""
        return {tunable.name: tunable.value for tunable in self.tunables}

    def allows(self, values: Mapping[str, int]) -> bool:
        """Say whether every value is a listed choice and every constraint holds; one without a value does not."""
        listed = all(values[tunable.name] in tunable.choices for tunable in self.tunables)
        try:
            return listed and all(evaluate(text, values) for text in self.constraints)
        except ValueError:
            return False

    def points(self) -> Iterator[dict[str, int]]:
        """Yield every allowed point in a fixed order."""
        names = [tunable.name for tunable in self.tunables]
        for chosen in itertools.product(*(tunable.choices for tunable in self.tunables)):
            values = dict(zip(names, chosen, strict=True))
            if self.allows(values):
                yield values


_NOTHING = TunableSpace((), ())


def read_tunables(source: str) -> TunableSpace:
    """Return the tunable space of a source.

    Raises:
        ValueError: a name is declared twice, or a constraint is malformed or names something else than a tunable.
    """
    if "tune" not in source:  # most sources of models have none, and this is asked often
        return _NOTHING
    tunables: dict[str, Tunable] = {}
    for match in _LINE.finditer(source):
        name, value = match["name"], _number(match["value"])
        if name in tunables:
            raise ValueError(f"tunable {name!r} is declared twice")
        choices = {_number(choice) for choice in re.split(_GAP, match["choices"])}
        tunables[name] = Tunable(name, value, tuple(sorted(choices | {value})))
    constraints = tuple(match["text"] for match in _WHERE.finditer(source))
    for text in constraints:
        unknown = names_in(text) - tunables.keys()
        if unknown:
            raise ValueError(f"tune-where {text!r} names {sorted(unknown)}, which are not tunables of this source")
    return TunableSpace(tuple(tunables.values()), constraints)


def with_values(source: str, values: Mapping[str, int]) -> str:
    """Return the source with the named tunables set. Raises `KeyError` for a name that is not a tunable."""
    missing = values.keys() - {match["name"] for match in _LINE.finditer(source)}
    if missing:
        raise KeyError(f"no tunable named {sorted(missing)}")

    def replace(match: re.Match[str]) -> str:
        text = match["value"]
        if match["name"] in values:
            text = _written(values[match["name"]], like=text)
        return f"{match['head']}{text}{match['tail']}"

    return _LINE.sub(replace, source)


def _number(text: str) -> int:
    switch = _SWITCHES.get(text.lower())
    return int(text) if switch is None else switch


def _written(value: int, *, like: str) -> str:
    """Return a value as the source writes it: `True` in Python, `true` in C++."""
    if like.lower() not in _SWITCHES:
        return str(value)
    text = "true" if value else "false"
    return text.capitalize() if like[0].isupper() else text


def skeleton_of(source: str) -> str:
    """Return the source with the values of its tunables masked; their ranges stay."""
    return _LINE.sub(lambda match: f"{match['head']}?{match['tail']}", source) if "tune" in source else source


def skeleton_hash(source: str) -> str:
    """Return 16 hex digits, equal for sources that differ only in the values of tunables."""
    text = skeleton_of(source) if len(source) <= SIZE_LIMIT_BYTES else source
    return hashlib.sha256(text.encode()).hexdigest()[:16]
