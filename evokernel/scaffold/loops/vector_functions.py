"""Functions of the C library that g++ calls on whole vectors: those of libmvec, accurate to 4 units in the last place.

The functions are declared again with the attribute `simd`; `const` says that nobody reads errno. The loops of a
cross-entropy take half of the time that they take with `std::exp`.
"""

import platform
import re
from functools import lru_cache

_SINCE = {
    (2, 22): ("exp", "log", "sin", "cos"),
    (2, 35): ("exp2", "expm1", "log2", "log10", "log1p", "tanh", "tan", "erf", "cbrt"),
}
"""Functions by the version of the GNU C library that brought their vector forms on x86-64."""
_ALL = "|".join(name for names in _SINCE.values() for name in names)
ANY = re.compile(rf"\bstd::({_ALL})\(")
"""Call of such a function."""


def with_vector_functions(body: str, kind: str) -> tuple[str, str]:
    """Return declarations, one a line, and the lines of a function that call what they declare.

    Args:
        body: lines in C++ whose calls get numbers of one type.
        kind: the type, float or double.
    """
    end, known = "f" * (kind == "float"), _known()
    names = sorted({name for name in ANY.findall(body) if name in known})
    lines = [f'extern "C" __attribute__((simd("notinbranch"), const)) {kind} {n}{end}({kind}) noexcept;' for n in names]
    called = ANY.sub(lambda found: f"{found[1]}{end}(" if found[1] in known else found[0], body)
    return "".join(line + "\n" for line in lines), called


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    """Return the functions that the C library of this machine has vector forms of."""
    library, version = platform.libc_ver()
    if platform.machine() != "x86_64" or library != "glibc":
        return frozenset()
    here = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return frozenset(name for since, names in _SINCE.items() if since <= here for name in names)
