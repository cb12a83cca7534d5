"""The judge over HTTP on loopback: batches with the token, JSON for every refusal, and `evokernel judge-server`."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evokernel import Judge
from evokernel.errors import ConfigError
from evokernel.judging.application import BatchLimits
from evokernel.judging.server import BatchServer
from tests.judging.conftest import TASK, stages_in
from tests.support.serving import Reply, connect, exchange, wait_until

pytestmark = pytest.mark.heavy

TOKEN = "a-token-of-a-test.0123456789"
PAGE = Path(__file__).parents[2] / "docs" / "judge.md"
FEW = BatchLimits(body_bytes=20_000, body_s=0.3, sources=4, waiting=6)


@pytest.fixture(scope="module")
def server(judge: Judge) -> Iterator[BatchServer]:
    with BatchServer(token=TOKEN) as server:
        server.ask(judge, limits=FEW)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def head(port: int, method: str, target: str, *, length: int, token: str = TOKEN, host: str = "127.0.0.1") -> str:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{port}", f"Content-Length: {length}"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""])


def send(port: int, body: Any = None, *, method: str = "POST", target: str = "/judge", **more: str) -> Reply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return exchange(port, head(port, method, target, length=len(raw), **more).encode() + raw)


def test_a_batch_comes_back_in_its_order(server: BatchServer, seed: str) -> None:
    reply = send(server.port, {"sources": [seed, "int x;"]})
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    right, wrong = reply.json()["evaluations"]
    assert (right["ok"], right["status"], right["budget"]) == (True, "ok", "quick")
    assert right["speedup"]["low"] <= right["speedup"]["value"] <= right["speedup"]["high"]
    assert (wrong["ok"], wrong["status"], wrong["speedup"]) == (False, "static_reject", None)
    assert "entry point" in wrong["feedback"]
    precise = send(server.port, {"sources": [seed], "fidelity": "precise"}).json()["evaluations"]
    assert [each["budget"] for each in precise] == ["precise"]


def test_it_says_what_it_judges(server: BatchServer) -> None:
    facts = send(server.port, b"", method="GET", target="/").json()
    assert (facts["task"], facts["language"], facts["fidelity"]) == ("small", "cpp", "quick")
    assert facts["entry"].startswith('extern "C" void run(const float* ')
    assert facts["limits"]["sources"] == FEW.sources


@pytest.mark.parametrize(
    ("body", "more", "status", "words"),
    [
        ({"sources": ["x"]}, {"token": ""}, 401, "send the token of the server"),
        ({"sources": ["x"]}, {"token": TOKEN + "x"}, 401, "send the token of the server"),
        ({"sources": ["x"]}, {"host": "evil.example"}, 421, "not known by that name"),
        ({"sources": ["x"]}, {"target": "/other"}, 404, "there is GET / and POST /judge"),
        ({"sources": ["x"]}, {"target": "/"}, 405, "this server answers GET / and POST /judge"),
        (b"", {"method": "GET"}, 405, "this server answers GET / and POST /judge"),
        (b"{", {}, 400, "the body is no JSON"),
        (b"[" * 9000, {}, 400, "the body is no JSON"),
        (["x"], {}, 400, "got list"),
        ({"source": "x"}, {}, 400, "got the keys source"),
        ({"sources": []}, {}, 400, "at least one text"),
        ({"sources": ["x", 3]}, {}, 400, "at least one text"),
        ({"sources": ["x"], "fidelity": "slow"}, {}, 400, "expected one of quick, precise, final"),
        ({"sources": ["x"], "fidelity": 3}, {}, 400, "fidelity is a text, not 3"),
        ({"sources": ["x"] * 5}, {}, 413, "5 sources in one request, and at most 4"),
        ({"sources": ["x" * 20_000]}, {}, 413, "at most 20000 bytes"),
    ],
)
def test_each_refusal_is_json_with_its_reason(
    server: BatchServer, body: Any, more: dict[str, str], status: int, words: str
) -> None:
    reply = send(server.port, body, **more)
    assert (reply.status, [*reply.json()]) == (status, ["error"])
    assert words in reply.json()["error"]


def test_a_body_without_a_length_is_read_no_further_than_it_may_be_long(server: BatchServer) -> None:
    request = head(server.port, "POST", "/judge", length=0).replace("Content-Length: 0", "Transfer-Encoding: chunked")
    reply = exchange(server.port, request.encode() + b"1000\r\n" + b" " * 4096 + b"\r\n" * 1)
    assert (reply.status, reply.json()["error"]) == (408, "no whole body in 0.3 s")
    chunks = (b"1000\r\n" + b" " * 4096 + b"\r\n") * 6
    assert exchange(server.port, request.encode() + chunks).status == 413


def test_what_is_no_http_is_refused_in_json(server: BatchServer) -> None:
    reply = exchange(server.port, b"judge this\r\n\r\n")
    assert (reply.status, reply.json()) == (400, {"error": "bad request"})


def test_a_full_queue_says_come_again_and_a_client_that_hangs_up_is_forgotten(server: BatchServer, seed: str) -> None:
    def batch(mark: str) -> bytes:
        sources = [f"{seed}// {mark} {number}\nint unused{number}() {{ return {number}; }}\n" for number in range(4)]
        raw = json.dumps({"sources": sources}).encode()
        return head(server.port, "POST", "/judge", length=len(raw)).encode() + raw

    judge = server.judge
    with connect(server.port) as client:
        client.sendall(batch("a"))
        wait_until(lambda: judge.waiting == 4)
        full = exchange(server.port, batch("b"))
        assert (full.status, full.headers["retry-after"]) == (503, "5")
        assert "sources wait already, and at most 6 may; come again later" in full.json()["error"]
    wait_until(lambda: judge.waiting == 0)
    assert send(server.port, {"sources": [seed]}).status == 200


def test_a_token_that_is_too_short_is_refused() -> None:
    with pytest.raises(ConfigError, match="--token or EVOKERNEL_JUDGE_TOKEN must have 16 to 200 letters"):
        BatchServer(token="short")
    with BatchServer() as one, BatchServer() as other:
        assert len(one.access.token) >= 24
        assert one.access.token != other.access.token


def test_the_adapter_in_the_docs_works(server: BatchServer, seed: str) -> None:
    found = re.search(r"^```python\n(# judge_env\.py\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    assert len(found[1].splitlines()) <= 50
    names: dict[str, Any] = {}
    exec(compile(found[1], str(PAGE), "exec"), names)
    environment = names["JudgeEnv"](server.url, TOKEN, steps=2)
    observation, info = environment.reset()
    assert observation.startswith("small")
    assert 'extern "C" void run(' in observation
    feedback, reward, terminated, truncated, info = environment.step(seed)
    assert (info["status"], reward, terminated, truncated) == ("ok", info["speedup"]["low"], False, False)
    assert "48x64x32" in feedback
    feedback, reward, terminated, truncated, info = environment.step("int x;")
    assert (info["status"], reward, terminated, truncated) == ("static_reject", 0.0, False, True)
    with pytest.raises(RuntimeError, match="send the token of the server"):
        names["JudgeEnv"](server.url, "wrong").reset()


def test_the_command_answers_until_it_is_told_to_end(tmp_path: Path, seed: str) -> None:
    command = [sys.executable, "-m", "evokernel", "judge-server", str(TASK), "--device", "cpu"]
    known = {**os.environ, "EVOKERNEL_JUDGE_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=known, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\n", process.stdout.readline())[1])  # type: ignore[index]
        assert TOKEN in process.stdout.readline()
        assert send(port, {"sources": ["int x;"]}).json()["evaluations"][0]["status"] == "static_reject"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out.splitlines()[-1]) == (0, "ended")
    assert stages_in(err) == ["evokernel", "evokernel"]
