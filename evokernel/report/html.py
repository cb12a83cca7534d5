"""The report page: one HTML file that needs no network and runs only our scripts."""

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from archive.store import Store
from evokernel.errors import EvokernelError
from evokernel.report.candidate_facts import FactsBlock, fact_blocks
from evokernel.report.page_data import report_document
from evokernel.report.safe_text import one_line

GENERATOR = "evokernel report"
SCRIPTS = (
    "base.js",
    "patch.js",
    "blocks.js",
    "sources.js",
    "answer.js",
    "charts.js",
    "curves.js",
    "candidates.js",
    "saving.js",
    "panel.js",
    "story.js",
    "family.js",
    "islands.js",
    "niches.js",
    "effort.js",
    "expected.js",
    "main.js",
)
"""Scripts that draw the page of a run, in order."""
_PAGE = files("evokernel.report") / "page"  # echarts.min.js is Apache ECharts 6.1.0, unchanged
_HEAD_BYTES = 2000
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A page as HTML, and the Content-Security-Policy that it names itself."""

    text: str
    policy: str


class PageRefused(EvokernelError):
    """The page cannot be written to the given path."""


def report_page(store: Store, *, version: str, prompts: bool = False) -> str:
    """Return the page of a run as HTML; `version` is that of evokernel.

    With `prompts` it holds the prompts and replies of models too.
    """
    with store.database.snapshot():
        return page_of(report_document(store, version=version), tuple(fact_blocks(store, calls=prompts)))


def page_of(document: Mapping[str, Any], blocks: Sequence[FactsBlock] = ()) -> str:
    """Return the page that shows a document of `report_document`, and `blocks` in the panels of its candidates."""
    title, data = f"{one_line(str(document['title']), width=80)} · evokernel", data_text(document)
    return shell(SCRIPTS, generator=GENERATOR, title=title, data=data, blocks=blocks).text


def shell(
    scripts: Sequence[str],
    *,
    generator: str,
    title: str,
    charts: bool = True,
    data: str = "",
    blocks: Sequence[FactsBlock] = (),
    addresses: Mapping[str, str] | None = None,
) -> ReportPage:
    """Return a page that draws itself.

    Args:
        scripts: names of our scripts, in order.
        generator: the command that makes the page.
        title: title of the tab.
        charts: include the charting library.
        data: the document, as `data_text` returns it; empty where the page fetches it.
        blocks: facts on candidates, each in an inert element.
        addresses: paths on the page's server by name; without any the page fetches nothing.
    """
    library, style = _text("echarts.min.js") if charts else "", _text("page.css")
    script = "\n".join(['"use strict";', "(() => {", *map(_text, scripts), "})();"])
    policy = policy_of(scripts=(library, script) if charts else (script,), styles=(style,), asks=bool(addresses))
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(
        _text("page.html.j2")
    )
    text = template.render(
        generator=generator,
        policy=policy,
        title=title,
        library=Markup(library),
        script=Markup(script),
        style=Markup(style),
        data=Markup(data),
        blocks=blocks,
        addresses=addresses or {},
    )
    return ReportPage(text, policy)


def policy_of(*, scripts: tuple[str, ...], styles: tuple[str, ...], asks: bool = False) -> str:
    """Return a Content-Security-Policy under which only these texts run and nothing else is loaded.

    A page that `asks` may fetch data from its own server.
    """
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        + ("connect-src 'self'; " if asks else "")
        + "base-uri 'none'; form-action 'none'"
    )


def data_text(document: Mapping[str, Any]) -> str:
    """Return the document as JSON that cannot end its HTML element: `<`, `>` and `&` are escaped."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def write_page(text: str, path: Path) -> int:
    """Write a page in place of an older one, whole or not at all, and return its size in bytes.

    Raises `PageRefused` if another file is at the path, or it cannot be written.
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
