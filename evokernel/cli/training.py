"""Options `--training` and `--check` of `evokernel export`: rows to learn from, and their check."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

from archive.store import Store
from evokernel.cli.completion import complete_operators, complete_tasks
from evokernel.cli.display.tables import put, sheet
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, WARN, clean, say, stderr, stdout
from evokernel.cli.locate import open_store
from evokernel.cli.options import PATH, number
from evokernel.errors import EvokernelError
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Fidelity, Status
from evokernel.records.llm import Message
from evokernel.report.effort import model_rows, operator_rows

if TYPE_CHECKING:
    from evokernel.evaluate.client.judge_process import JudgeHosts

F = TypeVar("F", bound=Callable[..., Any])
_MOST_SHOWN = 20
_CUT = "trajectories that are longer than {1} steps and hold only their last ones: {0}; --steps 0 keeps all"
_MANY_PROMPTS = 50
"""Prompts that are written within two seconds."""
FORMATS = ("raw", "trl", "chatml")
_SHARED = ("min_speedup", "operators", "models", "holdout_passed", "discount")
"""Filters that hold for replies and tables alike."""

_OPTIONS = (
    click.option(
        "--training",
        type=PATH,
        metavar="DIR",
        help="Write what one or more runs can teach as training data instead: a folder for each table.",
    ),
    click.option(
        "--check",
        type=PATH,
        metavar="FILE",
        help="Check the rows of such a file against the stores they come from.",
    ),
    click.option(
        "--min-speedup", type=number(0), default=0.0, metavar="X",
        help="With --training: only kernels that are at least so fast, by the low end of the interval.",
    ),
    click.option(
        "--operator", "operators", multiple=True, metavar="NAME", shell_complete=complete_operators,
        help="With --training: only replies for it.",
    ),
    click.option("--model", "models", multiple=True, metavar="NAME", help="With --training: only replies of it."),
    click.option("--holdout-passed", is_flag=True, help="With --training: only kernels right on held-out workloads."),
    click.option(
        "--format", "form", type=click.Choice(FORMATS), default="raw", show_default=True,
        help="With --training: the form of prompts and answers.",
    ),
    click.option("--parquet", is_flag=True, help="With --training: tables as Parquet, not JSONL (needs pyarrow)."),
    click.option(
        "--test-task", "test_tasks", multiple=True, metavar="TASK", shell_complete=complete_tasks,
        help="With --training: rows of this task go to the split test.",
    ),
    click.option(
        "--min-rationale", type=click.IntRange(0), default=0, metavar="N",
        help="With --training: only kernels whose rationale has N words or more, in the tables.",
    ),
    click.option(
        "--difficulty", type=number(0, 1), nargs=2, metavar="LOW HIGH",
        help="With --training: only runs so difficult: the share of wrong kernels among those that operators made.",
    ),
    click.option(
        "--balance", type=number(0), metavar="N",
        help="With --training: at most N wrong kernels for each right one in the table kernels.",
    ),
    click.option(
        "--steps", type=click.IntRange(0), default=16, show_default=True, metavar="N",
        help="With --training: only the last N steps of a longer trajectory in the tables; 0 keeps all.",
    ),
    click.option(
        "--sample", type=click.IntRange(0), default=0, metavar="N",
        help="With --check of a table: judge the kernels of N rows anew.",
    ),
    click.option(
        "--discount", type=number(0, 1), default=0.4, show_default=True, metavar="G",
        help="With --training: the weight of the next turn's score in a return.",
    ),
)  # fmt: skip


def training_options(command: F) -> F:
    """Add the options above to a command, which takes them as keywords."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def export_training(folder: Path, places: Sequence[Path | None], asked: dict[str, Any]) -> None:
    """Write training data of some runs and say what there is."""
    limits: tuple[float, float] | None = asked["difficulty"]
    if limits and limits[0] > limits[1]:
        raise click.UsageError(f"--difficulty takes the lower bound first: {limits[1]:g} {limits[0]:g}")
    say("reading the runs")
    from evokernel.cli.task_guide import task_guide
    from evokernel.training.dataset import write_dataset
    from evokernel.training.rows import KINDS, ReplyChoice
    from evokernel.training.tables import TableChoice

    choice = ReplyChoice(
        min_speedup=asked["min_speedup"],
        operators=frozenset(asked["operators"]),
        models=frozenset(asked["models"]),
        holdout_passed=asked["holdout_passed"],
        discount=asked["discount"],
    )
    with ExitStack() as stack:
        stores = _opened(places, stack)
        for stranger in _strangers(stores, operators=asked["operators"], models=asked["models"]):
            stderr().print(Text(f"warning: {clean(stranger)}", style=WARN))
        tables = TableChoice(
            form=asked["form"],
            balance=asked["balance"],
            min_rationale=asked["min_rationale"],
            steps=asked["steps"],
            **{name: getattr(choice, name) for name in _SHARED},
        )
        made = write_dataset(
            folder, stores, choice,
            tables=tables, guide=task_guide, write=_rule_prompts, test_tasks=asked["test_tasks"],
            parquet=asked["parquet"], difficulties=limits, notify=say,
        )  # fmt: skip
    put(
        stdout(),
        Text.assemble(("written ", GOOD), clean(str(made.folder))),
        sheet(
            {
                f"{kind}.jsonl" if kind in KINDS else kind: f"{count} row{'' if count == 1 else 's'}"
                for kind, count in made.rows.items()
            }
        ),
        Text(f"no rows, so left out: {', '.join(made.empty)}", style=DIM) if made.empty else None,
        Text(_CUT.format(made.cut, tables.steps), style=WARN) if made.cut else None,
    )


