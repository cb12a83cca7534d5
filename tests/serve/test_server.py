"""What the server gives, and to whom: known paths to those who name it rightly and know the token, nothing else."""

import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archive.store import Store
from evokernel.errors import ConfigError
from evokernel.records.candidate import Usage
from evokernel.serve.access import TOKEN_VARIABLE, AccessPolicy, access_for
from evokernel.serve.application import ServerLimits
from evokernel.serve.server import Server
from evokernel.serve.site import ServedStores
from tests.support.serving import Listener, ask, connect, everything, exchange, reply_of, serving, wait_until
from tests.support.stores import StoreBuilder, fill_store

TOKEN = "a-token-of-a-test.0123456789"
KNOWN = {"/", "/events", *(f"/{n}{part}" for n in (0, 1) for part in ("", "/document", "/events"))}
SECRET = "what nobody is to read"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    for name in ("one", "two"):
        fill_store(folder / f"{name}.db")
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(folder / "one.db", folder / "two.db") as server:
        wait_until(lambda: all(feed.page for feed in server.site.feeds))
        yield server


@pytest.fixture
def locked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that asks for a token."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    with serving(folder / "one.db") as server:
        wait_until(lambda: server.site.feeds[0].page)
        yield server


def test_pages_documents_and_events_are_given(server: Server) -> None:
    index, run = ask(server, "/"), ask(server, "/1", Accept_Encoding="br, gzip")
    assert (index.status, run.status, run.headers["content-encoding"]) == (200, 200, "gzip")
    assert b'data-events="events"' in index.body
    assert b'data-events="1/events" data-document="1/document"' in run.body
    plain, packed = ask(server, "/0/document"), ask(server, "/0/document", Accept_Encoding="gzip")
    assert plain.json() == packed.json()
    assert plain.json()["status"]["store"].endswith("one.db")
    with Listener(server.port, "/0/events") as one, Listener(server.port, "/events") as both:
        pulse = one.until(lambda news: news["version"])
        assert (pulse["state"], pulse["problem"], pulse["version"]) == ("stopped", "", plain.headers["x-version"])
        stores = both.until(lambda news: all(each["version"] for each in news["stores"]))["stores"]
    assert [(each["number"], each["run"]["results"]) for each in stores] == [(0, 4), (1, 4)]


def test_head_says_the_same_without_a_body(server: Server) -> None:
    for target in sorted(KNOWN - {"/events", "/0/events", "/1/events"}):
        head, get = ask(server, target, method="HEAD"), ask(server, target)
        assert (head.status, head.headers, head.body) == (200, get.headers, b"")
    assert ask(server, "/0/events", method="HEAD").headers["content-type"] == "text/event-stream"


def test_one_store_needs_no_index(folder: Path) -> None:
    with serving(folder / "one.db") as server:
        moved = ask(server, "/")
        assert (moved.status, moved.headers["location"], ask(server, "/0").status) == (303, "0", 200)


def test_every_answer_keeps_strangers_out(server: Server) -> None:
    answers = [ask(server, target, Origin="http://evil.example") for target in ("/", "/0", "/0/document", "/nothing")]
    answers += [ask(server, method="POST"), ask(server, host="evil.example"), exchange(server.port, b"\r\n\r\n")]
    for answer in answers[:-1]:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert policy.endswith("frame-ancestors 'none'")
        assert "unsafe" not in policy
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert not [name for name in answer.headers if name.startswith("access-control-") or name == "server"]
    page = answers[1]
    named = re.search(rb'http-equiv="Content-Security-Policy" content="([^"]+)"', page.body)
    assert named is not None
    inside = named[1].decode().replace("&#39;", "'")
    assert page.headers["content-security-policy"] == f"{inside}; frame-ancestors 'none'"
    assert "connect-src 'self'" in inside


