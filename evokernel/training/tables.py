"""Tables of training data for the tools of the field, made of every candidate of a run, whoever or whatever made it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import accumulate, islice
from math import isfinite
from typing import Any

from archive.store import Store
from evokernel.languages import syntax_of
from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Status
from evokernel.records.llm import Message
from evokernel.records.timing import Speedup, combined_speedup
from evokernel.report.rows import CandidateRow, read_judged
from evokernel.report.status import task_name
from evokernel.training.turns import discounted, stored_prompts

TABLES = ("kernels", "sft", "preference", "fixes", "trajectories")
_UNBUILT = (Status.STATIC_REJECT, Status.COMPILE_ERROR, Status.COMPILE_TIMEOUT, Status.LOAD_ERROR)
_REFUSED = (Status.STATIC_REJECT, Status.CHEAT_SUSPECT, Status.IMPOSSIBLE_SPEED)
_BUILT_REWARD = 0.25
STEPS = 16
"""Steps of a trajectory at most: all ways through a lineage of thousands of generations would be gigabytes."""
_FAST_SHARE = 0.5
"""Least share of the speed of the run's fastest right kernel that an answer to `Write a fast kernel` has."""
Row = dict[str, Any]
Messages = tuple[Message, ...]
PromptWriter = Callable[[Store, Sequence[Proposal]], Mapping[int, Messages]]
"""Writes prompts, by step, for proposals that no model was asked for."""


@dataclass(frozen=True, slots=True)
class TableChoice:
    """Filter and form of the tables."""

    form: str = "raw"
    """`raw`: texts; `trl`: lists of messages; `chatml`: texts with the marks of ChatML."""
    min_speedup: float = 0.0
    """Least low end of the interval of a kernel that a row recommends."""
    operators: frozenset[str] = frozenset()
    """Operators of the recommended kernels; any if empty."""
    models: frozenset[str] = frozenset()
    """Models of the recommended kernels; any if empty."""
    holdout_passed: bool = False
    """Only recommended kernels that passed on held-out workloads."""
    min_rationale: int = 0
    """Fewest words of the rationale of a recommended kernel."""
    balance: float | None = None
    """Most wrong kernels for each right one in `kernels`; None for all."""
    discount: float = 0.4
    """Weight of the next step's score in a return, 0 to 1."""
    steps: int = STEPS
    """Most steps of a trajectory, the last ones; 0 for all."""

    def takes(self, each: "JudgedKernel") -> bool:
        """Say whether a row may recommend this kernel."""
        return (
            each.right
            and (each.speedup.low if each.speedup else 0.0) >= self.min_speedup
            and len(each.judged.result.proposal.rationale.split()) >= self.min_rationale
            and (not self.holdout_passed or each.judged.verdicts.holdout.value == "passed")
            and (not self.operators or each.judged.result.proposal.operator in self.operators)
            and (not self.models or each.judged.result.proposal.usage.model in self.models)
        )


@dataclass(frozen=True, slots=True)
class JudgedKernel:
    """A judged candidate and its first parent."""

    judged: CandidateRow
    parent: "JudgedKernel | None" = None
    """None for a seed, and where the parent is not judged in this run."""

    @property
    def source(self) -> str:
        """The text of the candidate."""
        return self.judged.result.proposal.candidate.source

    @property
    def right(self) -> bool:
        """True where it is right in all its evaluations."""
        return self.judged.status is Status.OK

    @property
    def speedup(self) -> Speedup | None:
        """Speed-up over the fastest baselines; None for a wrong kernel."""
        return combined_speedup(self.judged.decisive.timings) if self.right and self.judged.decisive.timings else None

    @property
    def searched(self) -> Speedup | None:
        """Speed-up as measured in the search, which kernels of one run can be compared by; None for a wrong kernel."""
        search = self.judged.verdicts.search
        return combined_speedup(search.timings) if self.right and search else None

    @property
    def gain(self) -> float | None:
        """Speed-up over the parent in the search; None where either was not timed."""
        before = self.parent.searched if self.parent else None
        return self.searched.value / before.value if self.searched and before and before.value else None

    @property
    def beats_parent(self) -> bool:
        """True where its parent is right and slower beyond doubt."""
        return self.parent is not None and self.parent.right and self.beats(self.parent)

    def beats(self, other: "JudgedKernel") -> bool:
        """Say whether it is faster than another beyond doubt: the intervals of the search do not meet."""
        ours, theirs = self.searched, other.searched
        return ours is not None and theirs is not None and ours.low > theirs.high


