"""The exhibits: kernels that cheat and kernels that do not, each with a head that says what must become of it.

A head is the comment at the top of a file, one `// field: text` a line; a line that begins with `//   ` goes on with
the field before it. Fields of a cheat are

    title, class, tries
    stops   the stages that must stop it, with ` or ` between
    needs   what there must be for it, with `, ` between; see `attack`
    mend    what to change in a task that accepts it, where that is the task's fault

and of a harmless kernel `title`. In place of `stops` there may be `hole: WHY`, for what worker mode cannot stop, or
`gains: nothing`, for one whose results are right and that must look no faster than the kernel it is made from.
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
"""What cheats have in common, by class."""
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One kernel that is made for a task: what it tries, and what must become of it.

    `stops` are the stages that must stop it, where the task has what it `needs`; `mend` says what to change in a task
    that accepts it; a `hole` why worker mode cannot stop it. One that `gains_nothing` is right, and must only look no
    faster than the kernel it is made from. `body` is its part of the source; what comes before depends on the task.
    """

    name: str
    title: str
    family: str
    tries: str
    stops: tuple[Stage, ...]
    needs: tuple[str, ...]
    mend: str
    hole: str
    gains_nothing: bool
    body: str

    @property
    def honest(self) -> bool:
        """Whether it does not cheat."""
        return not self.family


def read_head(source: str, *, mark: str = "//") -> dict[str, str]:
    """Return the fields of the head of a source, by name; `mark` is what its language begins a comment with."""
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


def all_exhibits() -> tuple[Exhibit, ...]:
    """Return the harmless kernels and then the cheats, by class, each in the order of their names."""
    harmless = [_read(path) for path in sorted((_HERE / "honest").glob("*.cpp"))]
    cheats = [_read(path) for path in sorted((_HERE / "cheats").glob("*.cpp"))]
    order = list(CLASSES)
    return (*harmless, *sorted(cheats, key=lambda cheat: order.index(cheat.family)))


def prelude() -> str:
    """Return what stands between the kernel an exhibit is made from and the exhibit itself."""
    return (_HERE / "prelude.h").read_text(encoding="utf-8")


def _read(path: Path) -> Exhibit:
    source = path.read_text(encoding="utf-8")
    head = read_head(source)
    return Exhibit(
        name=path.stem,
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
