"""A folder of prompts with one text of an operator, as a run's setting `prompts` names it."""

from collections.abc import Mapping
from pathlib import Path

from jinja2 import nodes

from evokernel.errors import ConfigError
from operators.llm.templates import SUFFIX, Template, load_templates

_PLAIN = frozenset({"Template", "Output", "TemplateData", "Name", "Const", "If", "Compare", "Operand", "Include"})
"""Kinds of statements that every edit may have: no loop, no arithmetic, no call, so that rendering it ends soon."""
_FIXED = ("name", "role", "parents", "wants", "reply", "demand")
"""Settings that an edit leaves alone: with others it would be another operator."""


def parts_of(folder: str) -> dict[str, str]:
    """Return the files of a user's folder that prompts include, by name. Raises `ConfigError`."""
    try:
        files = sorted(Path(folder).glob(f"_*{SUFFIX}")) if folder else []
        return {file.name: file.read_text(encoding="utf-8") for file in files}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"a part of the prompts in {folder} cannot be read: {error}") from None


def write_prompts(folder: Path, name: str, text: str, parts: Mapping[str, str]) -> Path:
    """Write a text and the parts it includes into a folder; return its file. Raises `ConfigError`."""
    path = folder / f"{name}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in {**parts, path.name: text}.items():
            (folder / file).write_text(content, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    return path


def read_template(folder: Path, name: str) -> Template:
    """Return the operator of a folder by its name. Raises `ConfigError` where it cannot be used."""
    return load_templates(str(folder))[name]


def refuse_unlike(template: Template, original: Template) -> None:
    """Refuse a text made by a model that is another operator than the original, or whose rendering may not end.

    Raises:
        ConfigError: the message says which setting or statement.
    """
    for setting in _FIXED:
        before, now = getattr(original.settings, setting), getattr(template.settings, setting)
        if before != now:
            raise ConfigError(f"the edit changes {setting} from {before} to {now}, and may not")
    if odd := sorted(_statements(template) - _PLAIN - _statements(original)):
        raise ConfigError(
            f"the edit has statements of kind {', '.join(odd)}; it may use values, conditions and includes"
        )


def _statements(template: Template) -> set[str]:
    """Return the kinds of Jinja's statements in the text of a template."""
    text = template.file.read_text(encoding="utf-8").split("---", 2)[2]
    return {type(node).__name__ for node in template.environment.parse(text).find_all(nodes.Node)} | {"Template"}
