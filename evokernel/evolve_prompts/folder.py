"""A folder of prompts with one text of an operator, as a run's setting `prompts` names it."""

from collections.abc import Mapping
from pathlib import Path

from jinja2 import TemplateSyntaxError, nodes
from jinja2.sandbox import SandboxedEnvironment

from evokernel.errors import ConfigError
from operators.llm.templates import SUFFIX, Template, TemplateSettings, load_templates

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


def refuse_statements(text: str, original: str) -> None:
    """Refuse a text made by a model whose rendering may not end. Loading renders a text, so this comes first.

    Raises `ConfigError` if it has a kind of statement that neither every edit may have nor the original has.
    """
    try:
        odd = sorted(_statements(text) - _PLAIN - _statements(original))
    except TemplateSyntaxError as error:
        raise ConfigError(f"the edited text is no template: line {error.lineno}: {error.message}") from None
    if odd:
        raise ConfigError(
            f"the edit has statements of kind {', '.join(odd)}; it may use values, conditions and includes"
        )


def refuse_other_settings(settings: TemplateSettings, original: TemplateSettings) -> None:
    """Refuse an edit that makes another operator. Raises `ConfigError`, which names the setting."""
    for name in _FIXED:
        before, now = getattr(original, name), getattr(settings, name)
        if before != now:
            raise ConfigError(f"the edit changes {name} from {before} to {now}, and may not")


def _statements(text: str) -> set[str]:
    """Return the kinds of Jinja's statements in a file."""
    return {type(node).__name__ for node in SandboxedEnvironment().parse(text).find_all(nodes.Node)}