PATHS = [
    "/..", "/../secret.txt", "/0/../../secret.txt", "/0/..%2f..%2fsecret.txt", "/%2e%2e/secret.txt", "//etc/passwd",
    "/etc/passwd", "/0/document/../../secret.txt", "/secret.txt", "/one.db", "/0/one.db", "/00", "/01", "/+0", "/-1",
    "/0x0", "/2", "/999999", "/9999999999999999999999", "/0/", "/0/events/", "/0/document?x=1", "/0%00",
    "/0?store=/etc/passwd", "/0%00.html", "/%30", "/\u0660", "/０", "/0;a=b", "/0#x", "\\..\\secret.txt", "/0/DOCUMENT",
    "/..\\secret.txt", "http://127.0.0.1/0", "file:///etc/passwd", "*", "secret.txt", "/0/documents", "/0\x0b",
    "/favicon.ico", "/./0", "/0/./document", "/0\x00", "/0 /1", "//", "///", "//0", "//0/document",
]  # fmt: skip
HEADERS = [
    "X-Original-URL: /etc/passwd", "X-Rewrite-URL: /../secret.txt", "Range: bytes=0-", "If-Range: x",
    "Referer: file:///etc/passwd", "Cookie: ../../secret.txt", "X-Sendfile: /etc/passwd", "X-Forwarded-Host: evil",
]  # fmt: skip


@pytest.mark.parametrize("target", PATHS)
def test_no_other_path_gives_anything(server: Server, target: str) -> None:
    answer = ask(server, target)
    assert answer.status in (400, 404)
    assert answer.body in (b"there is nothing here, or nothing yet\n", b"bad request\n")


@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(st.one_of(st.binary(max_size=40), st.text("/0129.%\\:?#eventsdocum\u0661", max_size=24).map(str.encode)))
def test_no_bytes_in_the_place_of_a_path_give_anything_unknown(server: Server, target: bytes) -> None:
    host = f"127.0.0.1:{server.port}".encode()
    if target.partition(b"?")[0].decode("latin-1") in KNOWN or not target.strip():
        return
    answer = exchange(server.port, b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert answer.status in (0, 400, 404, 421, 431, 505)
    assert SECRET.encode() not in answer.body


@settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(st.binary(max_size=300))
def test_any_bytes_are_answered_with_a_refusal_or_nothing(server: Server, request_: bytes) -> None:
    answer = exchange(server.port, request_ + b"\r\n\r\n")
    assert answer.status in (0, 400, 404, 405, 421, 431, 505)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X" * 50])
def test_only_get_and_head_are_answered(server: Server, method: str) -> None:
    answer = ask(server, "/0", method=method, Content_Length="0")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1].evil",
     "127.0.0.1@evil.example", "10.0.0.1", "0.0.0.0", "127.0.0.1:80:80", "127.0.0.1, evil.example", "localhost:x",
     "2130706433", "[localhost]"],
)  # fmt: skip
def test_a_name_that_is_not_ours_is_refused(server: Server, host: str) -> None:
    assert ask(server, "/0/document", host=host).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:80", "[::1]:8080", "localhost."])
def test_our_names_are_known_by_any_port_for_tunnels_have_their_own(server: Server, host: str) -> None:
    assert ask(server, "/0/document", host=host).status == 200


def test_a_request_names_one_host(server: Server) -> None:
    port = server.port
    for head in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        assert exchange(port, b"GET /0 HTTP/1.1\r\n" + head + b"\r\n").status == 400
    assert exchange(port, b"GET /0 HTTP/1.1\r\nHost: localhost\r\n evil\r\n\r\n").status == 421
    assert exchange(port, b"GET /0 HTTP/1.0\r\n\r\n").status == 421


