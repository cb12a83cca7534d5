"""Templates of operators that ask a model: Markdown files with front matter, built in or a user's own.

A template places sections (`{{ task }}`, see `SECTIONS`) and may use the plain values in `VALUES`. It is rendered in
jinja2's sandbox; a variable that does not exist is an error when the template is loaded. Files whose names begin with
an underscore are parts that others include; `_system` and `_answer` go into every prompt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import yaml
from jinja2.sandbox import SandboxedEnvironment
from pydantic import Field, ValidationError, model_validator

from evokernel.config.part import Part
from evokernel.errors import ConfigError
from evokernel.records.prompt_settings import FeedbackLevel, HistoryKind
from evokernel.records.step import ContextNeed
from operators.llm.prompt import place, placed

SUFFIX = ".md.j2"
BUILT_IN = Path(__file__).with_name("prompts")
SECTIONS = (
    "task",
    "device",
    "guide",
    "constraints",
    "parents",
    "broken",
    "fixes",
    "foreign",
    "tried",
    "checks",
    "hypotheses",
    "strategies",
    "insights",
    "inspirations",
    "failures",
    "best",
    "hints",
    "agent_hints",
)
"""Sections that a template can place. Each has its own heading, and is empty without content."""
VALUES: Mapping[str, str | int] = {
    "operator": "mutate",
    "language": "cpp",
    "other_language": "triton",
    "reply": "either",
    "base": "kernel 1",
    "kernels": 1,
    "tries": 0,
    "crossing": 0,
    "plans": 1,
    "bottlenecks": 0,
    "state": "unprofiled",
    "looks": "",
    "limited": 0,
}
"""Plain values, with specimens: `base` names the kernel that edits apply to, empty without one; `kernels` counts
the parents, `tries` the repairs that a broken kernel has had; `crossing` is 1 where there are two strategies;
`plans` is the number of strategies to ask for, and `bottlenecks` 1 where each is to name the one it removes;
`state` is that of the kernel to work on (`operators.llm.parent_state`), and `looks` names what may be asked for first;
`other_language` is that of the kernel to port; `limited` is 1 where the floor of the device is known."""


class ReplyKind(StrEnum):
    """Kind of reply that a template asks for."""

    CODE = "code"
    """A whole file."""
    EDITS = "edits"
    """SEARCH/REPLACE blocks or a unified diff."""
    EITHER = "either"
    """A whole file or changes."""
    STRATEGY = "strategy"
    """An idea for another operator to implement."""
    DIAGNOSIS = "diagnosis"
    """The reason for a kernel's speed."""
    LESSON = "lesson"
    """A rule drawn from what was tried."""
    CHECKS = "checks"
    """Inputs that are meant to break kernels."""

    @property
    def is_kernel(self) -> bool:
        """Say whether the reply gives a candidate."""
        return self in (ReplyKind.CODE, ReplyKind.EDITS, ReplyKind.EITHER)


class TemplateNeed(StrEnum):
    """Demand on a kernel, checked before it is judged."""

    NONE = "none"
    MORE_TUNABLES = "more_tunables"
    """A further number is a tunable."""
    SIMPLER = "simpler"
    """The source has fewer words."""


class TemplateSettings(Part):
    """The front matter of a template."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """The operator's name in configs; also the name of the file."""
    about: str = Field(min_length=1)
    """One line for people."""
    role: str = Field(min_length=1)
    """The models to ask: `code`, `think`, or a role of your own."""
    parents: int = Field(ge=0, le=8)
    """Number of kernels it works on. A ladder may have fewer, two at least."""
    wants: tuple[ContextNeed, ...] = ()
    """Further parts of the context that it needs."""
    reply: ReplyKind
    """The kind of reply."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature; None for the model's own."""
    max_tokens: int | None = Field(default=None, gt=0)
    """The longest reply; None for the model's own limit."""
    feedback: FeedbackLevel | None = None
    """The evaluator's words in the prompt; None for the run's `prompt_feedback`."""
    history: HistoryKind | None = None
    """The earlier changes in the prompt; None for the run's `prompt_history`."""
    demand: TemplateNeed = TemplateNeed.NONE
    """A demand on the kernel, compared with the one it was made from."""

    @model_validator(mode="after")
    def _fits(self) -> "TemplateSettings":
        has_base = self.parents > 0 or ContextNeed.BROKEN in self.wants
        if not has_base and (self.reply is ReplyKind.EDITS or self.demand is not TemplateNeed.NONE):
            raise ValueError("edits and demands need a kernel to compare with: parents above 0, or wants: [broken]")
        if ContextNeed.LADDER in self.wants and self.parents < 2:
            raise ValueError("a ladder needs parents: 2 or more")
        if (ContextNeed.CHECKS in self.wants) != (self.reply is ReplyKind.CHECKS) or (
            ContextNeed.CHECKS in self.wants and self.parents < 1
        ):
            raise ValueError("reply: checks and wants: [checks] go together, with parents: 1 or more to break")
        if ContextNeed.STRATEGY in self.wants and self.parents < 1:
            raise ValueError("a strategy is carried out on a kernel: parents: 1 or more")
        return self


