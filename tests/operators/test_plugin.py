"""Operators of a user's own, named in a config: of the protocol of earlier versions, and of today's with defaults."""

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from archive.journal import EmptyStep, ResultEntry
from archive.store import Store
from evokernel.aliases import MODULES
from evokernel.config.load import load_config, parse_config
from evokernel.config.registry import look_in, resolve
from evokernel.config.run import dump_config
from evokernel.engine.assemble import make_island, make_operators
from evokernel.errors import ConfigError
from evokernel.protocols import Crossover, ModelOperator, Operator, asks_model, is_crossover
from evokernel.records.llm import Message
from evokernel.records.step import Answer, Context, ContextNeed, Draft, OperatorKind, Prompt, UnusableReply
from evokernel.testing.scripted import ScriptedTransport
from operators.rules.tune import Tune
from tests.operators.llm.specimen import cpu, for_operator
from tests.support.engine import toy_config, toy_search
from tests.support.fakes import InstantEvaluator

OLD = {f"tests.support.old_plugins:{name}": 1.0 for name in ("Append", "Eight", "Join", "Ask")}


class Today:
    """Declares its kind, and leaves what has a default out."""

    name, parents, kind = "today", 1, OperatorKind.MODEL
    role = "code"

    def prompt(self, context: Context) -> Prompt:
        return Prompt((Message("user", "go"),), context, insights=(7,))

    def read(self, reply: str, prompt: Prompt) -> Answer:
        return UnusableReply(f"{reply} {prompt.insights}")

    async def propose(self, context: Context) -> Draft | None:
        return None


class OnlyTriton(Today):
    def supports(self, language: str) -> bool:
        return language == "triton"


class NotAnOperator:
    """Has nothing that an operator has."""


class NotAModelOperator:
    parents, kind = 1, OperatorKind.MODEL

    async def propose(self, context: Context) -> Draft | None:
        return None


class Raises:
    def __init__(self) -> None:
        raise FileNotFoundError("no weights")


def plugin(name: str) -> Operator:
    config = toy_config(islands=[{"name": "one", "operators": {name: 1.0}}])
    return make_operators(config)[name]


def test_old_plugins_of_each_sort_take_part_in_a_search(tmp_path: Path) -> None:
    config = toy_config(islands=[{"name": "one", "operators": OLD}], budget={"evaluations": 60})
    with Store.open(tmp_path / "toy.db", write=True) as store:
        model = ScriptedTransport(lambda request: "", log=store.calls)
        search = toy_search(store, config, InstantEvaluator(), model=model)
        asyncio.run(search.run())
        facts = list(store.facts())
    made = [fact.proposal for fact in facts if isinstance(fact, ResultEntry)]
    assert {proposal.operator for proposal in made} == {"seed", *OLD}
    nothing = [fact.no_candidate for fact in facts if isinstance(fact, EmptyStep)]
    assert {each.operator for each in nothing} == {"tests.support.old_plugins:Eight"}
    assert len({each.parents for each in nothing}) == len(nothing)  # asked once where it has nothing to offer


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Append", OperatorKind.RULE),
        ("Eight", OperatorKind.TUNER),
        ("Join", OperatorKind.CROSSOVER),
        ("Ask", OperatorKind.MODEL),
    ],
)
def test_what_an_old_plugin_is_follows_from_its_attributes(name: str, kind: OperatorKind) -> None:
    operator = plugin(f"tests.support.old_plugins:{name}")
    assert operator.kind is kind
    assert (asks_model(operator), is_crossover(operator)) == (kind == "model", kind == "crossover")
    assert operator.supports("cpp")
    assert operator.supports("triton")


def test_the_messages_of_an_old_plugin_are_a_prompt_and_its_reply_is_read_with_the_context() -> None:
    operator = plugin("tests.support.old_plugins:Ask")
    assert asks_model(operator)
    assert operator.needs == {ContextNeed.STRANGERS}
    context = for_operator(cpu(), "ask", parents=1, wants=frozenset())
    prompt = operator.prompt(context)
    assert (prompt.messages[0].text, prompt.context) == (f"change {context.parents[0].candidate.id}", context)
    assert operator.read("A=3", prompt) == UnusableReply("no value in A=3")


