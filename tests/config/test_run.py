import re
from pathlib import Path

import pytest
import yaml

from evokernel.config.changes import edits_between
from evokernel.config.load import UNITS_OF_HOURS, load_config, parse_config
from evokernel.config.run import RunConfig, dump_config, flatten, language_of
from evokernel.engine.assemble import make_topology
from evokernel.engine.name_check import unknown_names
from evokernel.errors import ConfigError, RunMismatch

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
PLAIN = "task: gemm\nbudget: {evaluations: 5}\nislands:\n  - {name: one, operators: {tune: 1}}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "plain.yaml"
    file.write_text(PLAIN)
    return file


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_every_shipped_config_is_valid_and_survives_a_round_trip(file: Path) -> None:
    config = load_config(file)
    assert parse_config(yaml.safe_load(dump_config(config)), "again") == config


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("task:", "taks:", ["plain.yaml:1:1: taks: unknown key", "did you mean 'task'?"]),
        ("task:", "hours: 2\ntask:", ["plain.yaml:1:1: hours: unknown key", "did you mean 'budget.hours'?"]),
        ("evaluations: 5", "evaluatons: 5", ["budget.evaluatons: unknown key", "did you mean 'evaluations'?"]),
        ("evaluations: 5", "evaluations: -5", ["budget.evaluations", "greater than 0", "-5"]),
        ("evaluations: 5", "hours: .inf", ["plain.yaml:2:10: budget.hours", "finite number", "inf"]),
        ("task:", "evaluation: {quick_ms: .inf}\ntask:", ["evaluation.quick_ms", "finite number", "inf"]),
        (
            "task:",
            "evaluation: {timeout_s: 1e99}\ntask:",
            ["evaluation.timeout_s", "less than or equal to 86400", "1e99"],
        ),
        ("task:", "evaluation: {compile_timeout_s: 1e99}\ntask:", ["compile_timeout_s", "less than or equal to 86400"]),
        ("task:", "evaluation: {final_ms: 1e9}\ntask:", ["evaluation.final_ms", "less than or equal to 3600000"]),
        ("task:", f"evaluation: {{memory_mib: {10**24}}}\ntask:", ["memory_mib", "less than or equal to 16777216"]),
        ("task:", f"threads: {10**8}\ntask:", ["threads", "less than or equal to 4096"]),
        ("task:", f"in_flight: {10**24}\ntask:", ["in_flight", "less than or equal to 100000"]),
        ("evaluations: 5", "evaluations: many", ["budget.evaluations", "whole number", "many"]),
        ("{evaluations: 5}", "{}", ["budget", "at least one of"]),
        ("task:", "notify: [{comand: [x]}]\ntask:", ["notify.0.comand: unknown key", "did you mean 'command'?"]),
        ("{tune: 1}", "{tune: -1}", ["islands.0.operators.tune", "greater than 0"]),
        ("{tune: 1}", "{}", ["islands.0.operators: an island needs operators, for example {rewrite: 0.5"]),
        ("task: gemm", "task: [", ["not valid YAML"]),
        (PLAIN, "- a", ["expected a mapping", "got a list"]),
        (PLAIN, "", ["expected a mapping", "got nothing"]),
        ("task:", "task: softmax\ntask:", ["plain.yaml:2:1: task: set twice, first in line 1"]),
        ("{tune: 1}", "{tune: 1, tune: 2}, nme: 3", ["tune: set twice", "nme: unknown key"]),
        ("{tune: 1}", "{tune: 1}, selector: {objective: spills}", ["objective 'spills'", "rank", "kind: lexicase"]),
        ("task:", "device: tpu\ntask:", ["device", "'auto', 'cpu' or 'cuda'", "tpu"]),
        ("task:", "device: cpu\nlanguage: triton\ntask:", ["triton runs on device class cuda", "give one of the two"]),
    ],
)
def test_bad_config_names_the_key(path: Path, old: str, new: str, words: list[str]) -> None:
    path.write_text(PLAIN.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    for word in words:
        assert word in str(caught.value)


def test_an_objective_is_measured_on_the_device_class(path: Path) -> None:
    path.write_text(PLAIN.replace("{tune: 1}", "{tune: 1}, selector: {kind: lexicase, objective: registers}"))
    assert load_config(path).on("cuda").islands[0].selector.objective == "registers"
    load_config(path, look_up=unknown_names)
    with pytest.raises(ConfigError, match=r"'registers' is not measured on device class cpu; expected.* spills"):
        load_config(path).on("cpu")


def test_axes_of_niches_are_measured_on_some_device_class(path: Path) -> None:
    config = load_config(path, overrides=["islands.one.niches.axes={occupancy: [0.5]}"])
    assert config.on("cuda").islands[0].niches.axes == {"occupancy": (0.5,)}
    config.on("cpu")
    told = (
        r"island 'one': niches.axes 'occupanzy' is not measured on device class cpu; expected one of code_bytes, spills"
    )
    with pytest.raises(ConfigError, match=told):
        load_config(path, overrides=["islands.one.niches.axes={occupanzy: [0.5]}"]).on("cpu")


def test_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml"):
        load_config(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task: gemm\nseed: 2024-13-45\n", "not valid YAML: month must be in 1..12"),
        ("task: " + "[" * 3000 + "]" * 3000, "not valid YAML: maximum recursion depth exceeded"),
        ("task: &a [*a]\n", "strange.yaml:1:1: task: expected a text, given [["),
        ("a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 12)), "unknown key"),
        ("task: gemm\n", "strange.yaml:1:1: islands: is missing; docs/config.md begins with the shortest config"),
    ],
    ids=["no date", "deep", "in itself", "aliases of aliases", "too little"],
)
def test_strange_yaml_is_refused_in_a_few_lines(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "strange.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        load_config(file)
    assert len(str(caught.value).replace(str(file), "")) < 9000


def test_a_store_in_place_of_a_config_is_told(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00\xfb")
    with pytest.raises(ConfigError, match="expected YAML; of a store"):
        load_config(path)


def test_overrides_reach_into_lists_and_mappings(path: Path) -> None:
    config = load_config(path, overrides=["budget.evaluations=7", "islands.one.operators.blend=2", "migration.every=3"])
    assert config.budget.evaluations == 7
    assert config.islands[0].operators == {"tune": 1.0, "blend": 2.0}
    assert config.migration.every == 3


@pytest.mark.parametrize(
    "text", ["budget", "=1", "islands.two.operators.tune=1", "task.x=1", "budget.evaluations=[", "islands=1"]
)
def test_bad_overrides_are_config_errors(path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        load_config(path, overrides=[text])


def test_an_unknown_key_of_an_override_is_told_as_such(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\n  --set islands\.one\.selektor\.kind: .*did you mean 'selector'"):
        load_config(path, overrides=["islands.one.selektor.kind=rank"])


def test_paths_are_relative_to_the_config(path: Path) -> None:
    path.write_text(PLAIN.replace("task: gemm", "task: my_task.py\nseed_sources: [a.cpp]"))
    config = load_config(path)
    assert config.task == str(path.parent / "my_task.py")
    assert config.seed_sources == (str(path.parent / "a.cpp"),)


def test_a_store_without_a_name_lies_beside_its_config(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_config(path).store == str(path.parent / "runs" / "plain.db")
    monkeypatch.chdir(path.parent)
    assert load_config(Path("plain.yaml")).store == "runs/plain.db"
    Path("plain.db").touch()  # that of a call in Python
    assert load_config(path).store == str(path.with_suffix(".db"))
    assert load_config(CONFIGS[0]).store == f"runs/{CONFIGS[0].stem}.db"  # nothing is written where evokernel lies


def _raw(**changes: object) -> dict[str, object]:
    base = {"task": "gemm", "budget": {"evaluations": 5}, "islands": [{"name": "one", "operators": {"tune": 1}}]}
    return base | changes


def _flat(**changes: object) -> dict[str, object]:
    return flatten(RunConfig.model_validate(_raw(**changes)))


def test_budget_and_shares_may_change_and_each_change_is_told() -> None:
    islands = [{"name": "one", "operators": {"tune": 2}}]
    edits = edits_between(_flat(), _flat(budget={"evaluations": 9}, islands=islands, evaluation={"gpus": 2}))
    assert edits == [
        ("budget.evaluations", 5, 9),
        ("evaluation.gpus", "all", 2),
        ("islands.one.operators.tune", 1.0, 2.0),
    ]


def test_device_and_language_decide_each_other() -> None:
    assert (_flat(language="cpp")["device"], _flat(device="cuda")["language"]) == ("cpu", "triton")
    assert (_flat()["device"], _flat()["language"]) == ("auto", "auto")


@pytest.mark.parametrize(
    ("file", "language"),
    [("a.cpp", "cpp"), ("a.py", "triton"), ("a.cu.py", "cuda"), ("dir.cu.py/a.py", "triton"), ("a.cu", None)],
)
def test_a_file_says_its_language_by_how_its_name_ends(file: str, language: str | None) -> None:
    assert language_of(file) == language_of(Path(file)) == language


def test_seed_sources_in_another_language_are_refused() -> None:
    with pytest.raises(ValueError, match="seed sources are in language cuda, and language: triton is asked for"):
        _flat(language="triton", seed_sources=["mine.cu.py"])
    with pytest.raises(ValueError, match="language cuda runs on device class cuda, and device: cpu is asked for"):
        _flat(device="cpu", seed_sources=["mine.cu.py"])


def test_what_is_left_out_depends_on_the_device_class(path: Path) -> None:
    config = load_config(path, overrides=["evaluation.timeout_s=7"])
    cpu, cuda = config.on("cpu"), config.on("cuda")
    assert (cpu.language, cuda.language) == ("cpp", "triton")
    assert (cpu.evaluation.timeout_s, cuda.evaluation.timeout_s) == (7, 7)
    assert (cpu.evaluation.compile_timeout_s, cuda.evaluation.compile_timeout_s) == (10, 60)
    assert (cpu.evaluation.final_ms, cuda.evaluation.final_ms) == (1000, 750)
    assert set(cpu.islands[0].niches.axes) == {"vector_bits", "spills", "code_bytes"}
    assert set(cuda.islands[0].niches.axes) == {"registers", "shared_kib", "tensor_cores", "spills"}


def test_what_is_stored_means_the_same_on_every_machine(path: Path) -> None:
    config = load_config(path, overrides=["islands.one.niches.axes={spills: [3]}"]).on("cuda")
    again = parse_config(yaml.safe_load(dump_config(config)), "again")
    assert again == config
    assert again.on("cuda") == config
    assert again.islands[0].niches.axes == {"spills": (3.0,)}


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cuda"},
        {"task": "softmax"},
        {"seed": 1},
        {"evaluation": {"quick_ms": 1}},
        {"threads": 2},
        {"topology": "full"},
    ],
)
def test_what_decides_the_meaning_of_results_may_not_change(changes: dict[str, object]) -> None:
    with pytest.raises(RunMismatch, match=rf"{next(iter(changes))}[\s\S]*--fresh[\s\S]*fork"):
        edits_between(_flat(), _flat(**changes))


@pytest.mark.parametrize("given", ["all", 1, 8])
def test_gpus_are_all_or_a_number(given: object) -> None:
    assert RunConfig.model_validate(_raw(evaluation={"gpus": given})).evaluation.on("cuda").gpus == given


@pytest.mark.parametrize("given", [0, -1, "some", 1.5])
def test_no_other_gpus(given: object) -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.gpus"):
        parse_config(_raw(evaluation={"gpus": given}), "a config")


ISLANDS = [{"name": name, "operators": {"tune": 1}} for name in ("one", "two", "three")]


def edges(topology: object) -> list[tuple[str, str]]:
    config = parse_config(_raw(islands=ISLANDS, topology=topology), "a config").on("cpu")
    graph = make_topology(parse_config(yaml.safe_load(dump_config(config)), "again"))
    assert set(graph.nodes) == {"one", "two", "three"}
    return sorted(graph.edges)


def hub(names: list[str]) -> dict[str, list[str]]:
    """Every island sends to the last."""
    return {name: names[-1:] for name in names[:-1]}


def strange(names: list[str]) -> object:
    return {"nobody": names} if names else 0


def nothing(names: list[str]) -> object:
    return len(names)


def test_who_sends_to_whom_is_a_name_lists_or_a_function() -> None:
    assert edges("ring") == [("one", "two"), ("three", "one"), ("two", "three")]
    assert edges({"one": ["two", "three"], "three": ["one"]}) == [("one", "three"), ("one", "two"), ("three", "one")]
    assert edges({"one": ["three", "three"]}) == [("one", "three")]  # nobody reaches two
    assert edges({}) == []
    assert edges("islands.topology:star") == edges("star")
    assert edges(f"{__name__}:hub") == [("one", "three"), ("two", "three")]


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        ({"one": ["too"]}, "topology: 'too' is not an island; there are one, two, three"),
        ({"zero": ["one"]}, "topology: 'zero' is not an island"),
        ({"one": ["two", "one"]}, "topology: one cannot send to itself"),
        ({"one": "two"}, r"topology: expected ring, star, full, .* given \{'one': 'two'\}"),
        ([["one", "two"]], "topology: expected ring"),
        ({"one": [2]}, "topology: expected ring"),
        (None, "topology: expected ring"),
        ("moebius", "unknown topology 'moebius': expected one of ring, star, full, or package.module:Class"),
        (f"{__name__}:missing", "cannot be imported"),
        (f"{__name__}:strange", "'nobody' is not an island"),
        (f"{__name__}:nothing", "returned 3; expected lists of islands"),
    ],
)
def test_a_topology_that_cannot_be_is_a_message(topology: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        edges(topology)


def test_who_sends_to_whom_decides_a_replay_and_may_not_change() -> None:
    islands = {"islands": ISLANDS}
    with pytest.raises(RunMismatch, match=r"topology\.one: \['two'\] -> \['three'\]"):
        edits_between(_flat(**islands, topology={"one": ["two"]}), _flat(**islands, topology={"one": ["three"]}))
    with pytest.raises(RunMismatch, match="topology: 'ring' -> None"):
        edits_between(_flat(**islands), _flat(**islands, topology={"one": ["two"]}))


@pytest.mark.parametrize("island", ["one", "0"])
def test_all_mistakes_are_told_at_once_each_with_its_place(path: Path, island: str) -> None:
    path.write_text(PLAIN.replace("task:", "seeed: 3\ntask:").replace("evaluations: 5", "evaluatons: 5"))
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides=[f"islands.{island}.operators.tune=-1"])
    lines = str(caught.value).splitlines()[1:]
    line = path.read_text().splitlines().index("seeed: 3") + 1
    assert any(f"plain.yaml:{line}:1: seeed" in each and "did you mean 'seed'?" in each for each in lines)
    assert any(f"--set islands.{island}.operators.tune: Input should be greater than 0" in each for each in lines)
    assert len(lines) == 3


def test_what_only_the_command_line_sets_wrong_is_no_fault_of_the_file(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides=["evaluation.final_processes=x", "budget={hours: 90min}", "threads=[1]"])
    first, *lines = str(caught.value).splitlines()
    assert first == f"these settings of the command line cannot be used with {path}:"
    assert sorted(lines) == [
        f"  --set budget: budget.hours: expected a number, given '90min'{UNITS_OF_HOURS}",
        "  --set evaluation.final_processes: expected a whole number, given 'x'",
        "  --set threads: expected a whole number, given [1]",
    ]
    with pytest.raises(
        ConfigError, match=r"plain.yaml cannot be used:\n.*islands: expected a list of at least 1 item,"
    ):
        parse_config({"task": "gemm", "budget": {"evaluations": 1}, "islands": []}, "plain.yaml")


def test_an_island_that_is_not_there_is_told_with_those_that_are(path: Path) -> None:
    path.write_text(PLAIN)
    with pytest.raises(ConfigError, match=r"no item 'nowhere' in that list; known here: \w+"):
        load_config(path, overrides=["islands.nowhere.choose=ucb"])


def test_names_that_name_nothing_are_told_at_once_before_anything_starts(path: Path) -> None:
    path.write_text(PLAIN.replace("gemm", "gem").replace("{tune: 1}", "{tunee: 1}"))
    with pytest.raises(ConfigError) as caught:
        load_config(path, look_up=unknown_names)
    text = str(caught.value)
    assert "did you mean 'gemm'?" in text
    assert "operators.tunee: unknown operator 'tunee'" in text
    assert "did you mean 'tune'?" in text


def test_mistakes_of_every_kind_are_told_in_one_pass_in_the_order_of_the_file(path: Path) -> None:
    wrong = """\
task: gem
device: cpu
language: triton
budget: {evaluations: none, dollars: 3, stoppers: ["nothing:Here"]}
evaluation: {quick_ms: -1, expert: no.cpp, devices: {H100: 8}}
models: [{name: m, replay: no.jsonl, temperture: 1}, {name: m}]
islands:
  - {name: one, operators: {tunee: 1, blend: -1}, models: [mm], choose: sharess}
  - {name: one, operators: {tune: 1}, selector: {kind: rnk}, niches: {axes: {spills: [3, 1]}}}
topology: rng
constraints: {forbid: ["("]}
prompts: nowhere
"""
    path.write_text(wrong)
    with pytest.raises(ConfigError) as caught:
        load_config(path, look_up=unknown_names)
    said = [line.strip().removeprefix(f"{path}:").split(": ") for line in str(caught.value).splitlines()[1:]]
    assert [(int(place.partition(":")[0]), key) for place, key, *_ in said] == [
        (1, "task"),
        (2, "device"),
        (4, "budget.evaluations"),
        (4, "budget.stoppers.0"),
        (5, "evaluation.quick_ms"),
        (5, "evaluation.expert"),
        (5, "evaluation.devices"),
        (6, "models.0.replay"),
        (6, "models.0.temperture"),
        (6, "models.1"),
        (6, "models.1.name"),
        (8, "islands.0.operators.tunee"),
        (8, "islands.0.operators.blend"),
        (8, "islands.0.models"),
        (8, "islands.0.choose"),
        (9, "islands.1.name"),
        (9, "islands.1.selector.kind"),
        (9, "islands.1.niches.axes.spills"),
        (10, "topology"),
        (11, "constraints.forbid"),
        (12, "prompts"),
    ]