@dataclass(frozen=True, slots=True)
class Template:
    """One operator's file, checked and compiled."""

    settings: TemplateSettings
    """The front matter."""
    file: Path
    """The path, for messages."""
    environment: SandboxedEnvironment
    """The sandbox it is rendered in."""
    body: jinja2.Template
    """The text below the front matter."""

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.settings.name

    def render(self, values: Mapping[str, str | int], present: frozenset[str]) -> tuple[str, str]:
        """Return the system message and the skeleton of the user's message, with marks in place of sections.

        Args:
            values: every name in `VALUES`.
            present: the sections with content; the others are empty.

        Raises:
            ConfigError: the template cannot be rendered; the message names the file.
        """
        sections = {name: place(name) if name in present else "" for name in SECTIONS}
        known: dict[str, Any] = {**values, **sections}
        try:
            system = self.environment.get_template(f"_system{SUFFIX}").render(known)
            answer = self.environment.get_template(f"_answer{SUFFIX}").render(known)
            skeleton = self.body.render(known, answer=answer.strip())
            placed(skeleton)
        except (jinja2.TemplateError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            raise ConfigError(f"prompt {self.file}: {_explain(error)}") from None
        return system.strip(), skeleton


def load_templates(folder: str = "") -> dict[str, Template]:
    """Return all operators that ask a model, by name: the built-in ones, and those in a user's folder over them.

    Raises `ConfigError` if the folder does not exist, or a file in it cannot be used; the message names file and key.
    """
    folders = [BUILT_IN]
    if folder:
        own = Path(folder)
        if not own.is_dir():
            raise ConfigError(f"prompts: {folder} is no folder; it should hold files named NAME{SUFFIX}")
        folders.insert(0, own)
    environment = SandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found: dict[str, Template] = {}
    for place_ in reversed(folders):
        for file in sorted(place_.glob(f"*{SUFFIX}")):
            if not file.name.startswith("_"):
                template = _load(file, environment)
                found[template.name] = template
    return dict(sorted(found.items()))


def _load(file: Path, environment: SandboxedEnvironment) -> Template:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt {file} cannot be read: {error}") from None
    head, body = _split(text, file)
    settings = _settings(head, file)
    if settings.name != file.name.removesuffix(SUFFIX):
        raise ConfigError(f"prompt {file}: name: {settings.name!r} must be that of the file, without {SUFFIX}")
    try:
        unknown = jinja2.meta.find_undeclared_variables(environment.parse(body)) - {*VALUES, *SECTIONS, "answer"}
        if unknown:
            known = ", ".join((*SECTIONS, "answer", *VALUES))
            raise ConfigError(f"prompt {file}: unknown variables {', '.join(sorted(unknown))}; known: {known}")
        template = Template(settings, file, environment, environment.from_string(body))
    except jinja2.TemplateError as error:
        raise ConfigError(f"prompt {file}: {_explain(error)}") from None
    for present in (frozenset(SECTIONS), frozenset[str]()):  # both branches of most conditions
        template.render({**VALUES, "operator": settings.name, "reply": settings.reply}, present)
    return template


def _split(text: str, file: Path) -> tuple[str, str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].strip() != "---" or "---" not in [line.strip() for line in lines[1:]]:
        raise ConfigError(f"prompt {file}: it must begin with front matter, YAML between two lines of three dashes")
    end = next(index for index, line in enumerate(lines) if index and line.strip() == "---")
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])


def _settings(head: str, file: Path) -> TemplateSettings:
    try:
        raw = yaml.safe_load(head)
    except yaml.YAMLError as error:
        raise ConfigError(f"prompt {file}: the front matter is not valid YAML: {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"prompt {file}: the front matter must be a mapping of settings")
    try:
        return TemplateSettings.model_validate(raw)
    except ValidationError as error:
        known = ", ".join(TemplateSettings.model_fields)
        lines = [
            f"{'.'.join(map(str, item['loc'])) or 'front matter'}: {item['msg'].removeprefix('Value error, ')}"
            + (f"; known: {known}" if item["type"] == "extra_forbidden" else "")
            for item in error.errors()
        ]
        raise ConfigError(f"prompt {file} cannot be used:\n  " + "\n  ".join(lines)) from None


def _explain(error: Exception) -> str:
    line = f"line {error.lineno} of the text: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
    return f"{line}{error or type(error).__name__}"
