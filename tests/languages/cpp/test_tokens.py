import pytest

from evokernel.languages.cpp.tokens import tokens


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("#define F(x) x", "#define F (x) x"),
        ("a >> b", "a > > b"),
        ("a + +b", "a ++b"),
        ('auto s = "a b";', 'auto s = "a  b";'),
        ('auto s = R"(a\\\nb)";', 'auto s = R"(ab)";'),
        ("#define A 1\nint x;", "#define A 1 int x;"),
        ('"a"_x', '"a" _x'),
        ("constexpr int MR = 6;  // tune: 4 6", "constexpr int MR = 4;  // tune: 4 6"),
        ("x = 1.0f;", "x = 1.0 f;"),
        ("int a; //\\\nint b;", "int a;\nint b;"),
        ("'a'", "'b'"),
        ('"//a"', '"//b"'),
    ],
)
def test_different_programs(left: str, right: str):
    assert tokens(left) != tokens(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("int a; // tune: 1 2", "int a; // tune: 1 2 3"),
        ("int ab;", "int a\\\nb;"),
        ("int a;", "int a; /\\\n/ gone"),
        ("int a\r\n;", "int a;"),
        ("#define A 1 // c\nint x;", "#  define A /* */ 1\n\nint x;"),
        ("x = 'a' ? \"//\" : b;", "x='a'?\"//\":b; /* ' */"),
        ('R"(/* kept */)" // gone', 'R"(/* kept */)"'),
    ],
)
def test_same_program(left: str, right: str):
    assert tokens(left) == tokens(right)


def test_tokens_of_tricky_text():
    text = '#include <a//b>\n#define F(x) x\nauto s = R"x(a\\\n")x"_q; char c = \'"\'; x<::y>'
    assert tokens(text) == (
        *("\n#", "include", "<a//b>", "\n", "\n#", "define", "F", "()", "(", "x", ")", "x", "\n"),
        *("auto", "s", "=", 'R"x(a\\\n")x"_q', ";", "char", "c", "=", "'\"'", ";", "x", "<", "::", "y", ">"),
    )


def test_a_comment_does_not_begin_in_the_name_of_a_header():
    text = "#if __has_include(</*>) && __has_include_next( <//> )\n#endif\nint x; /**/"
    assert tokens(text) == (
        *("\n#", "if", "__has_include", "(", "</*>", ")", "&&", "__has_include_next", "(", "<//>", ")", "\n"),
        *("\n#", "endif", "\n", "int", "x", ";"),
    )
    assert tokens("#(</*>)\n*/") == ("\n#", "(", "<", "\n")


def test_blanks_of_unicode_are_none():
    assert tokens("int\u00a0a\u2003;") == ("int", "\u00a0", "a", "\u2003", ";")


def test_unfinished_text_still_has_tokens():
    assert tokens("/* open") == ()
    assert tokens('"open // text\n;') == ('"open // text', ";")
    assert tokens("don't\n;") == ("don", "'t", ";")
    assert tokens('R"x(open\n') == ('R"x(open\n',)
    assert tokens('R"no parenthesis"') == ('R"no parenthesis"',)
    assert tokens("#define A") == ("\n#", "define", "A", "\n")
