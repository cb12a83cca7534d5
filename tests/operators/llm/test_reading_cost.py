"""Reading of hostile text takes processor time in proportion to it: four times the text, not sixteen times the time."""

import time
import warnings
from collections.abc import Callable
from contextlib import suppress

import pytest

from evokernel.languages.cpp.disassembly import read_disassembly
from evokernel.languages.cpp.messages import digest_errors
from evokernel.languages.cpp.static_check import static_check as check_cpp
from evokernel.languages.gpu.cuda_static_check import static_check as check_cuda
from evokernel.languages.gpu.triton_static_check import static_check as check_triton
from evokernel.records.llm import Insight, InsightKind
from evokernel.source import regions, tunables
from operators.llm import replies
from operators.llm.replies import patches, words
from operators.llm.replies.entry import entry_problem
from operators.llm.replies.kernels import ReplyExpectation, read_kernel
from tests.support.engine import TASK

SHORT = 8_000
ROUNDS = 3
ENOUGH_S = 0.25
"""Processor time that is no sign of anything: a quadratic reader takes seconds for the long text."""
ORIGINAL = "int a;\n" * 200
CPP = ReplyExpectation("cpp", TASK.signature, ORIGINAL)
TRITON = ReplyExpectation("triton", TASK.signature, None)


def change_a_half(text: str) -> None:
    lines = text.split("\n")
    patches.apply_edits(text, [patches.SearchReplace((*lines[: len(lines) // 2], "q"), ("y",))])


def change_by_hunk(text: str) -> None:
    lines = text.split("\n")
    patches.apply_hunks(text, [patches.Hunk(None, [("-", line) for line in (*lines[: len(lines) // 2], "q")])])


READERS: dict[str, Callable[[str], object]] = {
    "check of C++": check_cpp,
    "check of Triton": check_triton,
    "check of CUDA C++": check_cuda,
    "tunables": tunables.skeleton_hash,
    "regions": regions.read_regions,
    "text outside of regions": regions.outside,
    "whole regions": regions.only_whole,
    "messages of a compiler": digest_errors,
    "disassembly": read_disassembly,
    "kernel in C++": lambda text: read_kernel(text, CPP),
    "kernel in a fence": lambda text: read_kernel(f"```cpp\n{text}\n```\n", CPP),
    "kernel in Triton": lambda text: read_kernel(text, TRITON),
    "entry point": lambda text: entry_problem(f'extern "C" {text}', "cpp", TASK.signature),
    "prediction": lambda text: words.read_prediction(f"PREDICTED: {text}"),
    "idea": words.read_idea,
    "note": replies.read_note,
    "notes": lambda text: replies.read_notes(f"TITLE: {text}", most=3),
    "bottleneck": lambda text: Insight(InsightKind.STRATEGY, "", text).bottleneck,
    "joined halves": lambda text: words.join(f"```\n{text}", text),
    "blocks": patches.read_edits,
    "changes by blocks": change_a_half,
    "changes by a hunk": change_by_hunk,
    "diff": lambda text: patches.apply_hunks(ORIGINAL, patches.read_hunks(text)),
}
PIECES = (
    *(
        " ",
        "\n",
        "a",
        "a\n",
        " \n",
        '"',
        "\\",
        "\\ ",
        "'",
        "/*",
        "// ",
        'R"x(',
        "# ",
        "`",
        "```",
        "~",
        "...",
        "// ... ",
    ),
    *(
        "// same as ... ",
        "(",
        "{",
        "run(",
        "0",
        "\u00a0",
        "%:",
        "<:",
        "A = 1 ",
        "A = 1;  // tune: 1 ",
        "// tune-where: ",
    ),
    *("// region: a\n// endregion\n", "// region: ", "// endregion ", "@@\n-a\n", "<<<<<<< SEARCH\n=======\n"),
    *("<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n", "IDEA:", "**TITLE", "x: error: ", "1:", "/a", "#include <"),
    *("#if __has_include(<", "#define F(", "def run(", "if 1:\n", "lambda:", 'f"{', "a if b else ", "<think>"),
)


def cost_s(read: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    with warnings.catch_warnings(), suppress(ValueError):  # a reader may refuse it
        warnings.simplefilter("ignore")
        read(text)
    return time.process_time() - begun


def of_length(piece: str, length: int) -> str:
    return (piece * (length // len(piece) + 1))[:length] + "x"


@pytest.mark.parametrize("reader", READERS)
def test_four_times_the_text_takes_no_sixteen_times_the_time(reader: str) -> None:
    for piece in PIECES:
        if cost_s(READERS[reader], of_length(piece, 4 * SHORT)) < ENOUGH_S:
            continue
        short, long = (
            min(cost_s(READERS[reader], of_length(piece, length)) for _ in range(ROUNDS))
            for length in (SHORT, 4 * SHORT)
        )
        assert long < max(ENOUGH_S, 10 * short), f"{piece!r}: {short:.3f} s, then {long:.3f} s"