def _strangers(stores: Sequence[Store], **asked: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each filter by `operators` or `models` that nothing in the runs can pass."""
    for kind, names in asked.items():
        rows = (operator_rows(each, Counter()) if kind == "operators" else model_rows(each) for each in stores)
        known = {row.name for found in rows for row in found} if names else set()
        if names and not known & {*names}:
            there = f"there are {', '.join(sorted(known))}" if known else "they have none"
            yield f"no run has the {kind.removesuffix('s')} {' or '.join(names)}, so most tables are empty; {there}"


def _rule_prompts(store: Store, proposals: Sequence[Proposal]) -> Mapping[int, tuple[Message, ...]]:
    """Return prompts for children of rules by step; none where the task or the tool chain of the run is not here."""
    from evokernel.offline.rule_prompts import rule_prompts

    if len(proposals) > _MANY_PROMPTS:
        say(f"{store.database.path.name}: writing prompts for {len(proposals)} kernels of rules")
    try:
        return rule_prompts(store, proposals)
    except (EvokernelError, KeyError, OSError):
        return {}


def check_training(file: Path, places: Sequence[Path | None], *, sample: int) -> bool:
    """Say what is wrong with training data; return whether it is sound. `sample` rows of a table are judged anew."""
    from evokernel.evaluate.client.judge_process import JudgeHosts
    from evokernel.training.checking import check_file
    from evokernel.training.table_check import check_table, is_table

    with ExitStack() as stack:
        stores = _opened(places, stack)
        say(f"comparing {clean(file.name)} with {sum(store.last_seq() for store in stores)} facts")
        if is_table(file):
            with JudgeHosts() as hosts:
                checked = check_table(file, stores, sample=sample, judge=partial(_judged_anew, hosts))
        elif sample:
            raise click.UsageError("--sample goes with --check of a table, such as kernels/train.jsonl")
        else:
            checked = check_file(file, stores)
    for complaint in checked.complaints[:_MOST_SHOWN]:
        stdout().print(Text.assemble((f"line {complaint.line} ", BAD), clean(complaint.reason)))
    wrong = len({complaint.line for complaint in checked.complaints})
    verdict = (f"{wrong} of {checked.rows} rows are not sound", BAD) if wrong else (f"{checked.rows} rows, sound", GOOD)
    stdout().print(Text.assemble((clean(file.name), STRONG), ": ", verdict))
    return not wrong


def _judged_anew(hosts: "JudgeHosts", candidate: Candidate, store: Store) -> Status:
    """Judge a kernel as the run of a store did, at fidelity `quick`. Raises `EvokernelError` where that cannot be."""
    import yaml

    from evokernel.config.load import parse_config
    from evokernel.config.run import DEVICE_OF
    from evokernel.evaluate.client.evaluate_kernel import judge

    stderr().print(f"judging {candidate.id} anew")
    config = parse_config(yaml.safe_load(store.meta("config") or "") or {}, "the config in the store")
    return judge(
        candidate,
        config.task,
        budgets=(Fidelity.QUICK,),
        settings=config.evaluation,
        threads=config.threads,
        start=hosts.of(DEVICE_OF[candidate.language]),
    ).last.status


def _opened(places: Sequence[Path | None], stack: ExitStack) -> list[Store]:
    return [stack.enter_context(open_store(place)) for place in places]
