"""Places of settings in a config file, for messages: `file:line:column`."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import yaml

Location = tuple[int | str, ...]
"""Keys and positions from the outermost setting on, as in `("islands", 0, "name")`."""


class ConfigPlaces:
    """Lines and columns of the settings of a file.

    Args:
        path: the file, as the user named it.
        text: its content, valid YAML.
        overrides: dotted keys that the command line replaced.
    """

    def __init__(self, path: Path, text: str, overrides: Sequence[str] = ()) -> None:
        self._path = path
        self._overrides = tuple(overrides)
        self._marks: dict[Location, tuple[int, int]] = {}
        self._names: dict[Location, str] = {}
        self.repeated: list[str] = []
        """A line for each key that stands twice in a mapping: YAML would take the last one and say nothing."""
        self._walked: set[int] = set()
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            self._walk((), root)

    def place(self, location: Location) -> str:
        """Return `file:line:column` of a setting, or of the innermost one around it that the file has."""
        # an item of a list is named by its name or its number
        said = [{str(part), self._names.get(location[: end + 1])} for end, part in enumerate(location)]
        for key in self._overrides:
            parts = key.split(".")
            made = bool(location) and location not in self._marks  # the override has put in what lies around it
            whole = len(parts) <= len(said) or made
            if whole and all(part in words for part, words in zip(parts, said, strict=False)):
                return f"--set {key}"
        while location and location not in self._marks:
            location = location[:-1]
        line, column = self._marks.get(location, (1, 1))
        return f"{self._path}:{line}:{column}"

    def order(self, said: str) -> tuple[int, int]:
        """Return line and column that a message begins with, to sort by; (0, 0) for one on the command line."""
        line, _, rest = said.removeprefix(f"{self._path}:").partition(":")
        column = rest.partition(":")[0]
        return (int(line), int(column)) if line.isdecimal() and column.isdecimal() else (0, 0)

    def _walk(self, location: Location, node: yaml.Node) -> None:
        if id(node) in self._walked:  # an alias, which may stand for millions of settings, or hold itself
            return
        self._walked.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*location, str(key.value))
                earlier = self._marks.get(inner)
                self._marks[inner] = (key.start_mark.line + 1, key.start_mark.column + 1)
                if earlier is not None:
                    name = ".".join(map(str, inner))
                    self.repeated.append(f"{self.place(inner)}: {name}: set twice, first in line {earlier[0]}")
                if key.value == "name" and isinstance(value, yaml.ScalarNode):
                    self._names[location] = value.value
                self._walk(inner, value)
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                inner = (*location, number)
                self._marks[inner] = (item.start_mark.line + 1, item.start_mark.column + 1)
                self._walk(inner, item)


def syntax_problem(path: Path, error: Exception) -> str:
    """Return in one line why a file is not YAML, and where."""
    mark = getattr(error, "problem_mark", None)
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    said = " ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    hint = "; YAML is indented by blanks, never by tabs" if "'\\t'" in said else ""
    return f"{place}: not valid YAML: {said or error}{hint}"


def nearest(name: str, known: Sequence[str]) -> str:
    """Return `did you mean 'seed'?`, or the known names where none is near."""
    near = get_close_matches(name, known, n=1) or [each for each in known if name and each.startswith(name)]
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
