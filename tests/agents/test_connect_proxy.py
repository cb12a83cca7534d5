"""The proxy of agents, over real sockets: alone, and as the only way out of the sandbox."""

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evokernel.agents.proxy import AgentProxy
from tests.agents.scripted import NotedServices, agent, ask


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while line := self.rfile.readline():
            self.wfile.write(b"echo " + line)


@contextmanager
def echoing() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


async def say(path: Path, *lines: str) -> str:
    reader, writer = await asyncio.open_unix_connection(path)
    for line in lines:
        writer.write(line.encode())
        await writer.drain()
    writer.write_eof()
    said = await reader.read()
    writer.close()
    return said.decode()


def through(tmp_path: Path, hosts: list[str], *lines: str, most_bytes: int = 1 << 20) -> tuple[str, AgentProxy]:
    async def scenario() -> tuple[str, AgentProxy]:
        proxy = AgentProxy(hosts, most_bytes=most_bytes)
        await proxy.start(tmp_path / "proxy")
        try:
            return await asyncio.wait_for(say(tmp_path / "proxy", *lines), 30), proxy
        finally:
            await proxy.close()
            (tmp_path / "proxy").unlink()

    return asyncio.run(scenario())


def test_it_leads_to_the_named_host_and_port_alone(tmp_path: Path) -> None:
    with echoing() as port:
        connect = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n"
        said, proxy = through(tmp_path, [f"127.0.0.1:{port}"], connect, "hello\n")
        assert said == "HTTP/1.1 200 Connected\r\n\r\necho hello\n"
        assert proxy.carried_bytes == len("hello\n" + "echo hello\n")
        for hosts in ([], ["127.0.0.1"], [f"localhost:{port}"], [f"127.0.0.1:{port}1"]):
            said, proxy = through(tmp_path, hosts, connect, "hello\n")
            assert said.startswith("HTTP/1.1 403")
            assert proxy.refused == {f"127.0.0.1:{port}": 1}


@pytest.mark.parametrize("asked", ["GET http://a.example/ HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n", "\r\n\r\n"])
def test_it_takes_no_plain_http(tmp_path: Path, asked: str) -> None:
    said, proxy = through(tmp_path, ["a.example", "a.example:80"], asked)
    assert said.startswith("HTTP/1.1 405")
    assert len(proxy.refused) == 1


def test_it_carries_so_many_bytes_and_no_more(tmp_path: Path) -> None:
    with echoing() as port:
        lines = [f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n", *["x" * 999 + "\n"] * 50]
        said, proxy = through(tmp_path, [f"127.0.0.1:{port}"], *lines, most_bytes=10_000)
        assert len(said) < 10_000
        assert proxy.carried_bytes > 10_000  # the block that went too far was not passed on


REACHES = """
import os, socket, urllib.parse
def tunnel(target):
    address = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
    line = socket.create_connection((address.hostname, address.port), 10)
    line.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
    head = line.recv(100).decode().split("\\r\\n")[0]
    if " 200 " not in head:
        return head
    line.sendall(b"hello\\n")
    return line.recv(100).decode().strip()
print(tunnel("127.0.0.1:PORT"), "|", tunnel("forbidden.example:443"))
for family, address in ((socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_INET, ("1.1.1.1", 443))):
    try:
        with socket.socket(family) as direct:
            direct.settimeout(5)
            direct.connect(address)
            print("REACHED", address)
    except OSError:
        print("refused")
try:
    socket.socket(40)
    print("REACHED the hypervisor")
except OSError:
    print("refused")
"""


def test_an_agent_reaches_its_hosts_and_no_other(tmp_path: Path) -> None:
    services = NotedServices()
    with echoing() as port:
        config = agent(tmp_path, REACHES.replace("PORT", str(port)), agent_hosts=(f"127.0.0.1:{port}",))
        said = ask(config, services=services).text
    assert said.startswith("echo hello | HTTP/1.1 403")
    assert "REACHED" not in said
    ((text, detail),) = services.remarks
    assert "refused to reach forbidden.example:443: agent_hosts names what it may" in text
    assert detail["refused"] == {"forbidden.example:443": 1}


CROWDS = """
import os, pathlib, socket, urllib.parse
address = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
def connect():
    return socket.create_connection((address.hostname, address.port), 30)
crowd = [connect() for _ in range(600)]  # more than there are descriptors and threads for
for line in crowd:
    line.close()
for _ in range(100):
    try:
        line = connect()
        line.sendall(b"CONNECT forbidden.example:443 HTTP/1.1\\r\\n\\r\\n")
        if head := line.recv(100).decode().split("\\r\\n")[0]:
            if " 403 " in head:
                break
    except OSError as error:
        head = str(error)
pathlib.Path("reply.md").write_text(head)
"""


def test_a_crowd_of_connections_costs_neither_the_answer_nor_later_ones(tmp_path: Path) -> None:
    assert "403" in ask(agent(tmp_path, CROWDS, agent_hosts=("a.example",))).text


def test_without_hosts_there_is_no_network_at_all(tmp_path: Path) -> None:
    script = (
        "import os, socket\nprint(os.environ.get('HTTPS_PROXY'))\ntry:\n  socket.create_connection(('1.1.1.1', 443), 5)"
    )
    assert ask(agent(tmp_path, f"{script}\nexcept OSError: print('refused')")).text == "None\nrefused\n"