@pytest.mark.parametrize(("old", "new"), [("Matchmaker", Crossover), ("Thinker", ModelOperator)])
def test_protocols_are_found_under_their_earlier_names(old: str, new: type) -> None:
    assert getattr(import_module("evokernel.protocols"), old) is new


def test_a_plugin_of_today_reads_its_own_prompt_and_may_leave_out_what_has_a_default() -> None:
    operator = plugin(f"{__name__}:Today")
    assert asks_model(operator)
    assert operator.needs == frozenset()
    assert operator.supports("cpp")
    prompt = operator.prompt(for_operator(cpu(), "today", parents=1, wants=frozenset()))
    assert operator.read("well", prompt) == UnusableReply("well (7,)")


def test_an_island_leaves_a_plugin_out_that_does_not_support_its_language() -> None:
    name = f"{__name__}:OnlyTriton"
    island = toy_config(islands=[{"name": "one", "operators": {name: 1.0, "tune": 2.0}}]).islands[0]
    operators = {name: plugin(name), "tune": Tune()}
    assert make_island(island, operators, language="cpp").operators == {"tune": 2.0}
    assert make_island(island, operators, language="triton").operators == {name: 1.0, "tune": 2.0}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NotAnOperator", "is no operator: it lacks parents, propose; docs/plugins.md"),
        ("NotAModelOperator", "is no operator: it lacks prompt, read; docs/plugins.md"),
        ("Raises", "cannot be made: FileNotFoundError: no weights"),
    ],
)
def test_a_class_that_cannot_be_an_operator_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin(f"{__name__}:{name}")
    assert str(caught.value).startswith(f"operator '{__name__}:{name}' {said}")
    assert "\n" not in str(caught.value)


def test_a_plugin_is_found_beside_the_config_and_from_the_config_in_a_store(tmp_path: Path) -> None:
    (tmp_path / "own_rules.py").write_text(Path(import_module("tests.support.old_plugins").__file__ or "").read_text())
    (tmp_path / "own_wrong.py").write_text("1 / 0\n")
    config = tmp_path / "own.yaml"
    config.write_text(
        "task: gemm\nbudget: {evaluations: 1}\nislands: [{name: one, operators: {'own_rules:Append': 1}}]"
    )
    stored = parse_config(yaml.safe_load(dump_config(load_config(config))), "the config in the store")
    assert stored.plugins == str(tmp_path)
    assert make_operators(stored)["own_rules:Append"].parents == 1
    with pytest.raises(ConfigError, match=rf"No module named 'own_ruler'; looked in .*PYTHONPATH.*{tmp_path}"):
        plugin("own_ruler:Append")
    with pytest.raises(ConfigError, match="'own_wrong:Append' cannot be imported: ZeroDivisionError"):
        plugin("own_wrong:Append")


def test_each_config_has_the_module_of_its_own_folder(tmp_path: Path) -> None:
    names = list[str]()
    for folder in ("one", "two", "one"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "own_rules.py").write_text(
            f"class Own:\n    name, parents = {folder!r}, 1\n"
            "    kind = 'rule'\n\n    async def propose(self, context):\n        return None\n"
        )
        look_in(tmp_path / folder)
        names.append(resolve("own_rules:Own", {}, "operator").name)
    assert names == ["one", "two", "one"]


def test_a_folder_and_a_module_that_were_there_before_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "known_rules.py").write_text("class Own:\n    name = 'own'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    known = import_module("known_rules")
    look_in(tmp_path)
    assert resolve("known_rules:Own", {}, "operator") is known.Own
    look_in(tmp_path / "other")
    assert str(tmp_path) in sys.path
    assert import_module("known_rules") is known


def test_a_module_that_another_hides_is_told(tmp_path: Path) -> None:
    (tmp_path / "operators.py").write_text("class Own:\n    pass\n")
    look_in(tmp_path)
    with pytest.raises(ConfigError, match=r"operators is .*operators/__init__\.py, and has no Own"):
        resolve("operators:Own", {}, "operator")


@pytest.mark.parametrize(("old", "homes"), MODULES.items(), ids=MODULES)
def test_a_name_is_found_under_its_old_path(old: str, homes: tuple[str, ...]):
    for home in map(import_module, homes):
        name = next(name for name, each in vars(home).items() if name[0] != "_" and not isinstance(each, ModuleType))
        assert getattr(import_module(old), name) is getattr(home, name)
