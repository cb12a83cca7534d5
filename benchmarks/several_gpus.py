"""Searches on one GPU of this machine, and on all through Ray: candidates per minute, and the speed-up of the winner.

`python benchmarks/several_gpus.py [--config configs/softmax.yaml] [--evaluations 80] [--folder DIR]`

It starts a Ray cluster of this machine alone, lists it with `evokernel doctor --ray`, and runs the same search without
Ray, on one host, and on one host for each GPU; then again on all of them while one is killed. It ends the cluster that
it started and no other. On a machine without a GPU everything runs on the processor, as one host.
"""

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.processes import descendants  # noqa: E402

START_S = 300.0


@contextmanager
def cluster() -> Iterator[tuple[str, int]]:
    """Run a cluster of this machine, and yield its address and the process that started it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "PYTHONPATH": str(ROOT)})
    command = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", f"--port={port}"]
    command += ["--node-ip-address=127.0.0.1", "--include-dashboard=false", '--resources={"evokernel": 1}']
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(port)
        yield f"127.0.0.1:{port}", process.pid
    finally:
        process.terminate()  # Ray ends what it has started
        process.wait()


def wait_for(port: int) -> None:
    """Wait until something listens. Raises `SystemExit` where nothing does."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        with socket.socket() as knock:
            if not knock.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.5)
    raise SystemExit(f"no cluster after {START_S:.0f} s")


def devices(address: str) -> dict[str, int]:
    """Return model and number of the GPUs of a cluster, as Ray names them; one CPU where there is none."""
    asked = "import json, ray, sys; ray.init(sys.argv[1]); print(json.dumps(ray.cluster_resources()))"
    until = time.monotonic() + START_S
    while True:
        done = subprocess.run([sys.executable, "-c", asked, address], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        if time.monotonic() > until:
            raise SystemExit(done.stderr)
    offered = json.loads(done.stdout.splitlines()[-1])
    models = [name.partition(":")[2] for name in offered if name.startswith("accelerator_type:")]
    return {models[0]: int(offered["GPU"])} if models else {"CPU": 1}


def evokernel(*arguments: str) -> str:
    """Run a command of evokernel, and return what it says. Raises `SystemExit` where it fails."""
    command = [sys.executable, "-m", "evokernel", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def search(name: str, folder: Path, config: Path, evaluations: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Run a search, print its figures, and return its status."""
    store = str(folder / f"{name}.db")
    options = [option for key, value in settings.items() for option in ("--set", f"{key}={json.dumps(value)}")]
    began = time.monotonic()
    evokernel("evolve", str(config), "--store", store, "--budget", f"evaluations={evaluations}", *options)
    took = time.monotonic() - began
    status: dict[str, Any] = json.loads(evokernel("status", store, "--json"))
    best = status["best"]["speedup"] if status["best"] else None
    shown = f"{best['value']:.2f} ({best['low']:.2f} to {best['high']:.2f})" if best else "none"
    faults = status["by_status"].get("harness_error", 0)
    print(
        f"{name}: {status['results']} results in {took:.0f} s, {60 * status['results'] / status['seconds']:.1f} a "
        f"minute of the search; best {shown}; {faults} faults of the harness; judged by host "
        f"{[host['judged'] for host in status['hosts']]}, lost {[host['failures'] for host in status['hosts']]}",
        flush=True,
    )
    return status


def kill_a_host(store: Path, ended: threading.Event, *, after: int, ancestor: int) -> None:
    """Kill one host of the cluster that a process started, once the search has so many results."""
    while not store.exists() or json.loads(evokernel("status", str(store), "--json"))["results"] < after:
        if ended.wait(1.0):
            return
    for process in descendants(ancestor):
        if Path(f"/proc/{process}/cmdline").read_text().startswith("ray::Host"):
            os.kill(process, signal.SIGKILL)
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "softmax.yaml")
    parser.add_argument("--evaluations", type=int, default=80)
    parser.add_argument("--folder", type=Path, help="where stores are kept; a temporary folder by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evokernel-gpus-") as name, cluster() as (address, ancestor):
        folder = given.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        ((model, count),) = devices(address).items()
        print(evokernel("doctor", "--ray", address), flush=True)
        where: dict[str, Any] = {"device": "cpu" if model == "CPU" else "cuda"}
        placed = {**where, "evaluation.hosts": "ray", "evaluation.address": address}
        run = (folder, given.config, given.evaluations)
        search("local", *run, where | {"evaluation.gpus": 1})
        for hosts in sorted({1, count}):
            search(f"hosts-{hosts}", *run, placed | {"evaluation.devices": {model: hosts}})
        ended = threading.Event()
        wanted = {"after": given.evaluations // 3, "ancestor": ancestor}
        killer = threading.Thread(target=kill_a_host, args=(folder / "killed.db", ended), kwargs=wanted, daemon=True)
        killer.start()
        search("killed", *run, placed | {"evaluation.devices": {model: count}})
        ended.set()
        killer.join()


if __name__ == "__main__":
    main()