def read_kernels(store: Store) -> list[JudgedKernel]:
    """Return every judged kernel of a run in the order of seq, without faults of ours and copies of a fork."""
    found: dict[str, JudgedKernel] = {}
    for judged in read_judged(store):
        if judged.status is not Status.HARNESS_ERROR and not judged.result.origin:
            parents = judged.result.proposal.parents
            found[judged.candidate_id] = JudgedKernel(judged, found.get(parents[0]) if parents else None)
    return list(found.values())


def difficulty(store: Store) -> float | None:
    """Return the share of wrong kernels among those that a run's operators made, 0 to 1; None where they made none."""
    with store.database.snapshot():
        made = [each for each in read_kernels(store) if each.judged.result.proposal.operator != "seed"]
    return sum(not each.right for each in made) / len(made) if made else None


def table_rows(store: Store, guide: str, choice: TableChoice, *, write: PromptWriter) -> dict[str, list[Row]]:
    """Return the rows of a run by table.

    Args:
        store: open for reading; read once.
        guide: what a programmer must know of the task, the first part of each prompt that no operator wrote.
        write: writes the prompts of children of rules.
    """
    with store.database.snapshot():
        kernels, place, asked = read_kernels(store), _place(store), stored_prompts(store.calls)
        gained = [each.judged.result.proposal for each in kernels if choice.takes(each) and each.beats_parent]
        asked |= write(store, [proposal for proposal in gained if proposal.step not in asked])
    prompts = _Prompts(guide, place, choice.form)
    rows = {each.judged.candidate_id: kernel_row(each) for each in kernels}
    return {
        "kernels": [{**place, **rows[each.judged.candidate_id]} for each in _balanced(kernels, choice.balance)],
        "sft": list(_sft(kernels, prompts, choice, asked)),
        "preference": list(_preferences(kernels, prompts, choice)),
        "fixes": list(_fixes(kernels, prompts, choice)),
        "trajectories": [{**place, **row} for row in _trajectories(kernels, rows, choice)],
    }


def _place(store: Store) -> Row:
    identity, run = store.identity(), {"run": store.meta("run_id") or ""}
    if identity is None:
        return run | dict.fromkeys(("task", "language", "device"), "")
    return run | {"task": task_name(identity.task), "language": identity.language, "device": identity.device}


def _balanced(kernels: Sequence[JudgedKernel], most: float | None) -> list[JudgedKernel]:
    """Return the kernels with at most so many wrong ones for each right one, the newest of them."""
    wrong = [each for each in kernels if not each.right]
    if most is None:
        return list(kernels)
    kept = wrong[len(wrong) - min(len(wrong), int(most * (len(kernels) - len(wrong)))) :]
    names = {each.judged.candidate_id for each in kept}
    return [each for each in kernels if each.right or each.judged.candidate_id in names]


def kernel_row(each: JudgedKernel) -> Row:
    """Return the row of a kernel, without the run it comes from."""
    proposal, parent = each.judged.result.proposal, each.parent
    speedup = each.speedup
    return {
        "candidate": each.judged.candidate_id,
        "parent": proposal.parents[0] if proposal.parents else None,
        "step": proposal.step,
        "operator": proposal.operator,
        "island": proposal.island,
        "model": proposal.usage.model,
        "rationale": proposal.rationale,
        "source": each.source,
        "diff": _diff(parent.source, each.source) if parent else None,
        "status": each.judged.status.value,
        "stage": each.judged.decisive.stage.value,
        "mode": each.judged.decisive.key.mode.value,
        "holdout": each.judged.verdicts.holdout.value,
        "feedback": each.judged.decisive.feedback,
        "speedup": _number(speedup.value if speedup else None),
        "speedup_low": _number(speedup.low if speedup else None),
        "speedup_high": _number(speedup.high if speedup else None),
        "measured": each.judged.verdicts.kind.value if speedup else None,
        "gain": _number(each.gain),
        "predicted_gain": _number(proposal.predicted_speedup),
        **rewards(each),
    }


