"""Messages about a search: which events are told, to a real command and to a real server on the loopback."""

import asyncio
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from archive.store import Store
from evokernel.cli.delivery import WAITING, Delivery
from evokernel.cli.display.snapshot import NOTHING, SnapshotTaker
from evokernel.cli.notifier import Notifier
from evokernel.config.load import parse_config
from evokernel.config.notify import NotifyConfig
from evokernel.errors import ConfigError, HarnessError
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.events import Notice, ResultCommitted
from evokernel.records.fitness import Fitness
from evokernel.records.leader import LeaderChange
from evokernel.records.remarks import RemarkKind
from tests.cli.conftest import Call
from tests.support.engine import Heard, toy_config, toy_search
from tests.support.fakes import InstantEvaluator
from tests.support.serving import wait_until

PATIENCE_S = 300.0


class Hook(BaseHTTPRequestHandler):
    """Answers with the next of the server's codes, and keeps what it got."""

    server: "Hooks"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers.get("Authorization"), json.loads(body)))
        code = self.server.codes.pop(0) if self.server.codes else 200
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


class Hooks(HTTPServer):
    """A server of one address, with the messages that it got."""

    def __init__(self, codes: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Hook)
        self.codes, self.got = codes, list[tuple[str | None, Any]]()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/secret"


@contextmanager
def hooks(*codes: int) -> Iterator[Hooks]:
    with Hooks([*codes]) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def into(file: Path, *, code: int = 0) -> tuple[str, ...]:
    """Return a command that appends its stdin to a file as a line."""
    said = f"import sys; open({str(file)!r}, 'a').write(sys.stdin.read() + '\\n'); sys.exit({code})"
    return (sys.executable, "-c", said)


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def search(path: Path, receivers: list[NotifyConfig], *, fails: bool = False, evaluations: int = 20) -> Heard:
    """Run a toy search that tells its receivers."""
    heard = Heard()
    config = toy_config(budget={"evaluations": evaluations})
    deliveries = [Delivery(each, pauses_s=(0.0, 0.0)) for each in receivers]
    with Store.open(path, write=True) as store:
        notifier = Notifier(deliveries, about={"task": "toy", "store": "s"}, budget=config.budget, warn=heard)
        engine = toy_search(store, config, InstantEvaluator(), heard=notifier)
        notifier.watch(SnapshotTaker(engine, store).snapshot)
        with notifier.until_the_end():
            notifier.reason = asyncio.run(engine.run())
            notifier.hear(Notice("a judge died", warning=True, kind=RemarkKind.FAULT))
            notifier.hear(Notice("nobody need know", kind=RemarkKind.MIGRATION))
            if fails:
                raise HarnessError("the compiler is gone")
    return heard


def test_receivers_are_told_of_new_bests_faults_and_the_end(tmp_path: Path) -> None:
    heard = search(tmp_path / "run.db", [NotifyConfig(command=into(tmp_path / "told"))])
    told = lines(tmp_path / "told")
    kinds = [each["event"] for each in told]
    assert kinds[-2:] == ["fault", "end"]
    bests = [each for each in told if each["event"] == "best"]
    speedups = [each["best"]["speedup"] for each in bests]
    assert len(speedups) >= 2
    assert speedups == sorted(set(speedups))
    assert all("seed" not in each["text"] for each in bests)
    assert told[-1]["text"].startswith("budget of 20 evaluations used; the best kernel is at ")
    assert told[-1]["results"] == 20
    assert {each["task"] for each in told} == {"toy"}
    assert heard.notes == []


def test_a_receiver_gets_what_it_asked_for_and_no_small_gains(tmp_path: Path) -> None:
    search(
        tmp_path / "run.db",
        [
            NotifyConfig(command=into(tmp_path / "all"), on=("best",)),
            NotifyConfig(command=into(tmp_path / "large"), on=("best",), gain=1.5),
            NotifyConfig(command=into(tmp_path / "end"), on=("end",)),
        ],
    )
    every, large = lines(tmp_path / "all"), lines(tmp_path / "large")
    assert 0 < len(large) < len(every)
    assert [each["event"] for each in lines(tmp_path / "end")] == ["end"]


def test_a_session_that_goes_on_does_not_tell_the_old_best_anew(tmp_path: Path) -> None:
    receiver = NotifyConfig(command=into(tmp_path / "told"), on=("best",))
    search(tmp_path / "run.db", [receiver])
    before = lines(tmp_path / "told")
    search(tmp_path / "run.db", [receiver], evaluations=40)
    after = [each["best"]["speedup"] for each in lines(tmp_path / "told")[len(before) :]]
    assert all(speedup > before[-1]["best"]["speedup"] for speedup in after)