def test_beyond_loopback_any_address_of_numbers_is_ours_and_no_strange_name() -> None:
    access = access_for("0.0.0.0", "0.0.0.0", environment={})
    assert len(access.token) >= 32
    assert access.token != access_for("0.0.0.0", "0.0.0.0", environment={}).token
    hosts = ("10.1.2.3:80", "[fe80::1]", "localhost", socket.gethostname(), "evil.example")
    assert [access.addresses_us([host]) for host in hosts] == [True, True, True, True, False]
    assert access_for("box", "10.1.2.3", environment={}).addresses_us(["BOX:80"])
    assert access_for("::1", "::1", environment={}).token == ""


@pytest.mark.parametrize(
    "token", ["short", "with space in it........", "é" * 20, "x" * 201, "a" * 15, "semi;colon-0123456789"]
)
def test_a_token_that_can_be_guessed_or_does_not_fit_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match=TOKEN_VARIABLE):
        access_for("127.0.0.1", "127.0.0.1", environment={TOKEN_VARIABLE: token})


def test_without_the_token_nothing_is_given_not_even_what_there_is(locked: Server) -> None:
    for target in ("/", "/0", "/0/document", "/0/events", "/nothing", "/0?x=1"):
        answer = ask(locked, target)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert b"token" in answer.body
        assert TOKEN.encode() not in answer.body
        assert "set-cookie" not in answer.headers


def test_the_token_comes_by_address_once_then_by_cookie(locked: Server) -> None:
    entered = ask(locked, f"/0?token={TOKEN}")
    assert (entered.status, entered.headers["location"]) == (303, "0")
    assert ask(locked, f"/?token={TOKEN}").headers["location"] == "."
    cookie, *rules = entered.headers["set-cookie"].split("; ")
    assert set(rules) == {"Path=/", "HttpOnly", "SameSite=lax"}
    assert ask(locked, "/0/document", Cookie=f"a=b; {cookie}").status == 200
    assert ask(locked, "/0/document", Cookie=cookie[:-1]).status == 401
    assert ask(locked, "/0/document", Cookie=cookie.replace("evokernel-", "evokernel-9")).status == 401
    assert ask(locked, "/0/document", Authorization=f"Bearer {TOKEN}").status == 200


WRONG = ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), TOKEN[::-1], "%61" + TOKEN[1:], "é" * 8]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_token_is_none(locked: Server, wrong: str) -> None:
    assert ask(locked, f"/0?token={wrong}").status in (400, 401)
    assert ask(locked, f"/0?token={TOKEN}&token={wrong}").status in (400, 401)
    assert ask(locked, "/0", Authorization=f"Bearer {wrong}").status == 401
    assert ask(locked, "/0", Authorization=f"Basic {TOKEN}").status == 401
    assert ask(locked, "/0", Cookie=f"{locked.application.cookie}={wrong}").status == 401


def test_the_right_token_under_a_wrong_name_is_refused(locked: Server) -> None:
    assert ask(locked, f"/0?token={TOKEN}", host="evil.example").status == 421
    assert ask(locked, f"/0/events?token={TOKEN}").status == 404


@given(st.text(max_size=80), st.text(max_size=80))
def test_only_the_token_itself_is_admitted(one: str, other: str) -> None:
    access = AccessPolicy(frozenset(), numbers=False, token=one or "x")
    assert access.admits(other) == (other == (one or "x"))
    assert access.admits(None) is False


def test_too_much_is_not_read(server: Server) -> None:
    port = server.port
    host = f"Host: 127.0.0.1:{port}\r\n".encode()
    for request in (
        b"GET /" + b"0" * 100_000,
        b"GET /" + b"0" * 100_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /0 HTTP/1.1\r\n" + host + b"X: " + b"x" * 1_000_000 + b"\r\n\r\n",
        b"GET /0 HTTP/1.1\r\n" + host + b"X: y\r\n" * 4000 + b"\r\n",
        b"GET /0 HTTP/1.1\r\n" + host + b"X: y\r\n" * 100_000,
    ):
        assert exchange(port, request).status in (0, 431)
    assert ask(server, "/0", Content_Length="999999999999").status == 200  # a body is not asked for, and not read
    assert ask(server, "/0", Transfer_Encoding="chunked", Expect="100-continue").status == 200


