"""Words in names of modules and public classes are in the glossary, or terms of the field; class names are unique."""

import ast
import collections
import functools
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("evokernel", "islands", "operators", "archive")
KERNELS = {"seeds", "cheats", "honest", "tasks"}
"""Folders of kernels, each named after what it computes or tries."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name) if len(word) > 1}


@functools.cache
def modules() -> list[Path]:
    # Those that git does not know yet, too: a test that passes before `git add` and fails after it misleads.
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [Path(line) for line in listed.split() if (ROOT / line).exists()]
    return [path for path in paths if path.parts[0] in PACKAGES and not KERNELS & set(path.parts)]


@functools.cache
def public_classes() -> list[tuple[str, Path]]:
    found = [(node, path) for path in modules() for node in ast.walk(ast.parse((ROOT / path).read_text()))]
    return [(node.name, path) for node, path in found if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


@functools.cache
def glossary() -> dict[str, str]:
    rows = re.findall(r"^\| ([\w -]+) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    return dict(rows[1:])


@functools.cache
def known_words() -> set[str]:
    own = {word for term in glossary() for word in re.findall(r"\w+", term)} | {
        term.replace("-", "") for term in glossary()
    }
    terms = re.findall(r"`(\w+)`", (ROOT / "docs" / "field-terms.md").read_text())
    return own | {f"{word}s" for word in own} | set(terms)


def test_each_word_in_a_name_is_defined() -> None:
    names = [(part, path) for path in modules() for part in path.with_suffix("").parts] + public_classes()
    unknown = {word: str(path) for name, path in names for word in words_of(name) - known_words()}
    assert not unknown, "define them in docs/glossary.md, or list them with a source in docs/field-terms.md"


def test_no_public_class_name_is_used_twice() -> None:
    places = collections.defaultdict(list)
    for name, path in public_classes():
        places[name].append(str(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_a_word_is_defined_without_itself() -> None:
    assert {word for word, meaning in glossary().items() if re.search(rf"\b{word}s?\b", meaning)} == set()


def test_each_group_of_field_terms_has_a_source() -> None:
    groups = (ROOT / "docs" / "field-terms.md").read_text().split("\n## ")[1:]
    assert groups
    assert [group.splitlines()[0] for group in groups if "\nSource: " not in group] == []


def test_each_word_of_the_pages_is_used() -> None:
    names = [part for path in modules() for part in path.with_suffix("").parts] + [name for name, _ in public_classes()]
    used = {word for name in names for word in words_of(name)}
    terms = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "field-terms.md").read_text()))
    assert {term for term in terms if len(term) > 1} - used == set()
