"""Edits of a prompt in replies: what is taken and what is refused, each with its reason."""

from pathlib import Path

import pytest

from evokernel.errors import ConfigError
from evokernel.evolve_prompts.folder import read_template, refuse_other_settings, refuse_statements, write_prompts
from evokernel.evolve_prompts.reflection import read_edit
from operators.llm.replies import UnreadableReply
from operators.llm.templates import load_templates
from tests.evolve_prompts.known_best import edit_adding

ORIGINAL = load_templates()["mutate"]
TEXT = ORIGINAL.file.read_text(encoding="utf-8")


def edited(folder: Path, reply: str) -> str:
    text, _ = read_edit(reply, TEXT)
    refuse_statements(text, TEXT)
    write_prompts(folder, "mutate", text, {})
    refuse_other_settings(read_template(folder, "mutate").settings, ORIGINAL.settings)
    return text


def test_an_edit_is_applied_with_its_reason() -> None:
    text, idea = read_edit("IDEA: think of rows\n" + edit_adding("Rows first.").partition("\n")[2], TEXT)
    assert text == TEXT.replace("## What to do\n", "## What to do\n\nRows first.\n")
    assert idea == "think of rows"


def test_conditions_and_other_temperatures_are_allowed(tmp_path: Path) -> None:
    text = edited(tmp_path, edit_adding('{% if language == "cpp" %}\nUse intrinsics.\n{% endif %}'))
    assert "Use intrinsics." in text
    edited(tmp_path, "<<<<<<< SEARCH\ntemperature: 0.9\n=======\ntemperature: 0.4\n>>>>>>> REPLACE")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("it is perfect", "no SEARCH/REPLACE blocks"),
        (edit_adding("x").replace("## What to do\n=", "## What to sing\n="), "cannot be applied"),
        (edit_adding("").replace("\n\n\n>", "\n>"), "changes nothing"),
        (edit_adding("{{ nothing_known }}"), "unknown variables"),
        (edit_adding("{% for i in range(9) %}{% for j in range(99) %}a{% endfor %}{% endfor %}"), "Call, For"),
        (edit_adding("{{ 'a' * 10 }}"), "Mul"),
        (edit_adding("{% if language %}"), "no template: line"),
        (edit_adding("{{ task | upper }}"), "Filter"),
        ("<<<<<<< SEARCH\nrole: code\n=======\nrole: poet\n>>>>>>> REPLACE", "changes role from code to poet"),
        ("<<<<<<< SEARCH\nparents: 1\n=======\nparents: 2\n>>>>>>> REPLACE", "changes parents from 1 to 2"),
    ],
)
def test_an_edit_is_refused(tmp_path: Path, reply: str, reason: str) -> None:
    with pytest.raises((UnreadableReply, ConfigError), match=reason):
        edited(tmp_path, reply)
