"""Templates as files: what is built in, what a user adds, and what is said of one that cannot be used."""

import re
from pathlib import Path

import pytest

from evokernel.errors import ConfigError
from evokernel.languages import make_language
from evokernel.languages.cpp.language import CppLanguage
from evokernel.languages.toolchain import forge_plain, run_plain
from evokernel.records.build import Built
from evokernel.records.step import ContextNeed
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from operators import OPERATORS
from operators.llm.operator import TemplateOperator
from operators.llm.templates import BUILT_IN, ReplyKind, load_templates
from tests.operators.llm.specimen import for_operator, gpu
from tests.support.nvrtc import needs_nvrtc

GOOD = """\
---
name: shrink
about: Uses less shared memory.
role: code
parents: 1
reply: either
temperature: 0.1
---
{{ task }}
{{ parents }}
{% if hints %}
{{ hints }}
{% endif %}
Use less shared memory in {{ base }}.
{{ answer }}
"""


def write(folder: Path, text: str = GOOD, name: str = "shrink") -> str:
    (folder / f"{name}.md.j2").write_text(text)
    return str(folder)


def test_all_fifteen_are_built_in_and_none_has_the_name_of_a_rule() -> None:
    found = load_templates()
    assert set(found) == {
        "draft", "mutate", "crossover", "refine", "repair", "contrast", "plan", "implement", "diagnose", "simplify",
        "port", "expose", "reflect", "universal", "testing",
    }  # fmt: skip
    assert not set(found) & {name for name in OPERATORS if name in ("tune", "blend", "rewrite")}
    assert all(template.settings.about.endswith(".") for template in found.values())


def test_who_thinks_and_who_writes_code() -> None:
    for template in load_templates().values():
        assert template.settings.role == ("code" if template.settings.reply.is_kernel else "think")
    assert load_templates()["repair"].settings.wants == (ContextNeed.BROKEN,)
    assert load_templates()["draft"].settings.reply is ReplyKind.CODE


def test_a_file_in_a_folder_is_an_operator(tmp_path: Path) -> None:
    template = load_templates(write(tmp_path))["shrink"]
    context = for_operator(gpu(), "shrink", parents=1, wants=frozenset())
    system, user = TemplateOperator(template).prompt(context).messages
    assert "expert in the performance" in system.text
    assert "Use less shared memory in kernel 1." in user.text
    assert "multiple of the multiprocessors" in user.text
    assert "SEARCH" in user.text


def test_a_file_with_a_built_in_name_replaces_that_operator_and_parts_can_be_replaced_too(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("shrink", "mutate"), "mutate")
    (tmp_path / "_system.md.j2").write_text("Answer in verse.")
    found = load_templates(str(tmp_path))
    context = for_operator(gpu(), "mutate", parents=1, wants=frozenset())
    system, user = TemplateOperator(found["mutate"]).prompt(context).messages
    assert system.text == "Answer in verse."
    assert "Use less shared memory" in user.text
    assert "refine" in found


def test_there_is_no_way_out_of_the_sandbox(tmp_path: Path) -> None:
    for text in ("{{ task.__class__.__mro__ }}", "{{ ''.__class__ }}", "{% include '/etc/passwd' %}"):
        with pytest.raises(ConfigError, match="shrink"):
            load_templates(write(tmp_path, GOOD + text))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("---\nname", "name"), "must begin with front matter"),
        (("role: code", "role: [code"), "not valid YAML"),
        (("name: shrink", "name: grow"), "must be that of the file"),
        (("temperature: 0.1", "temprature: 0.1"), r"temprature: .*; known: name, about, role"),
        (("temperature: 0.1", "temperature: 7"), "temperature: Input should be less than or equal to 2"),
        (("parents: 1", "parents: -1"), "parents: Input should be greater"),
        (("parents: 1", "parents: 0\ndemand: simpler"), "need a kernel to compare with"),
        (("parents: 1", "parents: 0\nwants: [strategy]"), "parents: 1 or more"),
        (("parents: 1", "parents: 1\nwants: [ladder]"), "parents: 2 or more"),
        (("parents: 1", "parents: 1\nwants: [friends]"), "wants.0: "),
        (("reply: either", "reply: poem"), "reply: "),
        (("{{ task }}", "{{ tsk }}"), "unknown variables tsk; known: task, device"),
        (("{{ hints }}", "{{ nobody }}"), "unknown variables nobody"),  # in a branch
        (("{{ task }}", "{{ task | upper }}"), "not changed by a filter"),
        (("{{ task }}", "{% if %}"), "line 1 of the text"),
        (("{{ task }}", "{{ 1 / tries }}"), "division by zero"),
        (("{{ task }}", "{% include 'nothing' %}"), "nothing"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_file_and_key(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        load_templates(write(tmp_path, GOOD.replace(*change)))
    assert "shrink.md.j2" in str(caught.value)


def test_a_folder_that_is_not_there_and_a_file_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        load_templates(str(tmp_path / "nowhere"))
    (tmp_path / "x.md.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_templates(str(tmp_path))


ADD = Task(
    name="add",
    reference=lambda x, y, **_: x + y,
    signature=Signature(
        (Tensor("x", ("N",)), Tensor("y", ("N",))), (Scalar("N"),), (Tensor("out", ("N",), role=Role.OUTPUT),)
    ),
    workloads={
        device: WorkloadSet((Workload("w", {"N": 1000}),), (Workload("h", {"N": 999}),), {"N": (1, 9)})
        for device in ("cpu", "cuda")
    },
    flops="N",
)


@pytest.mark.parametrize("name", ["cpp", "triton", pytest.param("cuda", marks=needs_nvrtc)])
def test_the_worked_examples_compile(name: str) -> None:
    text = (BUILT_IN / "_example.md.j2").read_text()
    example = re.search(rf'"{name}" in .*?```\w+\n(.*?)\n```', text, re.DOTALL)
    assert example is not None
    language = (
        CppLanguage(run=run_plain)
        if name == "cpp"
        else make_language(name, run=run_plain, forge=forge_plain, compile_timeout_s=600.0)
    )
    source = example[1] + "\n"
    assert language.static_check(source) is None
    assert isinstance(language.build(source, ADD.on("cpu" if name == "cpp" else "cuda")), Built)
