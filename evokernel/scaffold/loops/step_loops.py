"""Loops over equal steps: statements that repeat, but for numbers and buffers that advance, become one loop."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

_LEAST = 4
"""Repetitions that are worth a loop."""
_MOST_PEELED = 2
"""First repetitions that may stay in front of the loop: they begin with other values."""
_INTEGER = r"(?<![\w.])\d+(?![\w.])"


@dataclass(frozen=True, slots=True)
class Affine:
    """An integer that may advance with the variables of loops."""

    base: int
    terms: tuple[tuple[str, int], ...] = ()
    """Loop variables, and what it grows by with each."""

    def __str__(self) -> str:
        """Return the C++."""
        text = f"{self.base}"
        for name, by in self.terms:
            part = name if abs(by) == 1 else f"{abs(by)} * {name}"
            text = part if text == "0" and by > 0 else f"{text} {'-' if by < 0 else '+'} {part}"
        return text if text.isalnum() else f"({text})"


@dataclass(frozen=True, slots=True)
class Access:
    """The name of a buffer in front of a subscript."""

    name: str
    before: bool = False
    """True for the content that the last step left."""
    places: tuple[tuple[Affine, str], ...] = ()
    """Step, and elements of one step, where a buffer keeps those of all steps."""

    def __str__(self) -> str:
        """Return the C++, with the bracket."""
        offsets = "".join(f"{number} * {size} + " for number, size in self.places)
        return f"{self.name}{'_before' if self.before else ''}[{offsets}"


Token = str | Affine | Access


@dataclass(frozen=True, slots=True)
class Statement:
    """One or several statements in C++ that belong together, and the buffer that they are the first to fill."""

    tokens: tuple[Token, ...]
    made: str = ""

    @property
    def key(self) -> object:
        """The text without what may advance."""
        return (bool(self.made), *(_masked(token) for token in self.tokens))

    def lines(self) -> list[str]:
        """Return the C++."""
        return "".join(map(str, self.tokens)).splitlines()


@dataclass(frozen=True, slots=True)
class StepLoop:
    """A loop over equal steps."""

    variable: str
    count: int
    body: tuple["Item", ...]
    swapped: tuple[Access, ...] = ()
    """Buffers of which a step needs what the step before left."""

    @property
    def key(self) -> object:
        """The text without what may advance."""
        return (self.variable, self.count, len(self.swapped), *(item.key for item in self.body))

    def lines(self) -> list[str]:
        """Return the C++."""
        head = f"for (int64_t {self.variable} = 0; {self.variable} < {self.count}; ++{self.variable}) {{"
        inner = [f"std::swap({access.name}, {access.name}_before);" for access in self.swapped]
        inner += [line for item in self.body for line in item.lines()]
        return [head, *("    " + line for line in inner), "}"]


Item = Statement | StepLoop


@dataclass
class StepBuffer:
    """A buffer of the function's own."""

    kind: str
    size: tuple[Token, ...]
    """Elements, of one step."""
    steps: list[int] = field(default_factory=list)
    """Numbers of steps that it keeps."""
    doubled: bool = False
    """True where there are two, that of the step before and that of this one."""

    def declarations(self, name: str) -> list[str]:
        """Return the C++."""
        names = [name, *[f"{name}_before"] * self.doubled]
        return [f"std::vector<{self.kind}> {each}({self.elements()});" for each in names]

    def elements(self, steps: int | None = None) -> str:
        """Return the number of elements, for some of the numbers of steps that it keeps or for all."""
        return " * ".join([*map(str, self.steps[:steps]), "".join(map(str, self.size))])


def tokens_of(text: str, buffers: Collection[str]) -> tuple[Token, ...]:
    """Return C++ with the integers and the accesses to buffers in it."""
    found: list[Token] = []
    end = 0
    for match in re.finditer(rf"\b([A-Za-z]\w*)\[|{_INTEGER}", text):
        if match[1] and match[1] not in buffers:
            continue
        found += [text[end : match.start()], Access(match[1]) if match[1] else Affine(int(match[0]))]
        end = match.end()
    return (*found, text[end:])