def rewards(each: JudgedKernel) -> Row:
    """Return the rewards of a kernel: rule, execution, speed, plan.

    `reward_rule` is 1 unless its text or its behaviour was refused. `reward_execution` is 1 for a right kernel, 0.25
    for one that was built and is wrong, else 0. `reward_speed` is the low end of its speed-up, 0 for a wrong one.
    `reward_plan` is the smaller of predicted and measured gain over the larger; None without a prediction.
    """
    said, gain = each.judged.result.proposal.predicted_speedup, each.gain
    built = each.judged.status not in _UNBUILT
    return {
        "reward_rule": float(each.judged.status not in _REFUSED),
        "reward_execution": 1.0 if each.right else _BUILT_REWARD if built else 0.0,
        "reward_speed": _number(each.speedup.low) or 0.0 if each.speedup else 0.0,
        "reward_plan": min(said, gain) / max(said, gain) if said and gain else None,
    }


class _Prompts:
    """Prompts and answers in the form that was asked for."""

    def __init__(self, guide: str, place: Row, form: str) -> None:
        self._guide, self._place, self._form = guide, place, form

    def fence(self, each: JudgedKernel) -> str:
        """Return a source as a prompt or a reply has it."""
        return f"```{syntax_of(self._place['language'])}\n{each.source.rstrip()}\n```"

    def improve(self, parent: JudgedKernel, why: str = "") -> str:
        """Return the request for a faster kernel, by a plan where there is one."""
        plan = f"\n\nThe plan: {why}" if why else ""
        return f"Make this kernel faster. Reply with the whole source.{plan}\n\n{self.fence(parent)}"

    def row(self, form: str, request: str | Messages, answers: Mapping[str, JudgedKernel], facts: Row) -> Row:
        """Return a row: where it comes from, a prompt, and a column for each answer.

        `request` is what follows the guide, or the whole prompt of an operator. Such a prompt asks for an idea and a
        prediction before the code: the answers have the rationale, and the gain as measured.
        """
        ours = (Message("system", self._guide), Message("user", request)) if isinstance(request, str) else request
        messages = [{"role": each.role, "content": each.text} for each in ours]
        row = {**self._place, "form": form, **facts}
        fenced = {name: self.fence(each) for name, each in answers.items()}
        if not isinstance(request, str):
            fenced = {name: f"{_idea(answers[name])}{text}" for name, text in fenced.items()}
        if self._form == "trl":
            answered = {name: [{"role": "assistant", "content": text}] for name, text in fenced.items()}
            return {**row, "prompt": messages, **answered}
        if self._form == "chatml":
            marked = "".join(_marked(each["role"], each["content"]) for each in messages) + "<|im_start|>assistant\n"
            return {**row, "prompt": marked, **{name: f"{text}<|im_end|>\n" for name, text in fenced.items()}}
        return {**row, "prompt": "\n\n".join(each.text for each in ours), **fenced}


