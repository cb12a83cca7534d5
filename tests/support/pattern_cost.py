"""The cost of a regular expression, read from the expression alone: no clock, no text.

A backtracking matcher takes more than linear time where one text leads from a loop both back into it and into another
loop, which takes the same text: then each place of the one is tried with each place of the other. A search is a loop
of its own, over the places where a match may begin. `costly` looks for two such loops in the automaton of a pattern.

It errs to one side: what possessive repetitions, references and long lookarounds rule out counts as
possible.
Bounded repetitions of up to `LARGE` cost a constant. A loop that may end the match anywhere costs nothing, since there
is no failure after which another place is tried.
"""

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parse  # type: ignore[import-not-found]
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

LARGE = 64
_SAMPLES = [*map(chr, range(128)), *"\x85\u00a0\u00e9\u03b1\u2003\u2028\u4e00\u0663\U0001f600"]
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_ONE_CHARACTER = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
State = tuple[int, str]
"""A node of the automaton, and the kind of the character before it."""


@dataclass(slots=True)
class Node:
    """A place in a pattern."""

    steps: list[tuple[int, int]] = field(default_factory=list)
    """Arrows that take a character: the set of characters as bits, and the node behind it."""
    free: list[tuple[Any, int]] = field(default_factory=list)
    """Arrows that take none: the assertion, None without one, and the node behind it."""


class Automaton:
    """The automaton of a pattern, from node 0.

    Args:
        pattern: the expression.
        flags: of its compilation.
        search: a match may begin at any place.
        whole: a match must reach the end.
    """

    def __init__(self, pattern: str, flags: int, *, search: bool, whole: bool) -> None:
        parsed = sre_parse.parse(pattern, flags)
        self._flags = parsed.state.flags
        self._samples = [*_SAMPLES, *sorted(set(pattern) - set(_SAMPLES))]
        self._all = (1 << len(self._samples)) - 1
        self._kinds = {"newline": self._mask(r"\n"), "word": self._mask(r"\w")}
        self._kinds["other"] = self._all & ~self._kinds["newline"] & ~self._kinds["word"]
        self._nodes = [Node()]
        if search:
            self._nodes[0].steps.append((self._all, 0))
        self._last = self._add(parsed, self._free(None, 0))
        if whole:
            self._last = self._free(sre.AT_END_STRING, self._last)
        self.arrows: dict[State, list[tuple[int, State]]] = {}
        """From each state that can be reached: the characters that are taken, and the next state."""
        self.may_end: set[State] = set()
        """The states in which a match can end, whatever comes next."""
        self._explore()

    def _explore(self) -> None:
        waiting: list[State] = [(0, "start")]
        while waiting:
            state = waiting.pop()
            if state in self.arrows:
                continue
            self.arrows[state] = found = []
            for node, allowed in self._closure(state):
                if node == self._last and allowed == self._all:
                    self.may_end.add(state)
                for taken, target in self._nodes[node].steps:
                    found += [
                        (taken & allowed & mask, (target, kind))
                        for kind, mask in self._kinds.items()
                        if taken & allowed & mask
                    ]
            waiting += [target for _, target in found]

    def _closure(self, state: State) -> set[tuple[int, int]]:
        """Return the nodes that are reached without a character, each with the characters that may come next."""
        first, before = state
        found, waiting = {(first, self._all)}, [(first, self._all)]
        while waiting:
            node, allowed = waiting.pop()
            for assertion, target in self._nodes[node].free:
                then = (target, allowed & self._next_after(assertion, before))
                if then not in found and (then[1] or target == self._last):
                    found.add(then)
                    waiting.append(then)
        return found

    def _next_after(self, assertion: Any, before: str) -> int:
        """Return the characters that may come where an assertion holds; none where only the end may."""
        lines = self._flags & re.MULTILINE
        if isinstance(assertion, tuple):
            where, seen = assertion
            possible = before == "start" or self._kinds[before] & seen
            return seen if where == "next" else self._all * bool(possible)
        match assertion:
            case sre.AT_BEGINNING:
                return self._all if before == "start" or (lines and before == "newline") else 0
            case sre.AT_BEGINNING_STRING:
                return self._all if before == "start" else 0
            case sre.AT_END:
                return self._kinds["newline"]
            case sre.AT_END_STRING:
                return 0
            case sre.AT_BOUNDARY | sre.AT_NON_BOUNDARY:
                same = assertion == sre.AT_NON_BOUNDARY
                return self._kinds["word"] if (before == "word") == same else self._all & ~self._kinds["word"]
        return self._all

    def sample(self, taken: int) -> str:
        """Return one of a set of characters."""
        return next(str(char) for number, char in enumerate(self._samples) if taken >> number & 1)

    # ------------------------------------------------------------------------------------------------ making

    def _node(self) -> int:
        self._nodes.append(Node())
        return len(self._nodes) - 1

    def _free(self, assertion: Any, at: int, to: int | None = None) -> int:
        end = self._node() if to is None else to
        self._nodes[at].free.append((assertion, end))
        return end

    def _add(self, items: Any, at: int) -> int:
        """Add a sequence behind a node and return its last node."""
        for kind, value in items:
            at = self._add_item(kind, value, at)
        return at

    def _add_item(self, kind: Any, value: Any, at: int) -> int:
        if kind in _ONE_CHARACTER:
            end = self._node()
            self._nodes[at].steps.append((self._set(kind, value), end))
            return end
        if kind in _REPEATS:
            least, most, items = value
            return self._add_repeat(least, most, items, at)
        match kind:
            case sre.AT:
                return self._free(value, at)
            case sre.SUBPATTERN:
                return self._add(value[3], at)
            case sre.BRANCH:
                return self._add_branches(value[1], at)
            case sre.GROUPREF_EXISTS:  # either branch: more words than the pattern has, so never too cheap
                return self._add_branches([value[1], value[2] or []], at)
            case sre.ASSERT | sre.ASSERT_NOT:
                return self._add_look(value[0] > 0, value[1], at, negated=kind == sre.ASSERT_NOT)
            case sre.GROUPREF:
                return self._add_repeat(0, sre.MAXREPEAT, [(sre.NOT_LITERAL, -1)], at)
        raise NotImplementedError(str(kind))

    def _add_branches(self, branches: Any, at: int) -> int:
        end = self._node()
        for branch in branches:
            self._free(None, self._add(branch, self._free(None, at)), end)
        return end

    def _add_look(self, ahead: bool, items: Any, at: int, *, negated: bool) -> int:
        if len(items) == 1 and items[0][0] in _ONE_CHARACTER:
            seen = self._set(*items[0])
            return self._free(("next" if ahead else "before", self._all & ~seen if negated else seen), at)
        if ahead:
            self._add(items, self._free(None, at))  # it is read, and leads nowhere
        return self._free(None, at)

    def _add_repeat(self, least: int, most: Any, items: Any, at: int) -> int:
        for _ in range(min(least, 2)):
            at = self._add(items, at)
        if most == sre.MAXREPEAT or most > LARGE:
            loop = self._free(None, at)
            self._free(None, self._add(items, loop), loop)
            return self._free(None, loop)
        end = self._free(None, at)
        for _ in range(min(most - least, 2)):
            at = self._add(items, at)
            self._free(None, at, end)
        return end

    def _set(self, kind: Any, value: Any) -> int:
        match kind:
            case sre.ANY:
                return self._all if self._flags & re.DOTALL else self._all & ~self._kinds["newline"]
            case sre.LITERAL:
                return self._literal(value)
            case sre.NOT_LITERAL:
                return self._all & ~self._literal(value)
        found, negated = 0, False
        for part, inner in value:
            match part:
                case sre.NEGATE:
                    negated = True
                case sre.LITERAL:
                    found |= self._literal(inner)
                case sre.RANGE:
                    codes = range(inner[0], inner[1] + 1)
                    found |= sum(1 << number for number, char in enumerate(self._samples) if ord(char) in codes)
                case _:
                    found |= self._mask(_CATEGORIES[inner], self._flags & re.ASCII)
        return self._all & ~found if negated else found

    def _literal(self, code: int) -> int:
        return 0 if code < 0 else self._mask(re.escape(chr(code)), self._flags & re.IGNORECASE)

    def _mask(self, pattern: str, flags: int = 0) -> int:
        compiled = re.compile(pattern, flags)
        return sum(1 << number for number, char in enumerate(self._samples) if compiled.fullmatch(char))


