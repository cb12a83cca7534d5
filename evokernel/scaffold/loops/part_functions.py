"""Functions for the parts of a long kernel: compilers take far longer for one long function than for many short ones.

Of 4,300 lines of a deep network in one function g++ took 78 s of a core, of the same lines in functions 9 s. Parts that
differ in buffers alone are one function.
"""

import re
from collections.abc import Mapping, Sequence

MOST_LINES = 1000
"""Lines of a body that stay in one function."""

_INDENT = "    "
_DECLARED = re.compile(r"    std::vector<(\w+)> (\w+)\(")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_PREFIXES = ("b", "d", "e", "buffer", "own_buffer")
"""Beginnings of the names of buffers in functions."""
_TITLES = ("part_", "step_", "own_part_")
"""Beginnings of the names of functions."""


def in_functions(body: Sequence[str], arguments: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the lines of functions, and the body that calls them.

    Args:
        body: lines of a function; at its first level are declarations of vectors, loops, blocks and single statements.
        arguments: C++ types of its arguments, by name.
    """
    types = {**arguments, **{found[2]: found[1] for line in body if (found := _DECLARED.match(line))}}
    vectors = types.keys() - arguments.keys()
    words = {*types, *_WORD.findall("\n".join(body))}
    prefix = next(each for each in _PREFIXES if not any(re.fullmatch(rf"{each}\d+", word) for word in words))
    title = next(each for each in _TITLES if not any(word.startswith(each) for word in words))
    functions, calls = dict[str, str](), list[str]()
    for part in _parts(body):
        text = "\n".join(part)
        used = [name for name in dict.fromkeys(_WORD.findall(text)) if name in types]
        whole = any(re.search(rf"\b{name}[.,;)]", text) for name in used if name in vectors)  # not element by element
        if len(part) == 1 or whole:
            calls += part
            continue
        buffers = [name for name in used if name in vectors or "*" in types[name]]
        others = [name for name in types if name in used and name not in buffers]
        own = {name: f"{prefix}{place}" for place, name in enumerate(buffers, 1)}
        parameters = [f"{_pointer(types[name], name, text)} __restrict {own[name]}" for name in buffers]
        parameters += [f"{types[name]} {name}" for name in others]
        inside = _WORD.sub(lambda found, own=own: own.get(found[0], found[0]), text)  # type: ignore[misc]
        made = f"({', '.join(parameters)}) {{\n{inside}\n}}"
        function = functions.setdefault(made, f"{title}{len(functions) + 1}")
        given = [f"{name}.data()" if name in vectors else name for name in (*buffers, *others)]
        calls.append(f"{_INDENT}{function}({', '.join(given)});")
    head = "static __attribute__((noinline)) void"
    return [f"{head} {name}{made}\n" for made, name in functions.items()], calls


def _parts(body: Sequence[str]) -> list[list[str]]:
    """Return the statements at the first level, each with its lines."""
    parts, open_part = list[list[str]](), list[str]()
    for line in body:
        open_part.append(line)
        if not line.startswith(_INDENT + " ") and line.endswith((";", "}")):
            parts.append(open_part)
            open_part = []
    return parts


def _pointer(kind: str, name: str, text: str) -> str:
    """Return the type of a buffer in a function: a pointer to constants where nothing is written."""
    if "*" in kind:
        return kind
    written = re.search(rf"^ *{name}\[|&{name}\[", text, re.MULTILINE)
    return f"{kind}*" if written else f"const {kind}*"
