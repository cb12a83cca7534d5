"""Sources in replies: what training rows answer and what a policy writes can both be judged."""

from pathlib import Path

import pytest

from evokernel import source_of_reply
from evokernel.errors import LanguageError
from evokernel.tasks import load_task

SEED = Path(load_task("softmax").seeds["cpp"]).read_text(encoding="utf-8")


def test_an_idea_and_a_fence_are_left_out() -> None:
    reply = f"<think>hm</think>\nIDEA: sum in lanes\nPREDICTED: 1.2x\n\n```cpp\n{SEED.rstrip()}\n```\nIt is faster."
    assert source_of_reply(reply, "softmax", language="cpp").rstrip() == SEED.rstrip()


def test_changes_are_applied_to_the_parent() -> None:
    line = next(line for line in SEED.split("\n") if "for (" in line)
    reply = f"<<<<<<< SEARCH\n{line}\n=======\n{line} // mine\n>>>>>>> REPLACE\n"
    changed = source_of_reply(reply, load_task("softmax"), language="cpp", parent=SEED)
    assert changed.count("// mine") == 1
    with pytest.raises(ValueError, match="nothing to apply them to"):
        source_of_reply(reply, "softmax", language="cpp")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [("Here it is: 42.", "no code that defines `run`"), ("```cpp\nint x;\n```", "no kernel for this task")],
)
def test_a_reply_without_a_kernel_says_why(reply: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        source_of_reply(reply, "softmax", language="cpp")


def test_a_language_that_nobody_knows_is_refused() -> None:
    with pytest.raises(LanguageError, match="unknown language 'rust': expected one of cpp, triton, cuda"):
        source_of_reply("```rust\n```", "softmax", language="rust")
