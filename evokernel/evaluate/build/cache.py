"""Cache of compiled kernels on disk: a second build of a source, for other shapes, compiles only new kernels.

A source is built again for the hidden shapes of each process that measures a winner, by a resumed run, and by other
runs. The key holds the whole source, and everything else but the shapes. So a candidate that tampers with its build can
only find its own forgeries, and cached kernels are judged like compiled ones.
"""

import base64
import hashlib
import itertools
import json
import logging
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from evokernel.evaluate.inside.process import bundle
from evokernel.languages.toolchain import CompileAnswer, PythonCompiler

logger = logging.getLogger(__name__)

FORMAT = 1
"""Raised when the build programs compile the same source differently."""
_COMPILED = "cache/"
_LIMIT_BYTES = 1 << 30
_LIMIT_OF_ENTRY_BYTES = 16 << 20
_LIMIT_OF_ENTRY_FILES = 256
_PRUNE_EVERY = 64  # entries written by this process; looking at all of them takes some milliseconds
_SHARE_KEPT = 0.9
_DIGEST_BYTES = 32
_MOST_PROCESSES = 16

Files = Mapping[str, bytes]


class BuildCache:
    """Files by key, the oldest dropped first. Any number of processes may share the folder.

    Damaged entries count as missing, and an unwritable folder keeps nothing. An entry is the SHA-256 of a bundle (see
    `inside/process/bundle`) and the bundle.
    """

    def __init__(self, folder: Path, *, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._written = itertools.count()

    def get(self, key: str) -> dict[str, bytes]:
        """Return the files under a key; empty where there are none."""
        path = self._folder / key
        try:
            data = path.read_bytes()
            digest, text = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
            if hashlib.sha256(text).digest() != digest:
                return {}
            files = bundle.unpack(text)
            os.utime(path)  # entries age by their last use
        except (OSError, ValueError):
            return {}
        return files

    def put(self, key: str, files: Files) -> None:
        """Keep files under a key, in place of earlier ones."""
        text = bundle.pack(files)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                file.write(hashlib.sha256(text).digest() + text)
            os.replace(file.name, self._folder / key)
            if next(self._written) % _PRUNE_EVERY == 0:
                self._prune()
        except OSError as error:
            logger.info("compiled kernels are not kept in %s: %s", self._folder, error.strerror)

    def _prune(self) -> None:
        """Drop the oldest entries beyond the limit; other processes may do so at the same time."""
        entries = []
        for item in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                entries.append((item.stat().st_mtime, item.stat().st_size, item.path))
        total = sum(size for _, size, _ in entries)
        if total <= self._limit_bytes:
            return
        for _, size, path in sorted(entries):
            if total <= self._limit_bytes * _SHARE_KEPT:
                return
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= size


class CachingCompilePool:
    """A compile pool that sends, with each source, the kernels compiled for it before, as `known`.

    `known` in a request holds the files' contents as base64 by their name in a bundle. `processes` is how many may
    compile for it at once: the cores of this thread, shared among the requests that are being answered.
    """

    def __init__(self, pool: PythonCompiler, cache: BuildCache, *, headers: str = "") -> None:
        """Take a pool; `headers` is the digest of further files that its programs compile from."""
        self._pool = pool
        self._cache = cache
        self._headers = headers
        self._running = 0
        self._lock = threading.Lock()

    def __call__(self, program: str, request: Mapping[str, Any], *, timeout_s: float) -> CompileAnswer:
        """Answer a request as the pool does. Only requests with a `source` are cached."""
        if "source" not in request:
            return self._pool(program, request, timeout_s=timeout_s)
        key = key_of(program, {**request, "headers": self._headers} if self._headers else request)
        known = self._cache.get(key)
        texts = {name: base64.b64encode(data).decode() for name, data in known.items()}
        with self._processes() as processes:
            asked = {**request, "known": texts, "processes": processes}
            reply = self._pool(program, asked, timeout_s=timeout_s)
        compiled = _compiled(reply)
        if not compiled.keys() <= known.keys():
            both = {**known, **compiled}
            self._cache.put(key, both if _fits(both) else compiled)
        return reply

    @contextmanager
    def _processes(self) -> Iterator[int]:
        with self._lock:
            self._running += 1
            running = self._running
        try:
            yield max(1, min(_MOST_PROCESSES, len(os.sched_getaffinity(0)) // running))
        finally:
            with self._lock:
                self._running -= 1


def default_folder() -> Path:
    """Return the folder of the user's compiled kernels."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "evokernel" / "builds"


def key_of(program: str, request: Mapping[str, Any]) -> str:
    """Return the hash of everything that machine code is made from: all of a request but the shapes."""
    rest = {name: value for name, value in request.items() if name not in ("shapes", "measured")}
    return hashlib.sha256(json.dumps([FORMAT, program, rest], sort_keys=True).encode()).hexdigest()


def _compiled(reply: CompileAnswer) -> dict[str, bytes]:
    """Return the compiled kernels in an answer; empty where the build failed or sent a malformed bundle."""
    if reply.answer is None or not reply.blob:
        return {}
    try:
        files = bundle.unpack(reply.blob)
    except ValueError:
        return {}
    return {name: data for name, data in files.items() if name.startswith(_COMPILED)}


def _fits(files: Files) -> bool:
    return len(files) <= _LIMIT_OF_ENTRY_FILES and sum(map(len, files.values())) <= _LIMIT_OF_ENTRY_BYTES
