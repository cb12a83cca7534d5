import ast
import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import evokernel
from evokernel.config.load import parse_config
from evokernel.config.run import RunConfig
from evokernel.errors import BudgetSpent, ConfigError, ModelsUnavailable
from evokernel.llm.assemble import make_models
from evokernel.llm.recordings import write_recording
from evokernel.records.llm import Reply
from evokernel.testing.call_log import MemoryLog
from evokernel.testing.scripted import ScriptedTransport
from tests.llm.endpoint import echoes_key, endpoint, says
from tests.llm.making import Time, request

pytestmark = pytest.mark.heavy  # litellm takes seconds to import

KEY = "sk-assembly-0123456789"
PRICE = {"prompt_usd_per_mtok": 1000, "completion_usd_per_mtok": 2000}


def config(*models: dict[str, Any], **budget: Any) -> RunConfig:
    raw = {
        "task": "gemm",
        "budget": {"evaluations": 10, **budget},
        "islands": [{"name": "north", "operators": {"tune": 1}}],
        "models": list(models),
    }
    return parse_config(raw, "test")


def endpoint_model(url: str, **settings: Any) -> dict[str, Any]:
    return {"name": "stub", "model": "hosted_vllm/stub", "api_base": url, "max_tokens": 100, **settings}


def ask(run: RunConfig, log: MemoryLog, *, times: int = 1) -> list[Reply]:
    async def scenario() -> list[Reply]:
        models = make_models(run, log=log, notify=lambda text: None, clock=Time())
        try:
            return [await models.complete(request(step)) for step in range(times)]
        finally:
            await models.close()

    return asyncio.run(scenario())


def test_a_run_asks_the_models_of_its_config_and_pays_their_price() -> None:
    log = MemoryLog()
    with endpoint(says("hi")) as served:
        (reply,) = ask(config(endpoint_model(served.url, price=PRICE), dollars=5), log)
    assert reply.text == "hi"
    assert reply.usage.cost_usd == pytest.approx(10 * 1e-3 + 5 * 2e-3)


def test_the_budgets_of_a_config_are_kept() -> None:
    log = MemoryLog()
    with endpoint(says("hi")) as served, pytest.raises(BudgetSpent, match="budget of 2 calls used"):
        ask(config(endpoint_model(served.url), calls=2), log, times=3)
    assert log.spending().calls == 2
    with endpoint(says("hi")) as served, pytest.raises(BudgetSpent, match=r"budget of \$0.1 used: \$0.00 spent"):
        ask(config(endpoint_model(served.url, price=PRICE), dollars=0.1), MemoryLog())


def test_keys_of_the_environment_are_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_KEY", KEY)
    log = MemoryLog()
    told: list[str] = []

    async def scenario(url: str) -> str:
        run = config(endpoint_model(url, key="STUB_KEY"))
        models = make_models(run, log=log, notify=told.append, clock=Time())
        with pytest.raises(ModelsUnavailable) as caught:
            await models.complete(request())
        await models.close()
        return str(caught.value)

    with endpoint(echoes_key(401)) as served:
        said = asyncio.run(scenario(served.url))
    assert "[key]" in said
    assert "[key]" in told[0]
    assert KEY not in said + told[0] + repr(log.calls)


def test_a_budget_in_dollars_needs_a_price() -> None:
    with pytest.raises(ConfigError, match=r"'stub'.*budget\.dollars.*price:"):
        ask(config(endpoint_model("http://127.0.0.1:1/v1"), dollars=5), MemoryLog())


def test_a_missing_key_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STUB_KEY", raising=False)
    with pytest.raises(ConfigError, match=r"'stub'.*STUB_KEY"):
        ask(config(endpoint_model("http://127.0.0.1:1/v1", key="STUB_KEY")), MemoryLog())


def recording(folder: Path) -> dict[str, Any]:
    log = MemoryLog()
    asyncio.run(ScriptedTransport(lambda asked: "recorded", log=log).complete(request(0)))
    write_recording(folder / "demo.jsonl", log.calls)
    return {"name": "demo", "replay": str(folder / "demo.jsonl")}


def test_a_recording_answers_in_place_of_a_model_also_under_a_budget_in_dollars(tmp_path: Path) -> None:
    (reply,) = ask(config(recording(tmp_path), dollars=1), MemoryLog())
    assert (reply.text, reply.usage.cost_usd) == ("recorded", 0.0)


def test_a_recording_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the recording"):
        ask(config({"name": "demo", "replay": str(tmp_path / "none.jsonl")}), MemoryLog())


WITHOUT_LITELLM = """
import sys
sys.modules["litellm"] = None  # what importing a package that is not installed comes to
from evokernel.config.load import parse_config
from evokernel.errors import ConfigError
from evokernel.llm.assemble import make_models
from evokernel.testing.call_log import MemoryLog
raw = {"task": "gemm", "budget": {"evaluations": 1}, "islands": [{"name": "north", "operators": {"tune": 1}}]}
def make(**model):
    make_models(parse_config({**raw, "models": [{"name": "one", **model}]}, "test"), log=MemoryLog(), notify=print)

make(replay=sys.argv[1])
try:
    make(model="openai/x")
except ConfigError as error:
    print(error)
"""


def test_recordings_need_no_litellm_and_models_say_what_to_install(tmp_path: Path) -> None:
    path = recording(tmp_path)["replay"]
    done = subprocess.run([sys.executable, "-c", WITHOUT_LITELLM, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pip install -e '.[llm]'" in done.stdout


def test_one_file_imports_litellm() -> None:
    root = Path(evokernel.__file__).parents[1]
    importers = [
        str(path.relative_to(root))
        for package in ("evokernel", "islands", "operators", "archive")
        for path in (root / package).rglob("*.py")
        if "litellm" in path.read_text(encoding="utf-8") and _imports(path, "litellm")
    ]
    assert importers == ["evokernel/llm/litellm_transport.py"]


def _imports(path: Path, package: str) -> bool:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    taken = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return any(name.split(".")[0] == package for name in plain | taken)
