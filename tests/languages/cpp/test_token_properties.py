"""The tokens of a C++ source: comments and layout never matter, everything else does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.languages.cpp.tokens import DIRECTIVE, tokens

SOURCE = r"""#include <cstdint>
#include <immintrin.h>
#define TWICE(x) ((x) * 2)
#define LONG \
    (1'000'000 + 0x1.8p+3)
constexpr int MR = 6;  // tune: 4 6 8
static const char* text = "a // b /* c */ \" d";
static const char quote = '"', other = '\'';
static const char* raw = R"x(no // comment \
 "here" )x";
template <int N> struct Box { int v[N >> 1]; };
extern "C" void run(const float* a, int64_t M, float* c) {
    for (int64_t i = 0; i < M; ++i) c[i] = a[i] <= 0.5e-3f ? -a[i] : TWICE(a[i]);
}
"""
FOUND = tokens(SOURCE)
BETWEEN = st.sampled_from(
    [
        " ",
        "\t",
        "\n",
        "\n\n  ",
        "/**/",
        "/* a\n b */",
        "// c\n",
        '/* " \' R"( */',
        "// it's\n",
        "\\\n",
        "//*\n",
        "// \\\n d\n",
    ]
)
WITHIN = st.sampled_from([" ", "\t", "/**/", "/* a\n b */", "\\\n", '/* " */'])


def spaced(found: tuple[str, ...], gaps: list[str], inner: list[str]) -> str:
    """Write tokens down again with the given gaps; directives keep to their line."""
    parts: list[str] = []
    place, directive = 0, False
    while place < len(found):
        token = found[place]
        gap = inner[place % len(inner)] if directive else gaps[place % len(gaps)]
        if token == DIRECTIVE:
            parts.append("\n#")
            directive = True
        elif token == "\n":
            parts.append("\n")
            directive = False
        elif token == "()":
            parts.append("(")
            place += 1  # the parenthesis itself: nothing may come between it and the macro's name
        else:
            parts += [gap, " " if gap.startswith("\\") or not gap else "", token]
        place += 1
    return "".join(parts)


def test_text_survives_being_written_again():
    assert tokens(spaced(FOUND, [" "], [" "])) == FOUND


@given(st.lists(BETWEEN, min_size=1, max_size=40), st.lists(WITHIN, min_size=1, max_size=7))
@settings(max_examples=150, deadline=None)
def test_gaps_never_matter(gaps: list[str], inner: list[str]):
    assert tokens(spaced(FOUND, gaps, inner)) == FOUND


MARKS = (DIRECTIVE, "\n", "()")  # tokens that stand for layout that means something
CHANGEABLE = [n for n, token in enumerate(FOUND) if token not in MARKS and FOUND[n - 1] != "()"]


@given(st.sampled_from(CHANGEABLE), st.sampled_from(["0", "zz", "+", "'q'", '"s"']))
@settings(max_examples=150, deadline=None)
def test_another_token_always_matters(place: int, token: str):
    changed = (*FOUND[:place], token, *FOUND[place + 1 :])
    assert (tokens(spaced(changed, [" "], [" "])) == FOUND) == (FOUND[place] == token)


@given(st.sampled_from(CHANGEABLE))
@settings(max_examples=60, deadline=None)
def test_a_missing_token_always_matters(place: int):
    assert tokens(spaced(FOUND[:place] + FOUND[place + 1 :], [" "], [" "])) != FOUND


@given(st.text(alphabet="\"'\\/*R(x)#\n <a1.+-:%", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_has_tokens(text: str):
    assert "".join(tokens(text)).count('"') <= text.count('"')


@given(st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_raw_strings_are_kept_to_the_letter(text: str):
    text = text.replace(")x", "").replace("\r", "")
    literal = f'R"x({text})x"'
    assert tokens(f"auto s = {literal}; // c") == ("auto", "s", "=", literal, ";")
