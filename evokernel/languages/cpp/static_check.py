"""Checks of a C++ source without a compiler: early feedback for authors, not security.

A hostile source passes any check of its text; the sandbox keeps it harmless.
"""

from collections.abc import Iterator
from itertools import islice

from evokernel.languages.cpp.tokens import DIRECTIVE, tokens
from evokernel.languages.text_checks import check_text

_RUNS = 8
"""Functions of one name that are looked at: each look may go to the end of the text."""
_HEADERS = """
    algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
    clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio
    cstdlib cstring ctime cuchar cwchar cwctype deque exception execution expected filesystem format forward_list
    fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale
    map mdspan memory memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex
    scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept stdfloat stop_token
    streambuf string string_view syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
    unordered_set utility valarray variant vector version
    assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h math.h setjmp.h signal.h stdalign.h
    stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h tgmath.h time.h uchar.h wchar.h wctype.h
    alloca.h malloc.h memory.h
    immintrin.h x86intrin.h xmmintrin.h emmintrin.h pmmintrin.h tmmintrin.h smmintrin.h nmmintrin.h avxintrin.h
    avx2intrin.h fmaintrin.h arm_neon.h arm_sve.h arm_fp16.h arm_bf16.h arm_acle.h omp.h experimental/simd
"""
HEADERS = frozenset(_HEADERS.split())
_ASSEMBLER = frozenset({"asm", "__asm", "__asm__"})


def static_check(source: str) -> str | None:
    """Return why a C++ source cannot be tried, or None."""
    return check_text(source) or _check_tokens(tokens(source))


def entry_parameters(source: str) -> list[tuple[str, ...]]:
    """Return the parameters of the last functions `run` as they are written; of Python with a `run` nothing."""
    found = tokens(source)
    heads = [found[i - 1 : i + 2] for i in range(1, len(found))]
    if ("def", "run", "(") in heads:
        return []
    places = [place + 3 for place, head in enumerate(heads) if head == ("void", "run", "(")]
    return [listed for place in places[-_RUNS:] if (listed := _parameters(found, place)) is not None]


def _parameters(found: tuple[str, ...], place: int) -> tuple[str, ...] | None:
    """Return what lies between here and the parenthesis that closes; None where none does."""
    parameters, depth = [""], 0
    for token in islice(found, place, None):
        if token == ")" and not depth:
            return tuple(parameter.strip() for parameter in parameters if parameter)
        depth += (token in "([{<") - (token in ")]}>")
        if token == "," and not depth:
            parameters.append("")
        else:
            parameters[-1] += token if token in ("*", "&") else f" {token}"
    return None


def _check_tokens(found: tuple[str, ...]) -> str | None:
    for directive in _directives(found):
        problem = _check_directive(directive)
        if problem is not None:
            return problem
    if _ASSEMBLER & set(found):
        literals = (token for token in found if token.endswith('"'))
        if any(word in literal for literal in literals for word in (".incbin", ".include")):
            return "inline assembly must not use .incbin or .include"
    if not _has_entry(found):
        return 'the entry point is missing: the source must define `extern "C" void run(...)`'
    return None


def _directives(found: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the tokens of each directive, without its `#` and its end."""
    start: int | None = None
    for place, token in enumerate(found):
        if token == DIRECTIVE:
            start = place + 1
        elif token == "\n" and start is not None:
            yield found[start:place]
            start = None


def _check_directive(directive: tuple[str, ...]) -> str | None:
    match directive:
        case ("include", name) if name.startswith("<") and name[1:-1].strip() in HEADERS:
            return None
        case ("include", *rest):
            return f"#include {' '.join(rest)}: only standard headers in < > can be included, such as <immintrin.h>"
        case (("embed" | "include_next" | "import") as word, *_):
            return f"#{word} cannot be used; everything a kernel needs must be in its source"
    return None


def _has_entry(found: tuple[str, ...]) -> bool:
    """Say whether `run (` comes after an `extern "C"`, in the same declaration or in its block."""
    linkage = next((i for i in range(len(found) - 1) if found[i] == "extern" and found[i + 1] == '"C"'), None)
    if linkage is None:
        return False
    return any(found[i] == "run" and found[i + 1] == "(" for i in range(linkage, len(found) - 1))
