"""The page: one file that needs no network. What it shows is data; only scripts of ours run in it."""

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from archive.store import Store
from evokernel.errors import EvokernelError
from evokernel.report.plain import one_line
from evokernel.report.whole import report_document

GENERATOR = "evokernel report"
SCRIPTS = (
    "base.js",
    "answer.js",
    "charts.js",
    "curves.js",
    "story.js",
    "family.js",
    "niches.js",
    "effort.js",
    "main.js",
)
_PAGE = files("evokernel.report") / "page"  # echarts.min.js is Apache ECharts 6.1.0, unchanged
_HEAD_BYTES = 2000
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


class PageRefused(EvokernelError):
    """The page cannot be written where it was asked for."""


def report_page(store: Store) -> str:
    """Return the page of a run as HTML."""
    return page_of(report_document(store))


def page_of(document: Mapping[str, Any]) -> str:
    """Return the page that shows a document of `report_document`."""
    library, style = _text("echarts.min.js"), _text("page.css")
    script = "\n".join(['"use strict";', "(() => {", *map(_text, SCRIPTS), "})();"])
    task = one_line(str(document["status"]["task"]), width=80) or "no run yet"
    shell = Environment(autoescape=True, undefined=StrictUndefined).from_string(_text("page.html.j2"))
    return shell.render(
        generator=GENERATOR,
        policy=policy_of(scripts=(library, script), styles=(style,)),
        title=f"{task} · evokernel",
        library=Markup(library),
        script=Markup(script),
        style=Markup(style),
        data=Markup(data_text(document)),
    )


def policy_of(*, scripts: tuple[str, ...], styles: tuple[str, ...]) -> str:
    """Return a Content-Security-Policy under which these texts run, and nothing else does or is loaded."""
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )


def data_text(document: Mapping[str, Any]) -> str:
    """Return the document as JSON that cannot end the element it stands in, whatever its texts hold."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def write_page(text: str, path: Path) -> int:
    """Write a page in place of an older one, whole or not at all, and return its size in bytes.

    Raises:
        PageRefused: there is something else at the path, or it cannot be written.
    """
    try:
        if path.exists() and (path.is_dir() or not _is_page(path)):
            raise PageRefused(f"{path} is there already and is no report; name another file with --out")
        path.parent.mkdir(parents=True, exist_ok=True)
        return _replace(path, text.encode())
    except OSError as error:
        raise PageRefused(f"cannot write {path}: {error.strerror}") from error


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return f'content="{GENERATOR}"'.encode() in file.read(_HEAD_BYTES)


def _replace(path: Path, body: bytes) -> int:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return len(body)


def _text(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def _hashes(texts: tuple[str, ...]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
