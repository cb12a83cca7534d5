from evokernel.languages.cpp.messages import LINE_LIMIT, digest_errors
from evokernel.languages.messages import without_paths

ONE = "kernel.cpp:{n}:9: error: what {n}\n    {n} | int x = /a/b;\n      |         ^\n"


def test_first_three_errors_with_their_lines():
    text = digest_errors(
        "".join(ONE.format(n=n) for n in range(1, 6)) + "compilation terminated due to -fmax-errors=3."
    )
    assert [n for n in range(1, 6) if f"what {n}" in text] == [1, 2, 3]
    assert "^" in text
    assert "int x = /a/b;" in text  # a line of the source is never touched
    assert "terminated" not in text


def test_long_notes_do_not_hide_the_next_error():
    notes = "".join(f"/usr/include/c++/12/vector:{n}: note: candidate {n}\n" for n in range(100))
    text = digest_errors(ONE.format(n=1) + notes + ONE.format(n=2) + notes)
    assert "what 2" in text
    assert "more lines on this error" in text
    assert "/usr" not in text
    assert text.count("\n") < LINE_LIMIT


def test_undefined_symbols_are_named_once():
    stderr = (
        "/usr/bin/ld: /tmp/ccX.o: in function `run':\nkernel.cpp:(.text+0x5): undefined reference to `foo(int)'\n"
        "/usr/bin/ld: kernel.cpp:(.text+0x9): undefined reference to `foo(int)'\n"
        "collect2: error: ld returned 1 exit status\n"
    )
    assert digest_errors(stderr) == "link error: used but defined nowhere: foo(int)"


def test_symbols_defined_twice():
    stderr = "ld: /tmp/b.o: in function `main':\n"
    stderr += "main.cpp:1: multiple definition of `main'; /tmp/a.o:1: first defined here"
    assert digest_errors(stderr) == "link error: defined more than once: main"


def test_no_message_at_all():
    assert digest_errors("") == "the compiler failed without a message"
    assert digest_errors("g++: out of memory\n") == "g++: out of memory"


def test_paths_lose_their_folders():
    assert without_paths("at /usr/lib/gcc/x.h:3 and kernel.cpp:4") == "at x.h:3 and kernel.cpp:4"
