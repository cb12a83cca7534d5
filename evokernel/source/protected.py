"""Protected text: where a source has blocks to evolve, the rest stays as it is. The marks are those of OpenEvolve.

// EVOLVE-BLOCK-START                    (C++, and CUDA C++ in its string)
...
// EVOLVE-BLOCK-END

# EVOLVE-BLOCK-START                     (Python)
...
# EVOLVE-BLOCK-END
"""

import itertools

START, END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"


def protected_text(source: str) -> tuple[str, ...]:
    """Return the text around the blocks of a source, one part before each and one behind the last.

    The marks belong to it. It is empty where a source has no block: then all of it may change. A block without an end
    reaches to the end of the source.
    """
    if START not in source:
        return ()
    parts, inside = [""], False
    for line in source.splitlines(keepends=True):
        if inside and END in line:
            parts.append("")
            inside = False
        if not inside:
            parts[-1] += line
            inside = START in line and END not in line
    return tuple(parts)


def protected_change(before: str, after: str) -> str:
    """Return a line of the protected text of `before` that `after` lacks or adds to; empty where it keeps all of it."""
    old, new = protected_text(before), protected_text(after)
    if not old or old == new:
        return ""
    lines = itertools.zip_longest(*("".join(parts).splitlines() for parts in (old, new)), fillvalue="")
    differing = ((one.strip(), other.strip()) for one, other in lines if one != other)
    return next((one or other for one, other in differing if one or other), START)