def test_the_end_of_a_slice_is_no_end_of_the_run(tmp_path: Path) -> None:
    receiver = NotifyConfig(command=into(tmp_path / "told"), on=("end",))
    for reason in ("session's limit of 0.27 h used", "budget of 3 h used"):
        notifier = Notifier([Delivery(receiver)], about={}, budget=toy_config().budget, warn=Heard())
        with notifier.until_the_end():
            notifier.reason = reason
    assert [each["text"] for each in lines(tmp_path / "told")] == ["budget of 3 h used"]


def test_an_error_is_told_as_the_end(tmp_path: Path) -> None:
    with pytest.raises(HarnessError):
        search(tmp_path / "run.db", [NotifyConfig(command=into(tmp_path / "told"), on=("end",))], fails=True)
    (end,) = lines(tmp_path / "told")
    assert end["text"].startswith("ended by an error: the compiler is gone")


def test_an_address_gets_a_token_and_another_attempt(tmp_path: Path) -> None:
    with hooks(503) as server:
        environment = {"HOOK": server.url, "TOKEN": "t0ken"}
        delivery = Delivery(NotifyConfig(url="$HOOK", token="TOKEN"), environment=environment, pauses_s=(0.0,))
        delivery.send({"event": "end"})
        delivery.finish()
        delivery.close(patience_s=PATIENCE_S)
        assert server.got == [("Bearer t0ken", {"event": "end"})] * 2
        assert delivery.troubles() == []


@pytest.mark.parametrize(("code", "said"), [(404, "HTTP 404"), (302, "HTTP 302")])
def test_an_address_that_refuses_is_said_without_its_secret(code: int, said: str) -> None:
    with hooks(code, code) as server:
        delivery = Delivery(NotifyConfig(url=server.url), pauses_s=(0.0,))
        delivery.send({"event": "end"})
        delivery.finish()
        delivery.close(patience_s=PATIENCE_S)
        (trouble,) = delivery.troubles()
        assert said in trouble
        assert "secret" not in trouble
        assert len(server.got) == 2  # a redirect is not followed


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("/no/such/program",), "No such file"),
        ((sys.executable, "-c", "import sys; sys.exit('full')"), "exit code 1: full"),
    ],
)
def test_a_command_that_fails_is_a_warning_and_no_more(tmp_path: Path, command: tuple[str, ...], said: str) -> None:
    heard = search(tmp_path / "run.db", [NotifyConfig(command=command, on=("end",))])
    (note,) = heard.notes
    assert said in note


def test_a_slow_receiver_delays_nothing_loses_the_oldest_and_is_ended(tmp_path: Path) -> None:
    began = tmp_path / "began"
    code = f"import os, time; open({str(began)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    waits = (sys.executable, "-c", code)
    delivery = Delivery(NotifyConfig(command=waits))
    for number in range(WAITING + 5):
        delivery.send({"number": number})
    wait_until(lambda: began.exists() and began.read_text())
    delivery.finish()
    delivery.close(patience_s=0.1)
    wait_until(lambda: not Path(f"/proc/{began.read_text()}").exists())
    troubles = delivery.troubles()
    assert any("was dropped" in each for each in troubles)
    assert "not every message was sent" in troubles[-1]


@pytest.mark.parametrize(
    ("receiver", "said"),
    [
        ({}, "one of `command` and `url`"),
        ({"command": ["a"], "url": "https://b"}, "one of `command` and `url`"),
        ({"url": "ftp://b"}, "expected https://"),
        ({"command": ["a"], "token": "T"}, "token goes with `url`"),
        ({"command": ["a"], "on": ["lunch"]}, "best"),
    ],
)
def test_a_receiver_that_cannot_be_used_is_told_with_its_key(receiver: Any, said: str) -> None:
    raw = {"task": "gemm", "budget": {"evaluations": 1}, "islands": [{"name": "one", "operators": {"tune": 1}}]}
    with pytest.raises(ConfigError, match=r"notify") as caught:
        parse_config({**raw, "notify": [receiver]}, "mine.yaml")
    assert said in str(caught.value)


