"""Generator of cli.md, config.md and museum.md here, below their mark: python docs/generate.py [--check].

Text above the mark is written by hand, and stays.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
from pydantic.fields import FieldInfo

from evokernel.cli import group
from evokernel.config.changes import may_change
from evokernel.config.load import parse_config
from evokernel.config.part import Part, meanings
from evokernel.config.run import DEVICE_OF, SUFFIXES, EvaluationConfig, RunConfig
from evokernel.tasks import builtin_tasks, load_task
from islands.elite_selectors import SELECTORS
from islands.operator_choosers import CHOOSERS
from islands.topology import TOPOLOGIES
from islands.workload_selectors import WORKLOAD_SELECTORS
from operators import OPERATORS
from operators.llm.templates import load_templates
from operators.rewrites.cpp import CPP_REWRITES
from operators.rewrites.cuda import CUDA_REWRITES
from operators.rewrites.triton import TRITON_REWRITES

HERE = Path(__file__).parent
MARK = "<!-- Below this line: made from the code by `make docs`. -->"
USUAL_EXITS = "Exit codes: 0 done; 2 an error, said on stderr."
ISLAND = "NAME"
CONDITIONS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = [*heads]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in (head, ["---"] * len(head), *rows))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def sentences(text: str) -> str:
    """Return paragraphs with one sentence a line."""
    joined = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return "\n\n".join(re.sub(r"(?<=[.!?]) (?=[A-Z])", "\n", paragraph) for paragraph in joined)


def first_line(documented: Any) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(documented) or "").partition("\n")[0]


# ---------------------------------------------------------------------------------------------------- commands


def commands() -> Iterator[str]:
    """Yield the reference of the command line, a piece for each command."""
    main = group.main
    yield f"## evokernel\n\n{_help(main)}\n\n{_parameters(main)}"
    for title, entries in group.SECTIONS.items():
        listed = ", ".join(f"[`{name}`](#evokernel-{name})" for name in entries)
        yield f"{title}: {listed}."
    for entries in group.SECTIONS.values():
        for name in entries:
            command = main.get_command(click.Context(main), name)
            assert command is not None
            yield from _command(command, f"evokernel {name}", "##")


def _command(command: click.Command, name: str, marks: str) -> Iterator[str]:
    """Yield the section of a command, then those of its subcommands, one level deeper."""
    inner = command.commands if isinstance(command, click.Group) else {}
    arguments = [_spelled(each) for each in command.params if isinstance(each, click.Argument)]
    usage = " ".join([name, "[OPTIONS]", *arguments, *["COMMAND [ARGS]..."] * bool(inner)])
    listed = ", ".join(f"[`{each}`](#{f'{name} {each}'.replace(' ', '-')})" for each in inner)
    epilog = command.epilog or ""
    said = "exit code" in f"{command.help} {epilog}".lower()
    parts = [f"{marks} {name}", f"```text\n{usage}\n```", _help(command), _parameters(command)]
    parts += [f"Commands: {listed}." if inner else "", sentences(epilog if said else f"{epilog} {USUAL_EXITS}")]
    yield "\n\n".join(filter(None, parts))
    for each, subcommand in inner.items():
        yield from _command(subcommand, f"{name} {each}", f"{marks}#")


def _help(command: click.Command) -> str:
    return sentences(inspect.cleandoc(command.help or "").replace("<", "&lt;"))


def _parameters(command: click.Command) -> str:
    rows = [(f"`{_spelled(each)}`", _meaning(each)) for each in command.params if isinstance(each, click.Option)]
    return table(("option", "meaning"), rows) if rows else ""


def _spelled(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        name = parameter.make_metavar(click.Context(group.main))
        return name if parameter.required or "[" in name else f"[{name}]"
    assert isinstance(parameter, click.Option)
    takes_value = not (parameter.is_flag or parameter.count)
    value = parameter.metavar or _kind(parameter.type)
    return ", ".join(parameter.opts) + (f" {value}" if takes_value else "")


def _kind(kind: click.ParamType[Any]) -> str:
    match kind:
        case click.Path():
            return "PATH"
        case click.Choice():
            return "|".join(map(str, kind.choices))
        case click.IntRange():
            return "N"
        case click.FloatRange():
            return "NUMBER"
    return "TEXT"


def _meaning(option: click.Option) -> str:
    kind, notes = option.type, []
    if isinstance(kind, click.IntRange | click.FloatRange) and not option.count:
        signs = (">" if kind.min_open else "≥", "<" if kind.max_open else "≤")
        bounds = zip(signs, (kind.min, kind.max), strict=True)
        notes += [f"{sign} {bound}" for sign, bound in bounds if bound is not None]
    notes += ["required"] * option.required + [f"default {option.default}"] * bool(option.show_default)
    notes += ["may be repeated"] * (option.multiple and "repeated" not in (option.help or ""))
    return " ".join(filter(None, [option.help, f"({', '.join(notes)})" if notes else ""]))


# ---------------------------------------------------------------------------------------------------- settings


def settings() -> Iterator[str]:
    """Yield the reference of a config: every setting, then every name that one may give."""
    for path, model in parts():
        rows = [_setting(path, name, field, model) for name, field in model.model_fields.items()]
        heads = ("setting", "type", "default", "meaning", "may change")
        about = sentences(inspect.getdoc(model) or "")
        yield f"## {path or 'The run'}\n\n{about}\n\n{table(heads, rows)}"
    yield from names()


def parts(path: str = "", model: type[Part] = RunConfig) -> Iterator[tuple[str, type[Part]]]:
    """Yield every part of a config with the path that leads to it, outermost first."""
    yield path, model
    for name, field in model.model_fields.items():
        inner = part_of(field)
        if inner is not None:
            several = "tuple" in str(field.annotation)
            yield from parts(joined(path, name) + f".{ISLAND}" * several, inner)


def part_of(field: FieldInfo) -> type[Part] | None:
    """Return the config part in a setting, single or repeated, or None."""
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, Part)), None)


def joined(path: str, name: str) -> str:
    """Return the dotted path of a setting."""
    return f"{path}.{name}" if path else name


def _setting(path: str, name: str, field: FieldInfo, model: type[Part]) -> tuple[str, ...]:
    full, inner = joined(path, name), part_of(field)
    schema = model.model_json_schema()["properties"][name]
    changes = "yes" if may_change(f"{full}.x" if inner else full, [ISLAND]) else "no"
    meaning = meanings(model).get(name, "") or (first_line(inner) if inner else "")
    if inner is None:
        return f"`{name}`", _type(schema), _default(name, field, model), meaning, changes
    several = "tuple" in str(field.annotation)
    place = f"{full}.{ISLAND}" if several else full
    anchor = re.sub(r"[^\w-]", "", place.lower())
    kind = f"{'list of ' if several else ''}[{place}](#{anchor})"
    default = "required" if field.is_required() else "none" if several or field.default is None else "its defaults"
    return f"`{name}`", kind, default, meaning, "see there" if not several else changes


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "array":
            inner = _type(schema["items"])
            return f"list of {inner}" if inner.startswith("`") else f"list of {inner}s"
        case "object":
            values = schema.get("additionalProperties", True)
            return f"{_type(values)} by name" if isinstance(values, Mapping) else "anything by name"
        case "string":
            return "text"
    bounds = [f" {sign} {schema[key]}" for key, sign in CONDITIONS.items() if key in schema]
    return f"{schema['type']}{','.join(bounds)}".replace("null", "`null`")


def _default(name: str, field: FieldInfo, model: type[Part]) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    text = _written(value)
    if model is EvaluationConfig:
        on_gpu = getattr(EvaluationConfig().on("cuda"), name)
        text += f", on a GPU {_written(on_gpu)}" if on_gpu != value else ""
    return text


def _written(value: Any) -> str:
    match value:
        case None:
            return "`null`"
        case "":
            return "empty"
        case () | dict():
            return "none"
        case tuple():
            return ", ".join(f"`{each}`" for each in value)
        case float():
            return f"{value:g}"
    return f"`{value}`" if isinstance(value, str) else str(value)


# ---------------------------------------------------------------------------------------------------- names


def names() -> Iterator[str]:
    """Yield the names that settings may give, with what each means."""
    yield _named("Tasks", "`task`", "computes", builtin_tasks(), lambda name: load_task(name).description)
    yield _named("Languages", "`language`", "files, and where it runs", DEVICE_OF, _language)
    yield _named("Operators by rule", "`operators`", "what it does", OPERATORS, _documented(OPERATORS))
    asking = {name: template.settings for name, template in load_templates().items()}
    roles = [(f"`{name}`", each.about, f"`{each.role}`") for name, each in asking.items()]
    yield f"## Operators that ask a model\n\n{table(('`operators`', 'what it does', 'role it asks'), roles)}"
    cpp, cuda, triton = CPP_REWRITES.by_name, CUDA_REWRITES.by_name, TRITON_REWRITES.by_name
    yield _named("What `rewrite` does to C++", "rewrite", "what it does", cpp, partial(_move, cpp))
    yield _named("What `rewrite` does to CUDA C++", "rewrite", "what it does", cuda, partial(_move, cuda))
    yield _named("What `rewrite` does to Triton", "rewrite", "what it does", triton, partial(_move, triton))
    selectors = SELECTORS | WORKLOAD_SELECTORS
    yield _named("Selectors", "`selector.kind`", "how a parent is picked", selectors, _documented(selectors))
    yield _named("Choosers", "`choose`", "how an operator is chosen", CHOOSERS, _documented(CHOOSERS))
    yield _named("Topologies", "`topology`", "who sends elites to whom", TOPOLOGIES, _documented(TOPOLOGIES))
    yield _axes()


def _named(title: str, setting: str, means: str, known: Iterable[str], meaning: Callable[[str], str]) -> str:
    return f"## {title}\n\n{table((setting, means), ((f'`{name}`', meaning(name)) for name in known))}"


def _documented(known: Mapping[str, Any]) -> Callable[[str], str]:
    return lambda name: first_line(known[name])


def _language(name: str) -> str:
    suffix = next(suffix for suffix, language in SUFFIXES.items() if language == name)
    return f"`NAME{suffix}`, device class `{DEVICE_OF[name]}`"


def _move(moves: Mapping[str, Any], name: str) -> str:
    """Return the description of a rewrite; one of several of a class has that of its module."""
    kind = type(moves[name])
    alone = sum(type(each) is kind for each in moves.values()) == 1
    return first_line(kind if alone else sys.modules[kind.__module__])


def _axes() -> str:
    """Return the niches of islands that give none."""
    island = {"name": "one", "operators": {"tune": 1}}
    config = parse_config({"task": "gemm", "budget": {"evaluations": 1}, "islands": [island]}, "an example")
    rows = [
        (f"`{device}`", f"`{axis}`", ", ".join(f"{edge:g}" for edge in edges))
        for device in ("cpu", "cuda")
        for axis, edges in config.on(device).islands[0].niches.axes.items()
    ]
    heads = ("device class", "descriptor", "lower edges of the second and later bins")
    return f"## Niches where `axes` is left out\n\n{table(heads, rows)}"


# ---------------------------------------------------------------------------------------------------- museum


def museum() -> Iterator[str]:
    """Yield the heads of the museum's exhibits, counted and listed."""
    sys.path.insert(0, str(HERE.parent))  # tests are no package that is installed
    try:
        from tests.museum.counts import pieces
    finally:
        sys.path.remove(str(HERE.parent))
    yield from pieces(table)


# ---------------------------------------------------------------------------------------------------- pages

PAGES: Mapping[str, Callable[[], Iterable[str]]] = {"cli.md": commands, "config.md": settings, "museum.md": museum}


def page(name: str, text: str) -> str:
    """Return the text that a page must have, given the one it has."""
    by_hand, mark, _ = text.partition(MARK)
    if not mark:
        raise SystemExit(f"{name} lacks the line {MARK!r}, below which it is written anew")
    return "\n\n".join([by_hand.rstrip(), MARK, *PAGES[name]()]) + "\n"


def stale(folder: Path) -> dict[str, str]:
    """Return the stale pages of a folder, with the text that the code gives."""
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in PAGES}
    made = {name: page(name, text) for name, text in texts.items()}
    return {name: text for name, text in made.items() if text != texts[name]}


def main(arguments: list[str], folder: Path = HERE) -> int:
    """Write the pages, or with --check say which are stale."""
    found = stale(folder)
    if arguments == ["--check"]:
        click.echo(f"run `make docs` and commit what it writes: {', '.join(found)}" if found else "as the code says")
        return bool(found)
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
        click.echo(f"{folder / name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