def test_who_does_not_say_what_they_want_is_hung_up_on(folder: Path) -> None:
    with serving(folder / "one.db", limits=ServerLimits(head_s=0.2)) as server:
        with connect(server.port) as silent, connect(server.port) as slow:
            slow.sendall(b"GET /0 HTTP/1.1\r\n")
            assert (everything(silent), everything(slow)) == (b"", b"")
        wait_until(lambda: server.connections == 0)


def test_who_does_not_read_is_hung_up_on(folder: Path) -> None:
    with serving(folder / "one.db", limits=ServerLimits(send_s=0.2)) as server:
        reader = socket.socket()
        with reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(b"GET /0 HTTP/1.1\r\nHost: localhost\r\n\r\n")  # a megabyte comes back
            wait_until(lambda: server.connections == 1)
            wait_until(lambda: server.connections == 0)
        assert ask(server, "/0").status == 200


def test_too_many_connections_are_turned_away_and_room_is_made_again(folder: Path) -> None:
    with serving(folder / "one.db", limits=ServerLimits(connections=3, streams=1, keepalive_s=0.1)) as server:
        port = server.port
        with Listener(port) as stream:
            assert stream.status == 200
            assert ask(server, "/0/events").status == 503  # a second stream
            idle = [connect(port) for _ in range(2)]
            wait_until(lambda: server.connections == 3)
            with connect(port) as one_more:
                assert reply_of(everything(one_more)).status == 503
            for each in idle:
                each.close()
            wait_until(lambda: ask(server, "/0").status == 200)
        wait_until(lambda: server.application.streams == 0)  # the stream was let go of when its reader had gone


