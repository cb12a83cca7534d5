"""Overhead of calls of a model: many at once, through litellm, against a stub in a process of its own.

`python benchmarks/llm_calls.py` prints JSON. The stub takes a fixed time for each reply, so what a call takes beyond
that is ours and litellm's. The limits are looked at where they count: the stub says how many calls it had at once, the
store says what they came to. A budget in dollars that 30 calls at their worst would fill ends the second part.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from archive.store import Store
from evokernel.config.models import ModelConfig
from evokernel.errors import BudgetSpent
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.ensemble import EnsembleSettings, ModelEnsemble
from evokernel.llm.ledger import SpendingLimits
from evokernel.llm.litellm_transport import LitellmTransport, load_litellm
from evokernel.llm.transport import Price
from evokernel.llm.waiting import Clock
from evokernel.records.llm import Message, ModelRequest, Origin, Reply

PRICE = Price(1e-6, 1e-5)
MAX_TOKENS = 1000
PROMPT = "Make this kernel faster.\n" + "acc += a[i + k * lda] * b[i * ldb + k];\n" * 200
KERNEL = "acc += a[i + k * lda] * b[i * ldb + k];\n" * 50


class Stub:
    """An endpoint that takes a fixed time for each reply and counts what it has at once."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._running = self._most = self._served = 0
        message = {"role": "assistant", "content": f"```cpp\n{KERNEL}```"}
        usage = {"prompt_tokens": 2500, "completion_tokens": 600, "total_tokens": 3100}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
        self._body = json.dumps({**body, "usage": usage}).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = next((line for line in head.split("\r\n") if line.startswith("content-length:")), ":0")
                await reader.readexactly(int(length.partition(":")[2]))
                writer.write(self._response(await self._reply(head)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _reply(self, head: str) -> bytes:
        if head.startswith("get"):
            counted, self._most, self._served = {"most": self._most, "served": self._served}, 0, 0
            return json.dumps(counted).encode()
        self._running += 1
        self._served += 1
        self._most = max(self._most, self._running)
        await asyncio.sleep(self._delay_s)
        self._running -= 1
        return self._body

    def _response(self, body: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def serve(delay_s: float) -> None:
    server = await asyncio.start_server(Stub(delay_s).serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def counted(port: int) -> dict[str, int]:
    """Return the most calls at once, and their number, since the last request to the stub."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(int(head.split(b"Content-Length: ")[1].split()[0]))
    writer.close()
    found: dict[str, int] = json.loads(body)
    return found


async def watch_loop(lags_ms: list[float]) -> None:
    """Note by how much the loop is late, every 5 ms."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        lags_ms.append((time.perf_counter() - began - 0.005) * 1e3)


def ensemble(store: Store, port: int, *, concurrency: int, dollars: float | None) -> ModelEnsemble:
    config = ModelConfig(
        name="stub",
        model="hosted_vllm/stub",
        api_base=f"http://127.0.0.1:{port}/v1",
        max_tokens=MAX_TOKENS,
        concurrency=concurrency,
    )
    model = ConfiguredModel.of(config, LitellmTransport(config), price=PRICE, clock=Clock())
    return ModelEnsemble([model], log=store.calls, rules=EnsembleSettings(limits=SpendingLimits(dollars=dollars)))


async def part(models: ModelEnsemble, *, calls: int, first: int, port: int, delay_s: float) -> dict[str, float]:
    lags_ms: list[float] = []
    waits = asyncio.ensure_future(watch_loop(lags_ms))
    requests = [
        ModelRequest(Origin(first + n, "main", "mutate"), 0, "code", (Message("user", f"{PROMPT}{n}"),))
        for n in range(calls)
    ]
    cpu_s, began = time.process_time(), time.perf_counter()
    results = await asyncio.gather(*(models.complete(each) for each in requests), return_exceptions=True)
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
    waits.cancel()
    replies = [each for each in results if isinstance(each, Reply)]
    stopped = [each for each in results if isinstance(each, BudgetSpent)]
    if len(replies) + len(stopped) != calls:
        raise SystemExit(f"calls failed: {[each for each in results if isinstance(each, BaseException)][:3]}")
    beyond_ms = sorted((reply.usage.duration_s - delay_s) * 1e3 for reply in replies)
    seen = await counted(port)
    return {
        "calls": calls,
        "answered": len(replies),
        "stopped_by_budget": len(stopped),
        "wall_s": round(wall_s, 3),
        "cpu_ms_per_call": round(cpu_s / max(1, len(replies)) * 1e3, 2),
        "beyond_stub_ms_median": round(statistics.median(beyond_ms), 1),
        "beyond_stub_ms_max": round(beyond_ms[-1], 1),
        "loop_lag_ms_p99": round(sorted(lags_ms)[int(0.99 * (len(lags_ms) - 1))], 1),
        "loop_lag_ms_max": round(max(lags_ms), 1),
        "most_at_once": seen["most"],
        "served": seen["served"],
    }


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


async def measure(port: int, *, calls: int, delay_s: float) -> dict[str, object]:
    found: dict[str, object] = {"cores": os.cpu_count(), "stub_s": delay_s, "memory_at_start_mib": resident_mib()}
    load_litellm()
    found["memory_with_litellm_mib"] = resident_mib()
    with tempfile.TemporaryDirectory() as folder:
        with Store.open(Path(folder) / "free.db", write=True) as store:
            models = ensemble(store, port, concurrency=calls, dollars=None)
            for number, name in enumerate(("from_a_slow_start", "again", "all_at_once")):
                found[name] = await part(models, calls=calls, first=number * calls, port=port, delay_s=delay_s)
            found["memory_after_mib"] = resident_mib()
            await models.close()
        with Store.open(Path(folder) / "limited.db", write=True) as store:
            dollars = 30 * _worst_usd()
            models = ensemble(store, port, concurrency=16, dollars=dollars)
            got = await part(models, calls=calls, first=0, port=port, delay_s=delay_s)
            spent = {"spent_usd": store.calls.spending().cost_usd, "budget_usd": dollars, "concurrency": 16}
            found["limited"] = {**got, **spent}
            await models.close()
    found["memory_peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    return found


def _worst_usd() -> float:
    return PRICE.of(len(PROMPT) + 100, MAX_TOKENS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--delay-s", type=float, default=2.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.delay_s))
        return
    command = [sys.executable, __file__, "--serve", "--delay-s", str(given.delay_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stub:
        try:
            assert stub.stdout is not None
            port = int(stub.stdout.readline())
            print(json.dumps(asyncio.run(measure(port, calls=given.calls, delay_s=given.delay_s)), indent=2))
        finally:
            stub.kill()


if __name__ == "__main__":
    main()
