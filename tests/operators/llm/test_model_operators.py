"""Each operator from end to end with a model that reads from a script: prompt, reply, what becomes of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from evokernel.errors import BudgetSpent, ConfigError, ModelError, ModelsUnavailable
from evokernel.records.candidate import Candidate, Usage
from evokernel.records.llm import CallStatus, InsightKind, ModelRequest, Reply
from evokernel.records.step import Answer, Context, Draft, InsightReply, UnusableReply
from operators.llm.operator import GO_ON, TemplateOperator
from operators.llm.templates import load_templates
from tests.operators.llm.specimen import TILED, cpu, for_operator

TEMPLATES = load_templates()
USAGE = Usage("scripted", 1000, 200, 0.01, 2.0)
WHOLE = TILED.replace("c[i * N + j] = 0.0f", "c[i * N + j] = 0.f")
FILE = f"IDEA: write zeros plainly\nPREDICTED: 1.2x\n\n```cpp\n{WHOLE}```\n"
EDIT = """\
IDEA: larger blocks fit the cache
PREDICTED: 1.3x

<<<<<<< SEARCH
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
=======
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0;
>>>>>>> REPLACE
"""
NOTE = "TITLE: Pack b\nPREDICTED: 1.5x\n\n1. Copy b into panels.\n2. Read panels.\n"


class Script:
    """A model that says what it was given to say, and keeps what it was asked."""

    def __init__(self, *replies: Reply | Exception | str) -> None:
        self.asked: list[ModelRequest] = []
        self._replies = list(replies)

    async def complete(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Reply) else Reply(reply, USAGE)

    def stop_new_calls(self) -> None:
        self._replies = []

    async def close(self) -> None:
        self._replies = []


def context_for(name: str) -> Context:
    settings = TEMPLATES[name].settings
    return for_operator(cpu(), name, parents=settings.parents, wants=frozenset(settings.wants))


def ask(
    name: str, *replies: Reply | Exception | str, context: Context | None = None
) -> tuple[Answer | None, Sequence[ModelRequest]]:
    model = Script(*replies)
    answer = asyncio.run(TemplateOperator(TEMPLATES[name], model).propose(context or context_for(name)))
    return answer, model.asked


def draft(name: str, reply: str) -> Draft:
    answer, _ = ask(name, reply)
    assert isinstance(answer, Draft), answer
    return answer


@pytest.mark.parametrize("name", ["mutate", "refine", "crossover", "implement", "contrast"])
def test_operators_on_kernels_make_a_candidate_with_its_lineage(name: str) -> None:
    context = context_for(name)
    answer, asked = ask(name, EDIT if name != "contrast" else FILE)
    assert isinstance(answer, Draft)
    assert answer.usage == USAGE
    assert answer.rationale.startswith(f"{name}: ")
    assert answer.predicted_speedup == (1.3 if name != "contrast" else 1.2)
    assert sorted(answer.parents) == sorted(elite.candidate.id for elite in context.parents)
    assert answer.insights == ((50, 22, 27, 31) if name == "implement" else (50, 22, 27))
    (request,) = asked
    assert request.role == "code"
    assert request.ordinal == 0
    assert request.origin == context.selection.origin
    assert request.temperature == TEMPLATES[name].settings.temperature
    assert request.messages == TemplateOperator(TEMPLATES[name]).prompt(context).messages


def test_edits_apply_to_the_first_parent() -> None:
    first = context_for("mutate").parents[0].candidate
    assert draft("mutate", EDIT).source == first.source.replace("= 0.0f;", "= 0;")
    assert draft("mutate", EDIT).rationale == "mutate: larger blocks fit the cache"


def test_a_contrast_changes_the_fastest_kernel_which_is_its_first_parent() -> None:
    ladder = context_for("contrast").parents
    assert ladder[0].fitness.value < ladder[-1].fitness.value
    answer = draft("contrast", EDIT)
    assert answer.parents[0] == ladder[-1].candidate.id
    assert answer.source == ladder[-1].candidate.source.replace("= 0.0f;", "= 0;")


def test_a_ladder_may_be_shorter_than_asked_for_but_not_one_kernel() -> None:
    context = context_for("contrast")
    two, one = replace(context, parents=context.parents[1:]), replace(context, parents=context.parents[2:])
    assert isinstance(ask("contrast", FILE, context=two)[0], Draft)
    assert ask("contrast", FILE, context=one) == (None, [])


def test_a_draft_has_no_parents_and_predicts_nothing() -> None:
    answer = draft("draft", FILE)
    assert (answer.parents, answer.predicted_speedup) == ((), None)
    assert answer.source == WHOLE
    assert answer.inspirations == ()  # from the reference alone


def test_what_was_shown_for_ideas_is_in_the_lineage() -> None:
    shown = tuple(each.candidate.id for each in cpu().inspirations)
    assert draft("mutate", EDIT).inspirations == shown
    assert draft("repair", EDIT).inspirations == ()


def test_a_repair_comes_from_the_broken_kernel() -> None:
    context = context_for("repair")
    assert context.broken is not None
    answer = draft("repair", EDIT)
    assert answer.parents == (context.broken.candidate.id,)
    assert answer.source == context.broken.candidate.source.replace("= 0.0f;", "= 0;")
    assert answer.predicted_speedup is None
    assert ask("repair", EDIT, context=replace(context, broken=None)) == (None, [])


def test_a_port_names_the_kernel_it_came_from() -> None:
    foreign = cpu().foreign[0]
    assert draft("port", FILE).rationale == f"port: from triton {foreign.id}: write zeros plainly"
    assert ask("port", FILE, context=replace(context_for("port"), foreign=())) == (None, [])


def test_a_kernel_is_simpler_only_where_it_is_shorter() -> None:
    shorter = TILED.replace("    for (int64_t i = 0; i < M; ++i)\n        for (int64_t j", "    for (int64_t j", 1)
    assert draft("simplify", f"IDEA: one loop\n```cpp\n{shorter}```").source == shorter
    longer = ask("simplify", f"IDEA: x\n```cpp\n{TILED}// more words\n```")[0]
    assert isinstance(longer, UnusableReply)
    assert "did not become simpler" in longer.reason


def test_exposing_must_give_a_new_tunable() -> None:
    tunable = EDIT.replace(
        "        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0;", "        constexpr int U = 4;  // tune: 2 4 8"
    )
    assert "U = 4" in draft("expose", tunable).source
    for reply, why in [(EDIT, "no number became a tunable"), (tunable.replace("U = 4", "BLOCK = 4"), "declared twice")]:
        answer = ask("expose", reply)[0]
        assert isinstance(answer, UnusableReply)
        assert why in answer.reason


@pytest.mark.parametrize(
    ("name", "kind", "sources"),
    [
        ("plan", InsightKind.STRATEGY, (31, 44)),
        ("diagnose", InsightKind.DIAGNOSIS, (50, 22, 27)),
        ("reflect", InsightKind.LESSON, (50, 22, 27)),
    ],
)
def test_operators_that_think_leave_words(name: str, kind: InsightKind, sources: tuple[int, ...]) -> None:
    context = context_for(name)
    answer, asked = ask(name, NOTE)
    assert isinstance(answer, InsightReply)
    assert asked[0].role == "think"
    insight = answer.insight
    assert (insight.kind, insight.title, insight.text) == (kind, "Pack b", "1. Copy b into panels.\n2. Read panels.")
    lesson = kind is InsightKind.LESSON
    assert insight.predicted_speedup == (None if lesson else 1.5)
    assert insight.candidate == ("" if lesson else context.parents[0].candidate.id)
    assert insight.sources == sources
    assert answer.usage == USAGE


def test_nothing_is_asked_where_something_is_missing() -> None:
    context = context_for("implement")
    assert ask("implement", EDIT, context=replace(context, insights=())) == (None, [])
    assert ask("mutate", EDIT, context=replace(context_for("mutate"), parents=())) == (None, [])


def test_a_kernel_that_is_known_is_no_proposal() -> None:
    context = context_for("mutate")
    answer = ask("mutate", f"```cpp\n{context.inspirations[0].candidate.source}```")[0]
    assert isinstance(answer, UnusableReply)
    assert "which was shown to the model" in answer.reason
    made = draft("mutate", EDIT)
    from_before = replace(context, known=frozenset({_id(made.source)}))
    again = ask("mutate", EDIT, context=from_before)[0]
    assert isinstance(again, UnusableReply)
    assert "which was tried before" in again.reason
    assert again.usage == USAGE


def _id(source: str) -> str:
    return Candidate(source, "cpp").id


# ------------------------------------------------------------------------------------------------- replies cut off


def cut(text: str) -> Reply:
    return Reply(text, replace(USAGE, model="first"), CallStatus.TRUNCATED)


def test_a_reply_that_was_cut_off_is_continued_once_and_paid_for_twice() -> None:
    middle = len(FILE) // 2
    answer, asked = ask("mutate", cut(FILE[:middle]), FILE[middle:])
    assert isinstance(answer, Draft)
    assert answer.source == WHOLE
    assert answer.usage == Usage("first", 2000, 400, 0.02, 4.0)
    assert [request.ordinal for request in asked] == [0, 1]
    said = asked[1].messages
    assert said[:2] == asked[0].messages
    assert [(message.role, message.text) for message in said[2:]] == [("assistant", FILE[:middle]), ("user", GO_ON)]


def test_a_reply_that_is_cut_off_twice_counts_where_its_code_is_whole() -> None:
    answer, asked = ask("mutate", cut(FILE[:200]), cut(FILE[200:] + "\nThis is faster bec"))
    assert isinstance(answer, Draft)
    assert len(asked) == 2
    lost = ask("mutate", cut(FILE[:200]), cut(FILE[200:300]))[0]
    assert isinstance(lost, UnusableReply)
    assert "cut off twice" in lost.reason


# ----------------------------------------------------------------------------------------- models that do not answer


def test_a_call_that_fails_for_good_is_an_unusable_step() -> None:
    assert ask("mutate", ModelError("400: too long"))[0] == UnusableReply("no usable reply: 400: too long")
    later = ask("mutate", cut(FILE[:100]), ModelError("gone"))[0]
    assert isinstance(later, UnusableReply)
    assert later.usage.cost_usd == 0.01


@pytest.mark.parametrize("error", [BudgetSpent("spent"), ModelsUnavailable("out", final=True)])
def test_what_concerns_the_whole_search_is_passed_on(error: Exception) -> None:
    with pytest.raises(type(error)):
        ask("mutate", error)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply("", USAGE, CallStatus.EMPTY), "empty"),
        (Reply("", USAGE, CallStatus.REFUSED), "the model declines: it gives no reason"),
        (Reply("No.", USAGE, CallStatus.REFUSED), "the model declines: No."),
        ("I'm sorry, I can't do that.", "the model declines"),
        ("```cpp\nint main() {}\n```", "no kernel for this task"),
    ],
)
def test_replies_of_no_use_are_told_with_what_they_cost(reply: Reply | str, why: str) -> None:
    answer = ask("mutate", reply)[0]
    assert isinstance(answer, UnusableReply)
    assert why in answer.reason
    assert answer.usage == USAGE


def test_without_a_model_prompts_are_made_and_replies_read_and_nobody_can_be_asked() -> None:
    context, mutate = context_for("mutate"), TemplateOperator(TEMPLATES["mutate"])
    prompt = mutate.prompt(context)
    assert prompt.messages
    assert isinstance(mutate.read(EDIT, prompt), Draft)
    with pytest.raises(ConfigError, match="asks a model, and there is none"):
        asyncio.run(mutate.propose(context))


class RenderedGuide(str):
    """The guide of a language, which counts how often a prompt is made of it."""

    renders = 0

    def strip(self, chars: str | None = None, /) -> str:
        self.renders += 1
        return super().strip(chars)


@pytest.mark.parametrize(("name", "reply"), [("mutate", EDIT), ("plan", NOTE), ("mutate", "no kernel")])
def test_reading_a_reply_renders_nothing_again(name: str, reply: str) -> None:
    guide = RenderedGuide("Write one function.")
    context, operator = replace(context_for(name), guide=guide), TemplateOperator(TEMPLATES[name])
    prompt = operator.prompt(context)
    once = guide.renders
    answer = operator.read(reply, prompt)
    assert once > 0
    assert guide.renders == once
    asked, _ = ask(name, reply, context=context)
    assert guide.renders == 2 * once
    assert asked == replace(answer, usage=USAGE)


def test_without_a_selection_the_step_is_named_by_the_context() -> None:
    context = replace(context_for("mutate"), selection=None)
    _, asked = ask("mutate", EDIT, context=context)
    assert (asked[0].origin.step, asked[0].origin.operator) == (57, "mutate")
    assert asked[0].origin.parents == (context.parents[0].candidate.id,)


@pytest.mark.parametrize("name", ["mutate", "repair"])
def test_protected_text_is_told_and_a_reply_that_changes_it_is_refused(name: str) -> None:
    def guarded(candidate: Candidate) -> Candidate:
        start = candidate.source.index('extern "C"')
        source = candidate.source[:start] + "// EVOLVE-BLOCK-START\n" + candidate.source[start:]
        return Candidate(source, candidate.language)

    context = context_for(name)
    context = replace(
        context,
        parents=tuple(replace(each, candidate=guarded(each.candidate)) for each in context.parents),
        broken=replace(context.broken, candidate=guarded(context.broken.candidate)) if context.broken else None,
    )
    base = context.broken.candidate if context.broken else context.parents[0].candidate
    inside = base.source.replace("k0 = 0", "k0 = 0 + 0")
    answer, asked = ask(name, f"IDEA: a\n\n```cpp\n{inside}```\n", context=context)
    assert isinstance(answer, Draft)
    assert "Only lines between EVOLVE-BLOCK-START and EVOLVE-BLOCK-END" in asked[0].messages[1].text
    refused, _ = ask(name, f"IDEA: a\n\n```cpp\n{inside.replace('BLOCK = 64', 'BLOCK = 32')}```\n", context=context)
    assert isinstance(refused, UnusableReply)
    assert "outside of the EVOLVE blocks: constexpr int64_t BLOCK" in refused.reason
    _, plain = ask(name, FILE)
    assert "EVOLVE-BLOCK" not in plain[0].messages[1].text
