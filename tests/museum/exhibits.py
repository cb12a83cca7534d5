"""The exhibits of the museum: kernels with a head that says what they are and what must become of them.

Heads are read as those of `evokernel.self_test` are; a comment begins with `//` in C++ and with `#` in Python. Fields
of a cheat:

    title, task (a file in `tasks/`), class, tries, seen (who saw it first)
    worker      the verdict in worker mode; in C++, which knows no other mode, it is called `verdict`
    artifact    the verdict in artifact mode; in Triton and CUDA C++ this one is always there

and of an honest kernel `title` and `task`, and `bits: differ from run to run` where it is nondeterministic. A verdict
is `STATUS at STAGE`, more of them with ` or ` between, in the words of `records.evaluation`. There `numerical` stands
for `nonfinite`, too, since which of them a wrong answer gets may hang on the contents that were drawn and on what lay
in memory. `hole: WHY` marks a cheat that cannot be stopped where
its verdict is `ok`, `hole in worker: WHY` one that cannot be stopped in worker mode. `gains: nothing over NAME` marks
one whose results are right and that looks no faster than the honest kernel NAME. `threads: N` lets it have N threads.
`cpu: no, WHY` keeps a kernel for a GPU from being run on a processor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evokernel.config.run import language_of
from evokernel.records.evaluation import Mode, Stage, Status
from evokernel.self_test.exhibits import CLASSES as SELF_TEST_CLASSES
from evokernel.self_test.exhibits import read_head

HERE = Path(__file__).parent
CHEATS, HONEST, TASKS = HERE / "cheats", HERE / "honest", HERE / "tasks"
CLASSES: Mapping[str, str] = {
    **SELF_TEST_CLASSES,
    "recording": "another behaviour, or another call, where launches are only written down",
    "building": "attacks on what compiles, keeps and reads what was compiled",
    "words": "texts that others read: names, messages, comments",
}
"""What cheats have in common, by class."""
GAIN = 1.05
"""How much faster than an honest kernel of the same loops an accepted cheat may look before it gains something."""
_MARKS = {"cpp": "//", "triton": "#", "cuda": "#"}


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One kernel: its file, its language, its head, its source."""

    path: Path
    language: str
    head: Mapping[str, str]
    source: str

    @property
    def name(self) -> str:
        return self.path.name.partition(".")[0]

    @property
    def label(self) -> str:
        """The name with its language: no other exhibit of its wing has it."""
        return f"{self.language}/{self.name}"

    @property
    def task(self) -> str:
        return str(TASKS / f"{self.head['task']}.py")

    @property
    def threads(self) -> int:
        return int(self.head.get("threads", 1))

    @property
    def nondeterministic(self) -> bool:
        """Whether an honest kernel's bits differ from run to run."""
        return "bits" in self.head

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes in which a cheat is judged."""
        return tuple(mode for mode in (Mode.ARTIFACT, Mode.WORKER) if self._field(mode) in self.head)

    def verdicts(self, mode: Mode = Mode.WORKER) -> tuple[tuple[Status, Stage], ...]:
        """What may become of it in a mode."""
        pairs = (each.split(" at ") for each in self.head[self._field(mode)].split(" or "))
        return tuple((Status(status.strip()), Stage(stage.strip())) for status, stage in pairs)

    def foresees(self, status: Status, stage: Stage, mode: Mode = Mode.WORKER) -> bool:
        """Whether a verdict in a mode is one that the head names."""
        told = Status.NUMERICAL if status is Status.NONFINITE else status
        return not {(status, stage), (told, stage)}.isdisjoint(self.verdicts(mode))

    def rightly_judged(self, status: Status, stage: Stage) -> bool:
        """Whether a verdict in worker mode is one that a cheat's head names, or accepts an honest kernel."""
        return self.foresees(status, stage) if "class" in self.head else status is Status.OK

    @property
    def model(self) -> str:
        """The honest kernel over which it must gain nothing."""
        return self.head["gains"].removeprefix("nothing over ")

    def hole_in(self, mode: Mode) -> str:
        """Why it cannot be stopped in a mode; empty for one that is."""
        return self.head.get("hole", "") or self.head.get(f"hole in {mode.value}", "")

    def accepted_in(self, mode: Mode) -> bool:
        """Whether a cheat is right, and may be found so, in a mode."""
        return Status.OK in {status for status, _ in self.verdicts(mode)}

    def _field(self, mode: Mode) -> str:
        return "verdict" if self.language == "cpp" and mode is Mode.WORKER else mode.value


def read_exhibits(folder: Path) -> list[Exhibit]:
    """Return the exhibits of a wing in the order of their names."""
    return [_read(path) for path in sorted(folder.iterdir()) if path.is_file()]


def _read(path: Path) -> Exhibit:
    language = language_of(path)
    assert language is not None, path
    source = path.read_text(encoding="utf-8")
    return Exhibit(path, language, read_head(source, mark=_MARKS[language]), source)


def refuse_incomplete(cheat: Exhibit) -> None:
    """Raise `AssertionError` where the head of a cheat lacks something, or says what cannot be."""
    assert {"title", "task", "class", "tries", "seen"} <= cheat.head.keys(), cheat.label
    assert cheat.modes, cheat.label
    assert cheat.head["class"] in CLASSES, cheat.label
    assert Path(cheat.task).is_file(), cheat.label
    accepted = [mode for mode in cheat.modes if cheat.accepted_in(mode)]
    assert all(cheat.hole_in(mode) or "gains" in cheat.head for mode in accepted), cheat.label
    assert accepted or not ({"hole", "gains"} & cheat.head.keys()), cheat.label


def due_without_gpu(cheat: Exhibit, mode: Mode) -> bool:
    """Whether a cheat for a GPU must be stopped before there is one: by its text, its build, or the check of plans."""
    early = [
        stage in (Stage.STATIC, Stage.COMPILE) or status is Status.LOAD_ERROR for status, stage in cheat.verdicts(mode)
    ]
    assert all(early) or not any(early), cheat.label
    return all(early)


def wrong_on_processor(cheat: Exhibit) -> bool:
    """Whether a cheat for a GPU must give wrong answers where it is run without one, too."""
    wrong = (Status.NUMERICAL, Status.UNWRITTEN_OUTPUT, Status.NONFINITE)
    return "cpu" not in cheat.head and all(status in wrong for status, _ in cheat.verdicts(Mode.ARTIFACT))
