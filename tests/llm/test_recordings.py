import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.errors import ConfigError, ModelError, ModelsUnavailable
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.ensemble import ModelEnsemble
from evokernel.llm.recordings import RecordedTransport, ReplyRecording, write_recording
from evokernel.llm.transport import FREE
from evokernel.records.candidate import Usage
from evokernel.records.llm import CallStatus, Message, ModelCallResult, ModelRequest, Reply, StoredCall
from evokernel.testing.call_log import MemoryLog
from evokernel.testing.scripted import ScriptedTransport
from tests.llm.making import Time, model, request


def script(asked: ModelRequest) -> Reply:
    text = f"line one\nstep {asked.origin.step} \u2028 call {asked.ordinal}"
    status = CallStatus.TRUNCATED if asked.origin.step == 2 else CallStatus.OK
    return Reply(text, Usage("real-model", 100, 50, 0.25), status)


def campaign(*requests: ModelRequest) -> tuple[StoredCall, ...]:
    """What a run with a scripted model left in its record."""

    async def scenario() -> None:
        for each in requests:
            await scripted.complete(each)

    log = MemoryLog()
    scripted = ScriptedTransport(script, log=log)
    asyncio.run(scenario())
    return log.calls


def play(path: Path, *requests: ModelRequest) -> tuple[list[Reply], list[str], MemoryLog]:
    told: list[str] = []
    log = MemoryLog()

    async def scenario() -> list[Reply]:
        player = RecordedTransport(ReplyRecording.load(path), name="model demo", notify=told.append)
        seat = ConfiguredModel.of(model("demo", model="", replay=str(path)), player, price=FREE, clock=Time())
        models = ModelEnsemble([seat], log=log)
        try:
            return [await models.complete(each) for each in requests]
        finally:
            await models.close()

    return asyncio.run(scenario()), told, log


def test_a_recording_gives_back_what_was_said_and_costs_nothing(tmp_path: Path) -> None:
    asked = (request(1), request(2), request(2, ordinal=1), request(2, role="think", ordinal=2))
    assert write_recording(tmp_path / "demo.jsonl", campaign(*asked)) == 4
    replies, told, log = play(tmp_path / "demo.jsonl", *asked)
    assert [(each.text, each.status) for each in replies] == [
        (said.text, said.status) for said in (script(each) for each in asked)
    ]
    assert replace(replies[0].usage, duration_s=0.0) == Usage("real-model", 100, 50, 0.0)
    assert told == []
    assert (log.spending().tokens, log.spending().cost_usd) == (600, 0.0)


def test_prompts_that_drifted_are_answered_and_told(tmp_path: Path) -> None:
    write_recording(tmp_path / "demo.jsonl", campaign(request(1), request(2), request(3)))
    replies, told, _ = play(tmp_path / "demo.jsonl", request(1), request(2, text="new words"), request(3, text="newer"))
    assert "step 3" in replies[2].text
    assert told == ["model demo: 2 of 3 prompts differ from the recorded ones, at steps 2, 3"]


def test_a_step_that_was_not_recorded_fails_alone(tmp_path: Path) -> None:
    write_recording(tmp_path / "demo.jsonl", campaign(request(1)))
    for missing in (request(2), request(1, ordinal=1), request(1, role="think")):
        with pytest.raises(ModelError, match=f"no reply for step {missing.origin.step}, role {missing.role}") as caught:
            play(tmp_path / "demo.jsonl", missing)
        assert not isinstance(caught.value, ModelsUnavailable)


def test_failed_and_open_calls_are_left_out_and_the_newest_reply_of_a_place_counts(tmp_path: Path) -> None:
    (first,) = campaign(request(1))
    assert first.result is not None
    failed = StoredCall(1, first.call, ModelCallResult(CallStatus.FAILED, "500", Usage()))
    newer = StoredCall(2, first.call, replace(first.result, text="newer"))
    still = StoredCall(3, first.call, None)
    path = tmp_path / "demo.jsonl"
    assert write_recording(path, [still, newer, failed, first]) == 1
    found = ReplyRecording.load(path).at((1, "code", 0))
    assert found is not None
    assert found.text == "newer"


HEAD = '{"format": "evokernel-recording", "version": 1}\n'
GOOD = '{"step": 1, "role": "code", "sample": 0, "prompt": "p", "model": "m", "text": "t"}\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: expected a JSON object"),
        ("not json\n", "line 1: expected a JSON object"),
        ('{"step": 1}\n', "is not a recording"),
        ('{"format": "evokernel-recording", "version": 2}\n', "version 2 cannot be read"),
        (HEAD + GOOD + "[1]\n", "line 3: expected a JSON object"),
        (HEAD + '{"step": 1}\n', "line 2: .*missing"),
        (HEAD + GOOD.replace('"step": 1', '"step": "1"'), "line 2: step should be a whole number"),
        (HEAD + GOOD.replace('"text": "t"', '"text": null'), "line 2: text should be text"),
        (HEAD + GOOD.replace("}", ', "status": "odd"}'), "line 2: .*odd"),
        (HEAD + GOOD.replace("}", ', "colour": "red"}'), "line 2: .*colour"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_the_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "demo.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        ReplyRecording.load(path)


def test_a_line_with_the_least_is_enough_and_a_missing_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "demo.jsonl"
    path.write_text(HEAD + GOOD + "\n")
    assert len(ReplyRecording.load(path)) == 1
    with pytest.raises(ConfigError, match="cannot read the recording"):
        ReplyRecording.load(tmp_path / "missing.jsonl")
    with pytest.raises(ConfigError, match="cannot write the recording"):
        write_recording(path / "is_no_folder.jsonl", campaign(request(1)))


def test_the_hash_of_a_prompt_hangs_on_every_word_and_role(tmp_path: Path) -> None:
    asked = request(1)
    write_recording(tmp_path / "demo.jsonl", campaign(asked))
    other = replace(asked, messages=(Message("system", asked.messages[0].text),))
    assert len(play(tmp_path / "demo.jsonl", other)[1]) == 1
    assert play(tmp_path / "demo.jsonl", replace(asked, temperature=1.0))[1] == []
