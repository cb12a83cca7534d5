"""Answers one request with one program, sealed as compilers are, and ends.

A program is a module with a function `answer(request, folder) -> (answer, blob)`: JSON in, JSON and bytes out. It may
start other programs, and may run untrusted code, so its answer is not believed.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import socket
import struct
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ..process.descriptors import keep_only
from ..process.seal import PR_SET_DUMPABLE, isolate, mount_scratch, prctl, seal

STDOUT, STDERR, CHANNEL, REQUEST = 1, 2, 3, 4
ERROR_CHARACTERS = 4000
HEADER = struct.Struct("<?QQ")  # answer or error, bytes of JSON, bytes of the blob
FOLDER_VARIABLES = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_HOME", "TRITON_CACHE_DIR")


def prepare(spec: dict[str, Any]) -> dict[str, ModuleType]:
    """Return the programs by name, imported once for all children, after `warm()` of each module in `spec["warm"]`.

    `warm()` may write below TMPDIR and the like, as a program does.
    """
    if spec["warm"]:
        before = dict(os.environ)
        with _workspace(spec) as folder:
            _point_at(folder)
            for module in spec["warm"]:
                importlib.import_module(module).warm()
        os.environ.clear()
        os.environ.update(before)
        tempfile.tempdir = None
    return {name: importlib.import_module(module) for name, module in spec["programs"].items()}


@contextlib.contextmanager
def _workspace(spec: dict[str, Any]) -> Iterator[str]:
    """Give the zygote a folder; inside namespaces it stays, and the children mount theirs over it."""
    if spec["own_pid_namespace"]:
        mount_scratch(spec["scratch"], size_bytes=spec["scratch_bytes"], uid=None)
        yield spec["scratch"]
    else:
        with tempfile.TemporaryDirectory(prefix="evokernel-forge-") as folder:
            yield folder


def run(spec: dict[str, Any], uid: int | None, descriptors: list[int], programs: dict[str, ModuleType]) -> None:
    """Become a child for good. `descriptors`: socket for the answer, sealed request, file for stdout and stderr."""
    keep_only(descriptors, (CHANNEL, REQUEST, STDERR))
    os.dup2(STDERR, STDOUT)
    with open(REQUEST, "rb") as file:
        call = json.load(file)
    _confine(spec, uid, call)
    gc.enable()  # the zygote froze its own objects
    _send(_answer(programs[call["program"]], call))


def _confine(spec: dict[str, Any], uid: int | None, call: dict[str, Any]) -> None:
    folder = call["folder"]
    isolate(spec)
    if spec["own_pid_namespace"]:
        mount_scratch(folder, size_bytes=spec["scratch_bytes"], uid=uid)
    elif uid is not None:
        os.chown(folder, uid, uid)
    limits = {**spec["limits"], "AS": _mapped_bytes() + spec["memory_bytes"], "CPU": call["cpu_s"]}
    landlock = spec["landlock"] and {**spec["landlock"], "write": [*spec["landlock"]["write"], folder]}
    seal({**spec, "limits": limits, "landlock": landlock}, uid)
    os.chdir(folder)
    prctl(PR_SET_DUMPABLE, 1)  # tools read their own /proc; this process holds no secrets
    _point_at(folder)


def _point_at(folder: str) -> None:
    """Point the usual variables for caches and temporary files at this folder."""
    os.environ.update(dict.fromkeys(FOLDER_VARIABLES, folder))
    tempfile.tempdir = None


def _mapped_bytes() -> int:
    """Return the address space of the zygote's libraries."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _answer(program: ModuleType, call: dict[str, Any]) -> tuple[bool, bytes, bytes]:
    try:
        answer, blob = program.answer(call["request"], call["folder"])
        return True, json.dumps(answer).encode(), bytes(blob)
    except BaseException as error:  # noqa: BLE001  it may run a candidate's code, which may raise anything
        text = f"{type(error).__name__}: {error}".encode(errors="replace")
        return False, text[:ERROR_CHARACTERS], b""


def _send(frame: tuple[bool, bytes, bytes]) -> None:
    fine, text, blob = frame
    with socket.socket(fileno=CHANNEL) as channel:
        channel.sendall(HEADER.pack(fine, len(text), len(blob)) + text)
        channel.sendall(blob)