class StepLoopFinder:
    """Finder of repeated statements.

    Args:
        buffers: the function's own buffers, by name; those that keep all steps grow.
        variables: names for the variables of loops, the innermost one first.
    """

    def __init__(self, buffers: dict[str, StepBuffer], *, variables: Sequence[str]) -> None:
        self._buffers = buffers
        self._variables = variables

    def rolled(self, items: Sequence[Item]) -> list[Item]:
        """Return the same work with loops over the repeated items, the shortest repetitions first."""
        made, refused, numbers = list(items), set[object](), dict[object, int]()
        keys = [numbers.setdefault(item.key, len(numbers)) for item in made]
        while True:
            for start, period, count in _runs(np.array(keys)):
                mark = (*keys[start : start + period], start, period)
                if mark in refused:
                    continue
                if (better := self._rolled(made, start, period, count)) is not None:
                    made = better
                    keys = [numbers.setdefault(item.key, len(numbers)) for item in made]
                    break
                refused.add(mark)
            else:
                return made

    def _rolled(self, items: list[Item], start: int, period: int, count: int) -> list[Item] | None:
        """Return the items with one of their runs as a loop; None where the repetitions differ in more than steps."""
        steps = [items[start + step * period : start + (step + 1) * period] for step in range(count)]
        for peeled in range(_MOST_PEELED + 1):
            run = _Run(steps, peeled=peeled)
            if run.length >= _LEAST:
                return self._replaced(items, start, run)
        return None

    def _replaced(self, items: list[Item], start: int, run: "_Run") -> list[Item] | None:
        period, end = len(run.steps[0]), run.peeled + run.length
        before, after = items[: start + run.peeled * period], items[start + end * period :]
        level = max(map(_level, run.steps[run.peeled]))
        if level >= len(self._variables):
            return None
        first = run.peeled - max(run.lags.values(), default=0)
        later = {access.name for item in after for access in _accesses(item)}
        families: dict[str, tuple[str, int]] = {}
        kept, doubled, sizes = set[str](), set[str](), dict[str, tuple[Token, ...]]()
        for place, name in enumerate(run.made[run.peeled]):
            members = [made[place] for made in run.made[first:end]]
            families |= {member: (name, slot) for slot, member in enumerate(members)}
            lag = run.lags.get(place, 0)
            if lag > 1 or later.intersection(members[:-1]):
                kept.add(name)
            elif lag:
                doubled.add(name)
            size = _largest([self._buffers[member].size for member in members])
            if size is None or (self._buffers[name].doubled and name in kept | doubled):
                return None
            sizes[name] = size
        for name, size in sizes.items():
            steps = [*self._buffers[name].steps, *[end - first] * (name in kept)]
            twice = self._buffers[name].doubled or name in doubled
            self._buffers[name] = replace(self._buffers[name], size=size, steps=steps, doubled=twice)

        def renamed(access: Access, step: int = 0) -> Access:
            name, slot = families.get(access.name, (access.name, 0))
            if access.name not in families or name not in kept:
                earlier = name in doubled and slot < step - first
                return replace(access, name=name, before=access.before or earlier)
            of_one = self._buffers[name].elements(-1)
            return replace(access, name=name, places=((Affine(slot), of_one), *access.places))

        one, two = (
            [_changed(item, partial(renamed, step=step)) for item in run.steps[step]]
            for step in (run.peeled, run.peeled + 1)
        )
        variable = self._variables[level]
        body = tuple(_advancing(item, other, variable) for item, other in zip(one, two, strict=True))
        loop = StepLoop(variable, run.length, body, tuple(map(Access, sorted(doubled))))
        around = [[_changed(item, renamed) for item in part] for part in (before, after)]
        return [*around[0], loop, *around[1]]


class _Run:
    """Repetitions that differ in numbers and buffers that advance by one step, as far as they do.

    Args:
        steps: the items of each repetition.
        peeled: the first ones that are not part of it.
    """

    def __init__(self, steps: Sequence[Sequence[Item]], *, peeled: int) -> None:
        self.steps, self.peeled = steps, peeled
        self.made = [list(dict.fromkeys(name for item in step for name in made_by(item))) for step in steps]
        self._places = {name: (number, p) for number, made in enumerate(self.made) for p, name in enumerate(made)}
        self.lags: dict[int, int] = {}
        """Steps back, at most, of the buffers that a step reads, by their place among those that it makes."""
        self.length = self._measured()

    def _measured(self) -> int:
        length = len(self.steps) - self.peeled
        for column in zip(*(_flat(step) for step in self.steps[self.peeled :]), strict=True):
            if length < _LEAST:
                return 0
            length = min(length, self._length_of(column))
        return length

    def _length_of(self, column: tuple[Token, ...]) -> int:
        """Return how many of the tokens at one place of all repetitions advance evenly."""
        first = column[0]
        if isinstance(first, str):
            return len(column)
        if isinstance(first, Affine):
            return _even([token.base for token in column if isinstance(token, Affine)])
        accesses = [token for token in column if isinstance(token, Access)]
        length = min([len(column), *(_even(list(bases)) for bases in _place_bases(accesses))])
        for step, access in enumerate(accesses[:length]):
            if not self._follows(first, access, step):
                return step
        if first.name in self._places:
            step, place = self._places[first.name]
            self.lags[place] = max(self.peeled - step, self.lags.get(place, 0))
        return length

    def _follows(self, first: Access, access: Access, step: int) -> bool:
        """Say whether a buffer stands to its step as that of the first step does."""
        one, other = (self._places.get(each.name) for each in (first, access))
        if one is None or other is None:
            return first.name == access.name
        return other == (one[0] + step, one[1])