@pytest.mark.parametrize(("value", "said"), [(None, "HOOK is not set"), ("x.org", "an address that begins with")])
def test_a_variable_that_holds_no_address_ends_the_command_at_once(value: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Delivery(NotifyConfig(url="$HOOK"), environment={"HOOK": value} if value else {})


@pytest.mark.parametrize("text", ["", "'open"])
def test_on_end_takes_a_command(project: Path, call: Call, text: str) -> None:
    (project / "mine.yaml").write_text(
        "task: gemm\nbudget: {evaluations: 1}\nislands: [{name: one, operators: {tune: 1}}]\n"
    )
    result = call("evolve", "mine.yaml", "--on-end", text)
    assert result.exit_code == 2
    assert "--on-end" in result.stderr
    assert not (project / "runs").exists()


@pytest.mark.parametrize(
    "environment",
    [
        {"HOOK": "http://127.0.0.1:1/secret", "TOKEN": "a\nsecret"},
        {"HOOK": "http://127.0.0.1:1/secr\u00e9t", "TOKEN": "t"},
        {"HOOK": "http://.example.com/secret", "TOKEN": "t"},
        {"HOOK": "http://127.0.0.1/secret path", "TOKEN": "t"},
        {"HOOK": "http://me:secret@127.0.0.1:x/", "TOKEN": "t"},
    ],
)
def test_what_cannot_be_an_address_or_a_token_is_said_without_it_and_the_next_message_is_tried(
    environment: dict[str, str],
) -> None:
    delivery = Delivery(NotifyConfig(url="$HOOK", token="TOKEN"), environment=environment, pauses_s=())
    delivery.send({"event": "best"})
    delivery.send({"event": "end"})
    delivery.finish()
    delivery.close(patience_s=PATIENCE_S)
    troubles = delivery.troubles()
    assert len(troubles) == 2
    assert all("secr" not in each and each.startswith("$HOOK: ") for each in troubles)


def test_what_a_command_leaves_in_the_background_does_not_hold_it_up(tmp_path: Path) -> None:
    file = tmp_path / "told"
    delivery = Delivery(NotifyConfig(command=("sh", "-c", f"cat >> {file}; sleep 600 & echo $! > {file}.pid")))
    delivery.send({"event": "end"})
    delivery.finish()
    delivery.close(patience_s=PATIENCE_S)
    os.kill(int(Path(f"{file}.pid").read_text()), signal.SIGKILL)
    assert delivery.troubles() == []
    assert json.loads(file.read_text()) == {"event": "end"}


def change(speedup: float, seq: int, operator: str) -> LeaderChange:
    return LeaderChange(
        seq=seq,
        at=0.0,
        candidate=f"c{seq}",
        program_hash=f"p{seq}",
        operator=operator,
        island="one",
        rationale="why",
        mode=Mode.WORKER,
        fidelity=Fidelity.QUICK,
        fitness=Fitness(math.log(speedup), math.log(speedup)),
        evaluation_seq=seq,
    )


def test_the_seed_is_what_the_first_gain_is_over_and_a_leader_that_did_not_hold_is_forgotten(tmp_path: Path) -> None:
    delivery = Delivery(NotifyConfig(command=into(tmp_path / "told"), on=("best",), gain=1.5))
    notifier = Notifier([delivery], about={}, budget=toy_config().budget, warn=Heard())
    led: list[LeaderChange] = []

    def lead() -> None:
        latest = led[-1]
        progress = replace(NOTHING.progress, best_speedup=latest.speedup)
        notifier.watch(lambda: replace(NOTHING, progress=progress, improvements=tuple(reversed(led))))
        proposal = Proposal(Candidate("// x", "cpp"), latest.seq, "one", latest.operator, 0)
        key = EvaluationKey("p", "t", "d", "e", "1", Mode.WORKER, Fidelity.QUICK)
        evaluation = Evaluation(key, "c", Status.NUMERICAL, Stage.SMOKE)
        notifier.hear(ResultCommitted(proposal, evaluation, latest.seq, latest, False))

    for seq, speedup in enumerate([1.0, 1.1, 1.6, 50.0, 1.7]):
        led.append(change(speedup, seq, "tune" if seq else "seed"))
        lead()
    notifier.cut_off = True
    with notifier.until_the_end():
        delivery.finish()
        delivery.close(patience_s=PATIENCE_S)
    told = [each["text"].split(" at ")[1].split("x")[0] for each in lines(tmp_path / "told")]
    assert told == ["1.60", "50.00", "1.70"]
