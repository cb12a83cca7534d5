"""Exhibits: kernels that cheat and harmless ones, each with a head that names the due verdict.

A head is the comment at the top of a file, one `// field: text` a line; a line that begins with `//   ` continues
the field before it. A file in Python begins its comments with `#`; it is for Triton and CUDA C++, unless its name says
for which of them. Fields of a cheat are

    title, class, tries
    stops   the stages that must stop it, with ` or ` between
    needs   the means that a task must offer it, with `, ` between; see `knowledge`
    mend    the change to a task that accepts it, where that is the task's fault

and of a harmless kernel `title`. In place of `stops` there may be `hole: WHY`, for a cheat that worker mode cannot
stop, or `gains: nothing`, for one with right results that must look no faster than the original kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evokernel.records.evaluation import Stage

CLASSES: Mapping[str, str] = {
    "checking": "wrong results that a check might not see",
    "caching": "results of earlier calls, or of other calls",
    "stealing": "results that somebody else computed",
    "clock": "work that the clock might miss",
    "not the task": "anything but an answer",
}
"""Classes of cheats, with the common trait of each."""
_HERE = Path(__file__).parent
_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "cpp": (".cpp",),
    "triton": (".py", ".triton.py"),
    "cuda": (".py", ".cu.py"),
}
"""Suffixes of the files, by language."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One kernel that is made for a task, with its due verdict."""

    name: str
    """Stem of its file."""
    title: str
    """Clause after "a kernel that"."""
    family: str
    """Class of cheats; empty for a harmless kernel."""
    tries: str
    """The cheat, in a sentence."""
    stops: tuple[Stage, ...]
    """Stages that must stop it."""
    needs: tuple[str, ...]
    """Means that a task must offer it."""
    mend: str
    """Change to a task that accepts it; empty where the judge is at fault."""
    hole: str
    """Reason why worker mode cannot stop it; else empty."""
    gains_nothing: bool
    """True where its results are right, and it must look no faster than the original kernel."""
    body: str
    """Its part of the source; the part before depends on the task."""

    @property
    def honest(self) -> bool:
        """True for a kernel that does not cheat."""
        return not self.family


def read_head(source: str, *, mark: str = "//") -> dict[str, str]:
    """Return the fields of the head of a source, by name; `mark` begins a comment in its language."""
    head: dict[str, str] = {}
    field = ""
    for line in source.splitlines():
        if not line.startswith(mark):
            break
        text = line.removeprefix(mark)
        if text.startswith("   "):
            head[field] += " " + text.strip()
        else:
            field, _, text = text.partition(":")
            field = field.strip()
            head[field] = text.strip()
    return head


def all_exhibits(language: str = "cpp") -> tuple[Exhibit, ...]:
    """Return a language's harmless kernels and then its cheats, by class, each in the order of their names."""
    order = list(CLASSES)
    return (*_wing("honest", language), *sorted(_wing("cheats", language), key=lambda cheat: order.index(cheat.family)))


def _wing(folder: str, language: str) -> list[Exhibit]:
    paths = sorted((_HERE / folder).iterdir())
    return [_read(path) for path in paths if "".join(path.suffixes) in _SUFFIXES[language]]


def prelude() -> str:
    """Return the helpers between the original kernel and the exhibit."""
    return (_HERE / "prelude.h").read_text(encoding="utf-8")


def _read(path: Path) -> Exhibit:
    source = path.read_text(encoding="utf-8")
    head = read_head(source, mark="//" if path.suffix == ".cpp" else "#")
    return Exhibit(
        name=path.name.partition(".")[0],
        title=head["title"],
        family=head.get("class", ""),
        tries=head.get("tries", ""),
        stops=tuple(Stage(each) for each in _parts(head, "stops", " or ")),
        needs=_parts(head, "needs", ", "),
        mend=head.get("mend", ""),
        hole=head.get("hole", ""),
        gains_nothing=head.get("gains") == "nothing",
        body=source,
    )


def _parts(head: Mapping[str, str], field: str, between: str) -> tuple[str, ...]:
    return tuple(head[field].split(between)) if field in head else ()