def _runs(keys: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Iterator[tuple[int, int, int]]:
    """Yield start, period and number of repetitions, the shortest periods first."""
    for period in range(1, len(keys) // _LEAST + 1):
        same = np.concatenate([[False], keys[:-period] == keys[period:], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if (count := (end - start) // period + 1) >= _LEAST:
                yield start, period, count


def _even(numbers: list[int]) -> int:
    """Return how many of the first numbers have equal differences."""
    by = numbers[1] - numbers[0]
    return next((n for n, number in enumerate(numbers) if number != numbers[0] + n * by), len(numbers))


def _place_bases(accesses: Sequence[Access]) -> Iterator[tuple[int, ...]]:
    yield from zip(*([number.base for number, _ in access.places] for access in accesses), strict=True)


def _masked(token: Token) -> object:
    if isinstance(token, Affine):
        return token.terms
    if isinstance(token, Access):
        return token.before, tuple((number.terms, size) for number, size in token.places)
    return token


def _level(item: Item) -> int:
    return 0 if isinstance(item, Statement) else 1 + max(map(_level, item.body))


def _flat(items: Sequence[Item]) -> list[Token]:
    found: list[Token] = []
    for item in items:
        found += item.tokens if isinstance(item, Statement) else [*item.swapped, *_flat(item.body)]
    return found


def _accesses(item: Item) -> Iterator[Access]:
    return (token for token in _flat([item]) if isinstance(token, Access))


def made_by(item: Item) -> list[str]:
    """Return the buffers that an item is the first to fill."""
    if isinstance(item, Statement):
        return [item.made] if item.made else []
    return [name for each in item.body for name in made_by(each)]


def _largest(sizes: list[tuple[Token, ...]]) -> tuple[Token, ...] | None:
    """Return the largest of these sizes, which differ in numbers that all grow or all shrink; None for others."""
    pairs = [(a, b) for a, b in zip(sizes[0], sizes[-1], strict=False) if a != b]
    differences = [b.base - a.base for a, b in pairs if isinstance(a, Affine) and isinstance(b, Affine)]
    if len({*map(len, sizes)}) > 1 or len(differences) < len(pairs) or len({by > 0 for by in differences}) > 1:
        return None
    return sizes[-1] if not differences or differences[0] > 0 else sizes[0]


def _changed(item: Item, change: Callable[[Access], Access]) -> Item:
    """Return an item with other accesses."""
    if isinstance(item, Statement):
        tokens = tuple(change(token) if isinstance(token, Access) else token for token in item.tokens)
        return Statement(tokens, change(Access(item.made)).name if item.made else "")
    swapped = tuple(change(access) for access in item.swapped)
    return replace(item, body=tuple(_changed(each, change) for each in item.body), swapped=swapped)


def _advancing(one: Item, two: Item, variable: str) -> Item:
    """Return an item of a first step whose numbers advance as in the second step."""
    if isinstance(one, StepLoop):
        assert isinstance(two, StepLoop)
        body = tuple(_advancing(*pair, variable) for pair in zip(one.body, two.body, strict=True))
        return replace(one, body=body)
    assert isinstance(two, Statement)
    return replace(one, tokens=tuple(_next(*pair, variable) for pair in zip(one.tokens, two.tokens, strict=True)))


def _next(one: Token, two: Token, variable: str) -> Token:
    if isinstance(one, Affine) and isinstance(two, Affine) and one.base != two.base:
        return Affine(one.base, ((variable, two.base - one.base), *one.terms))
    if isinstance(one, Access) and isinstance(two, Access):
        numbers = [_next(mine[0], other[0], variable) for mine, other in zip(one.places, two.places, strict=True)]
        places = ((n, size) for n, (_, size) in zip(numbers, one.places, strict=True) if isinstance(n, Affine))
        return replace(one, places=tuple(places))
    return one