def costly(pattern: str, flags: int = 0, *, search: bool = True, whole: bool = False) -> str:
    """Return a character that two loops take, where a pattern can cost more than linear time, or nothing."""
    automaton = Automaton(pattern, flags, search=search, whole=whole)
    reachable = {state: _reached(automaton, state) for state in automaton.arrows}
    loops = [state for state in automaton.arrows if state in reachable[state]]
    for one, other in product(loops, loops):
        if one == other or other not in reachable[one] or other in automaton.may_end:
            continue
        rounds = [{each for each in reachable[loop] if loop in reachable[each]} for loop in (one, other)]
        common = _common_text(automaton, one, other, rounds=rounds, between=reachable)
        if common:
            return automaton.sample(common)
    return ""


def _reached(automaton: Automaton, state: State) -> set[State]:
    """Return the states behind a state, after one character or more."""
    found: set[State] = set()
    waiting = [state]
    while waiting:
        for _, target in automaton.arrows[waiting.pop()]:
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _common_text(
    automaton: Automaton, one: State, other: State, *, rounds: list[set[State]], between: dict[State, set[State]]
) -> int:
    """Return characters of a text that leads from `one` to `one` and to `other`, and from `other` to itself, or 0."""
    begin, goal = (one, one, other), (one, other, other)
    seen, waiting = {begin}, [begin]
    while waiting:
        for taken, then in _together(automaton, waiting.pop()):
            if then == goal:
                return taken
            fits = then[0] in rounds[0] and then[2] in rounds[1] and (then[1] == other or other in between[then[1]])
            if fits and then not in seen:
                seen.add(then)
                waiting.append(then)
    return 0


def _together(
    automaton: Automaton, states: tuple[State, State, State]
) -> Iterator[tuple[int, tuple[State, State, State]]]:
    """Yield where three states get by one character."""
    for arrows in product(*(automaton.arrows[state] for state in states)):
        taken = arrows[0][0] & arrows[1][0] & arrows[2][0]
        if taken:
            yield taken, (arrows[0][1], arrows[1][1], arrows[2][1])