def test_a_silent_stream_says_that_it_is_there(folder: Path) -> None:
    with (
        serving(folder / "one.db", limits=ServerLimits(keepalive_s=0.1)) as server,
        connect(server.port) as stream,
    ):
        stream.sendall(b"GET /0/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = b""
        while b": still here\n\n" not in got:
            got += stream.recv(4096)


def test_closing_ends_streams(folder: Path) -> None:
    with serving(folder / "one.db") as server, connect(server.port) as stream:
        stream.sendall(b"GET /0/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in stream.recv(4096)
        server.shutdown()
        everything(stream)  # which ends


def test_a_port_that_is_taken_and_a_host_that_is_nowhere_are_refused(server: Server, folder: Path) -> None:
    with ServedStores([folder / "one.db"]) as site:
        for host, port in (("127.0.0.1", server.port), ("no-such-host.invalid", 0), ("a" * 300, 0)):
            with pytest.raises(ConfigError, match="cannot listen"):
                Server(site, host=host, port=port)


def test_an_attacked_server_opens_its_stores_and_no_other_file(folder: Path) -> None:
    """Every file that the process opens from its first answer on is in a list, kept by the interpreter's audit hook."""
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.db")}
    script = Path(__file__).parent / "audited.py"
    command = [sys.executable, str(script), str(folder / "one.db"), str(folder / "two.db")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        host = f"Host: 127.0.0.1:{port}\r\n"
        asking = ["/0/candidate/0123456789", "/0/search/6161"]
        for target in [*PATHS, *asking, *sorted(KNOWN - {"/events", "/0/events", "/1/events"})]:
            for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
                exchange(port, f"{method} {target} HTTP/1.1\r\n{host}\r\n".encode())
        for more in HEADERS:
            assert SECRET.encode() not in exchange(port, f"GET /0 HTTP/1.1\r\n{host}{more}\r\n\r\n".encode()).body
        process.stdin.close()
        opened = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert len(opened) == 1, opened
    assert "audited.py" in opened[0]  # which it read itself, at the end
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.db")} == before
    beside = {f"{name}.db{end}" for name in ("one", "two") for end in ("", ".lock", "-wal", "-shm")}
    assert {path.name for path in folder.iterdir()} <= beside | {"secret.txt"}


def test_a_candidate_is_given_with_its_source_its_measurements_and_its_calls(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(source="// planted\n")
        builder.call("a planted reply", prompt="a planted prompt")
        made = builder.add(f"// {'x' * 100_000}\n", speedup=2.0, parents=(seed,), usage=Usage(model="small"))
        builder.final(made, speedup=1.5)
    with serving(tmp_path / "a.db") as server:
        wait_until(lambda: server.site.feeds[0].page)
        first, second = (ask(server, f"/0/candidate/{name[:10]}").json() for name in (seed, made))
        assert first["source"] == {"text": "// planted\n", "cut": False, "language": "cpp", "why": "seed"}
        assert first["calls"] == []
        assert (second["source"]["cut"], len(second["source"]["text"]) < 500) == (True, True)
        assert [each["kind"] for each in second["facts"]["evaluations"]] == ["search", "final"]
        assert second["facts"]["evaluations"][1]["speedup"]["value"] == pytest.approx(1.5)
        assert (second["calls"][0]["reply"], second["calls"][0]["messages"][0]["text"]) == (
            "a planted reply",
            "a planted prompt",
        )
        assert ask(server, f"/0/candidate/{made}", method="HEAD").status == 200
        assert ask(server, f"/0/search/{b'PLANTED'.hex()}").json() == {"ids": [seed[:10]]}
        assert ask(server, f"/0/search/{b'nowhere'.hex()}").json() == {"ids": []}


@pytest.mark.parametrize(
    "target",
    ["/0/candidate/0123456789", "/0/candidate/", "/0/candidate/01234567", "/0/candidate/0123456789abcdef0",
     "/0/candidate/ABCDEF0123", "/0/candidate/..%2f..%2f", "/9/candidate/0123456789", "/0/search/", "/0/search/6",
     "/0/search/616", "/0/search/zzzz", f"/0/search/{'61' * 401}", "/0/search/6161?x=1", "/0/candidate",
     "/candidate/0"],
)  # fmt: skip
def test_no_candidate_and_no_text_beyond_what_is_named_gives_anything(server: Server, target: str) -> None:
    assert ask(server, target).status == 404


def test_a_foreign_page_asks_for_no_candidate_and_no_text(server: Server) -> None:
    for site, status in (("cross-site", 404), ("same-site", 404), ("same-origin", 200), ("none", 200)):
        assert ask(server, "/0/search/6161", Sec_Fetch_Site=site).status == status


def test_candidates_and_texts_need_the_token_too(locked: Server) -> None:
    for target in ("/0/candidate/0123456789", "/0/search/6161"):
        assert ask(locked, target).status == 401
        assert ask(locked, f"{target}?token={TOKEN}").status == 404
        assert ask(locked, target, Authorization=f"Bearer {TOKEN}").status in (200, 404)


def test_a_store_that_is_busy_refuses_a_search_in_time_and_answers_the_next(folder: Path) -> None:
    held, asked = threading.Event(), threading.Event()

    def slow(store: Store) -> bytes:
        asked.set()
        held.wait()
        return b""

    with serving(folder / "one.db", limits=ServerLimits(answer_s=0.05)) as server:
        wait_until(lambda: server.site.feeds[0].page)
        server.site.feeds[0].ask(slow)
        assert asked.wait(60)
        assert ask(server, "/0/search/6161").status == 503
        held.set()
        wait_until(lambda: ask(server, "/0/search/6161").status == 200)


def test_a_store_that_does_not_exist_has_no_candidates(tmp_path: Path) -> None:
    with serving(tmp_path / "none.db") as server:
        wait_until(lambda: server.site.feeds[0].state.problem)
        assert ask(server, "/0/candidate/0123456789").status == 404
        assert ask(server, "/0/search/6161").status == 404
