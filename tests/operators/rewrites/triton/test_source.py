"""Reading Triton modules, and edits that leave the rest of the text alone."""

import pytest

from operators.rewrites.triton.source import TritonModule, UnreadableTriton, fresh
from operators.rewrites.triton.span_edits import SpanEdits

TEXT = '''"""Ein Kern, schön."""
import triton
import triton.language as tl

BLOCK = 16  # tune: 16 32
# tune-where: BLOCK <= 32


@triton.jit
def twice(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # „wo“
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def run(x, n):
    grid = (triton.cdiv(n, BLOCK),)
    twice[grid](
        x,
        (n),  # how many
        BLOCK=BLOCK,
    )
'''


def test_reads_kernels_launches_and_constants() -> None:
    module = TritonModule.parse(TEXT)
    kernel = module.kernels["twice"]
    assert (kernel.params, kernel.constexprs) == (("x", "n", "BLOCK"), {"BLOCK"})
    assert module.constants == {"BLOCK": 16}
    (launch,) = module.launches
    assert module.segment(launch.grid) == "(triton.cdiv(n, BLOCK),)"
    arguments = [module.argument_of(launch, name) for name in (*kernel.params, "other")]
    assert [argument and module.segment(argument) for argument in arguments] == ["x", "n", "BLOCK", None]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def run(:", "not a Python module"),
        ("import triton.language as tl\n", "no function"),
        ("def run(x):\n    pass\n", "imported as tl"),
        ("import triton.language as tl\ndef run(x): pass\n", "two statements"),
        ("import triton.language as tl\ndef run(x):\n    a = 1; b = 2\n", "two statements"),
    ],
)
def test_refuses_what_it_cannot_edit(text: str, why: str) -> None:
    with pytest.raises(UnreadableTriton, match=why):
        TritonModule.parse(text)


def test_a_parameter_reaches_the_signature_and_every_launch() -> None:
    module = TritonModule.parse(TEXT)
    edits = SpanEdits(module)
    assert edits.add_tunable(module.kernels["twice"], "GROUP", 2, (1, 2)) == "GROUP"
    assert edits.add_parameter(module.kernels["twice"], "n", constexpr=False, argument="7") == "n2"
    edits.add_where("GROUP <= BLOCK")
    text = edits.result()
    assert "# tune-where: BLOCK <= 32\nGROUP = 2  # tune: 1 2\n# tune-where: GROUP <= BLOCK\n" in text
    assert "def twice(x, n, BLOCK: tl.constexpr, GROUP: tl.constexpr, n2):" in text
    assert "        (n),  # how many\n        BLOCK=BLOCK, GROUP=GROUP, n2=7,\n" in text


def test_a_keyword_goes_behind_the_brackets_of_the_last_argument() -> None:
    module = TritonModule.parse(
        TEXT.replace("        BLOCK=BLOCK,\n", "").replace("(n),  # how many", "(n)  # (how) many")
    )
    edits = SpanEdits(module)
    edits.add_keyword(module.launches[0].call, "num_warps", "4")
    assert "        (n), num_warps=4  # (how) many\n" in edits.result()


def test_lines_take_the_indentation_of_their_statement() -> None:
    module = TritonModule.parse(TEXT)
    first, second = module.kernels["twice"].node.body
    edits = SpanEdits(module)
    edits.insert_before(first, ["a = 1"])
    edits.insert_after(first, ["b = 2"])
    edits.replace_lines(second, second, [])
    assert "    a = 1\n    at = tl" in edits.result()
    assert "# „wo“\n    b = 2\n\n\ndef run" in edits.result()


def test_overlapping_edits_are_refused() -> None:
    module = TritonModule.parse(TEXT)
    edits = SpanEdits(module)
    edits.replace(module.launches[0].call, "one")
    edits.replace(module.launches[0].call.args[0], "other")
    with pytest.raises(ValueError, match="overlap"):
        edits.result()


def test_fresh_names_are_new_to_comments_too() -> None:
    module = TritonModule.parse(TEXT)
    assert [fresh(module, "how"), fresh(module, "GROUP"), fresh(module, "GROUP", "GROUP")] == [
        "how2",
        "GROUP",
        "GROUP2",
    ]