def _marked(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def _idea(each: JudgedKernel) -> str:
    why = _why(each)
    lines = [f"IDEA: {why}"] if why else []
    lines += [f"PREDICTED: {each.gain:.2f}x"] if each.gain else []
    return "\n".join((*lines, "", "")) if lines else ""


def _why(each: JudgedKernel) -> str:
    """Return the rationale in one line, without the name of the operator that stands before it."""
    proposal = each.judged.result.proposal
    return " ".join(proposal.rationale.removeprefix(f"{proposal.operator}: ").split())


def _sft(
    kernels: Sequence[JudgedKernel], prompts: _Prompts, choice: TableChoice, asked: Mapping[int, Messages]
) -> Iterator[Row]:
    """Yield right kernels as answers: to the task, where fast; to their parent, where faster; and to their plan.

    `asked` holds prompts of operators by step.
    """
    fastest = max((_searched_value(each) for each in kernels if each.searched), default=0.0)
    for each in filter(choice.takes, kernels):
        answer, facts = {"completion": each}, _answer_facts(each)
        if each.searched and _searched_value(each) >= _FAST_SHARE * fastest:
            yield prompts.row("reference", "Write a fast kernel. Reply with the whole source.", answer, facts)
        if each.parent is not None and each.beats_parent:
            request = asked.get(each.judged.result.proposal.step) or prompts.improve(each.parent)
            yield prompts.row("edit", request, answer, facts)
            if why := _why(each):
                yield prompts.row("plan", prompts.improve(each.parent, why), answer, facts)


def _preferences(kernels: Sequence[JudgedKernel], prompts: _Prompts, choice: TableChoice) -> Iterator[Row]:
    """Yield pairs of siblings: a right one with the next that is slower beyond doubt, and with a wrong one.

    All are of one run, so of one task and device.
    """
    families: dict[str, tuple[JudgedKernel, list[JudgedKernel]]] = {}
    for each in kernels:
        if each.parent is not None and each.parent.right:
            families.setdefault(each.parent.judged.candidate_id, (each.parent, []))[1].append(each)
    for parent, family in families.values():
        right = sorted((each for each in family if each.searched), key=_searched_value)
        wrong = [each for each in family if not each.right]
        for chosen in filter(choice.takes, right):
            slower = [each for each in right if chosen.beats(each)]
            for rejected in (*slower[-1:], *wrong[-1:]):
                facts = {**_answer_facts(chosen), "rejected_candidate": rejected.judged.candidate_id,
                         "rejected_status": rejected.judged.status.value, "rejected_gain": _number(rejected.gain),
                         "rejected_reward_execution": rewards(rejected)["reward_execution"]}  # fmt: skip
                yield prompts.row("siblings", prompts.improve(parent), {"chosen": chosen, "rejected": rejected}, facts)


def _fixes(kernels: Sequence[JudgedKernel], prompts: _Prompts, choice: TableChoice) -> Iterator[Row]:
    """Yield right kernels whose parent was wrong, as answers to it and what the judge said of it."""
    for each in filter(choice.takes, kernels):
        broken = each.parent
        if broken is not None and not broken.right:
            request = (
                f"This kernel is wrong. Mend it. Reply with the whole source.\n\n{prompts.fence(broken)}\n\n"
                f"The judge says ({broken.judged.status.value}):\n{broken.judged.decisive.feedback}"
            )
            facts = {**_answer_facts(each), "error": broken.judged.status.value}
            yield prompts.row("fix", request, {"completion": each}, facts)


def _trajectories(kernels: Sequence[JudgedKernel], rows: Mapping[str, Row], choice: TableChoice) -> Iterator[Row]:
    """Yield each way from a seed to a kernel without children: two kernels at least, with returns.

    Of a way longer than `choice.steps` only the last ones. `rows` has the row of each kernel: the many ways through it
    share it.
    """
    scores_of = {each.judged.candidate_id: _score(each) for each in kernels}
    parents = {each.parent.judged.candidate_id for each in kernels if each.parent}
    generations: dict[str, int] = {}
    for each in kernels:  # a parent is judged before its children
        before = generations[each.parent.judged.candidate_id] if each.parent else 0
        generations[each.judged.candidate_id] = before + 1
    for leaf in kernels:
        name = leaf.judged.candidate_id
        if name in parents or leaf.parent is None:
            continue
        way = [*islice(_ancestry(leaf), choice.steps or None)][::-1]
        if any(map(choice.takes, way)):
            names = [each.judged.candidate_id for each in way]
            scores = [scores_of[name] for name in names]
            later = [*accumulate(reversed(scores), max)][::-1]
            returns = zip(names, scores, discounted(scores, choice.discount), later, strict=True)
            steps = [
                {**rows[name], "score": score, "return_discounted": value, "return_max": most}
                for name, score, value, most in returns
            ]
            earlier = generations[name] - len(way)
            yield {"candidate": name, "length": len(way), "earlier": earlier, "best": max(scores), "steps": steps}


def _ancestry(each: JudgedKernel | None) -> Iterator[JudgedKernel]:
    """Yield a kernel, its first parent, that one's, up to a seed."""
    while each is not None:
        yield each
        each = each.parent


def _score(each: JudgedKernel) -> float:
    """Return the reward of a step: all steps as measured in the search, so that a winner's parents can be compared."""
    return float(rewards(each)["reward_execution"]) + (_number(each.searched.low) or 0.0 if each.searched else 0.0)


def _searched_value(each: JudgedKernel) -> float:
    return each.searched.value if each.searched else 0.0


def _answer_facts(each: JudgedKernel) -> Row:
    judged = ("candidate", "parent", "mode", "operator", "model", "rationale")
    timed = ("speedup", "speedup_low", "speedup_high", "measured", "gain")
    row = kernel_row(each)
    return {name: row[name] for name in (*judged, *timed, *(name for name in row if name.startswith("reward_")))}


def _diff(before: str, after: str) -> str:
    return "\n".join(unified_diff(before.splitlines(), after.splitlines(), "parent", "child", lineterm=""))


def _number(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
