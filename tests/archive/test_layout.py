"""Where SQL may stand."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import archive

ROOT = Path(archive.__file__).parents[1]
SQL = re.compile(
    r"\b(SELECT\b.+\bFROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|(LEFT|INNER)? ?JOIN \w+ \w* ?(ON|USING))\b", re.DOTALL
)


def texts(file: Path) -> Iterator[str]:
    """Yield every string of a file; of one that is put together, its parts beside each other."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield " x ".join(str(each.value) for each in parts if isinstance(each, ast.Constant))


@pytest.mark.heavy
def test_no_sql_stands_outside_the_archive() -> None:
    files = [file for package in ("evokernel", "islands", "operators") for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 300
    found = [str(file.relative_to(ROOT)) for file in files if any(SQL.search(text) for text in texts(file))]
    own = ["evokernel/evolve_prompts/store.py", "evokernel/queue/file.py"]
    assert sorted(found) == own, "a queue and an evolution of prompts have files of their own, which are no stores"
    assert len([file for file in (ROOT / "archive").rglob("*.py") if any(map(SQL.search, texts(file)))]) > 10
