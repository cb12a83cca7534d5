"""watch: what it finds at a path, whatever becomes of the file and the search there."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.store import Store, set_aside
from evokernel.cli.display.following import StoreFollower, StoreLook
from tests.cli.conftest import Call
from tests.cli.watching import DEADLINE_S, ROOT, Watching
from tests.crash_safety.processes import old_store
from tests.support.stores import StoreBuilder, fill_store


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def hand() -> Hand:
    return Hand()


def said(look: StoreLook) -> list[str]:
    return [note.text for note in look.notes]


def test_a_run_from_before_it_begins_to_after_it_ends(tmp_path: Path, hand: Hand) -> None:
    path = tmp_path / "a.db"
    following = StoreFollower(path, clock=hand)
    assert following.look().state == "missing"
    with StoreBuilder(path) as builder:
        look = following.look()
        assert (look.state, said(look), look.seen) == ("running", ["the search is at work"], ())
        seed = builder.seed()
        best = builder.add("// best\n", speedup=2.0, parents=(seed,))
        look = following.look()
        assert [(seen.result.candidate, seen.change is not None) for seen in look.seen] == [(seed, True), (best, True)]
        assert (look.old, look.snapshot.best, look.snapshot.halted) == (False, best, "")
        assert following.look().seen == ()
        builder.store.session_end("enough")
        look = following.look()
    assert (look.state, said(look)) == ("stopped", ["the search has stopped: enough"])
    with Store.open(path, write=True) as store:
        store.session_start()
        assert (look := following.look()).state == "running"
        assert said(look) == ["the search is at work"]


def test_what_came_before_is_no_news(tmp_path: Path, hand: Hand) -> None:
    fill_store(tmp_path / "a.db")
    look = StoreFollower(tmp_path / "a.db", clock=hand).look()
    assert (look.old, len(look.seen), look.notes) == (True, 4, ())
    assert len(look.snapshot.improvements) == 3
    assert look.snapshot.halted == "the search has stopped: budget of 4 evaluations used"


def test_a_clock_that_is_wrong_elsewhere_kills_nobody(tmp_path: Path, hand: Hand) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.store.database.execute("UPDATE sessions SET last_seen = last_seen - 7200, host = 'elsewhere'")
        following = StoreFollower(tmp_path / "a.db", clock=hand)
        assert following.look().state == "killed"  # nothing else is known of it yet
        builder.store.database.execute("UPDATE sessions SET last_seen = last_seen + 1")
        assert following.look().state == "running"
        hand.now_s += 60
        look = following.look()
        assert (look.state, [note.warning for note in look.notes]) == ("killed", [True])


def test_a_process_that_has_gone_is_known_before_it_is_silent_for_long(tmp_path: Path, hand: Hand) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.store.database.execute("UPDATE sessions SET last_seen = last_seen - 5, pid = ?", (2**22 + 1,))
        assert StoreFollower(tmp_path / "a.db", clock=hand).look().state == "killed"
        builder.store.database.execute("UPDATE sessions SET host = 'elsewhere'")
        assert StoreFollower(tmp_path / "a.db", clock=hand).look().state == "running"


def test_a_store_that_is_moved_aside_and_begun_anew(tmp_path: Path, hand: Hand) -> None:
    path = tmp_path / "a.db"
    fill_store(path)
    following = StoreFollower(path, clock=hand)
    assert following.look().snapshot.results == 4
    set_aside(path)
    look = following.look()
    assert (look.state, look.snapshot.results) == ("missing", 0)
    assert "moved or replaced" in said(look)[0]
    with StoreBuilder(path) as builder:
        builder.seed()
        look = following.look()
    assert (look.state, look.snapshot.results, len(look.seen), look.old) == ("running", 1, 1, False)


def test_a_file_that_cannot_be_read_is_tried_again(tmp_path: Path, hand: Hand) -> None:
    path = tmp_path / "a.db"
    fill_store(path)
    sound = path.read_bytes()
    following = StoreFollower(path, clock=hand)
    assert following.look().state == "stopped"
    path.rename(tmp_path / "away.db")
    path.write_bytes(b"not a database" * 400)
    assert following.look().state == "stopped"  # once is no reason to worry anybody
    look = following.look()
    assert (look.state, look.snapshot.results) == ("unreadable", 0)
    assert "is no store" in said(look)[-1]
    path.write_bytes(sound)
    assert following.look().state == "unreadable"  # not at every look: opening a file reads all of it
    hand.now_s += 10
    look = following.look()
    assert (look.state, look.snapshot.results, look.seen) == ("stopped", 4, ())


def test_a_file_that_is_still_empty_is_waited_for(tmp_path: Path, hand: Hand) -> None:
    path = tmp_path / "a.db"
    path.touch()
    following = StoreFollower(path, clock=hand)
    assert following.look().state == "missing"
    with StoreBuilder(path) as builder:
        builder.seed()
        look = following.look()
    assert (look.state, len(look.seen)) == ("running", 1)


def test_a_store_of_an_older_release_is_followed_when_it_goes_on(tmp_path: Path, hand: Hand) -> None:
    path = old_store("v1_killed", tmp_path)
    following = StoreFollower(path, clock=hand)
    before = following.look()
    assert (before.state, before.old) == ("killed", True)
    assert before.snapshot.results == len(before.seen) > 0
    with Store.open(path, write=True) as store:  # a copy in memory would not see what is written from now on
        store.session_start()
        look = following.look()
        assert (look.state, look.seen, look.snapshot.results) == ("running", (), before.snapshot.results)
        store.session_end("enough")
        assert following.look().state == "stopped"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder, and the same one mounted so that nothing can be written there."""
    folder, mount = tmp_path / "runs", tmp_path / "mount"
    folder.mkdir()
    mount.mkdir()
    for options in (["--bind", str(folder)], ["-o", "remount,ro,bind"]):
        done = subprocess.run(["mount", *options, str(mount)], capture_output=True, check=False)
        if done.returncode != 0:
            subprocess.run(["umount", "-l", str(mount)], capture_output=True, check=False)
            pytest.skip("needs to mount a folder")
    yield folder, mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_store_on_a_read_only_mount(mounted: tuple[Path, Path], hand: Hand) -> None:
    folder, mount = mounted
    fill_store(folder / "a.db")
    following = StoreFollower(mount / "a.db", clock=hand)
    assert (following.look().state, following.look().snapshot.results) == ("stopped", 4)
    with Store.open(folder / "a.db", write=True) as store:
        store.session_start()
        hand.now_s += 10
        looks = [following.look() for _ in range(3)]
        assert (looks[-1].state, looks[-1].snapshot.results, looks[-1].seen) == ("running", 4, ())
        store.session_end("enough")
        assert following.look().state == "stopped"
    hand.now_s += 10
    assert following.look().state == "stopped"
    with StoreBuilder(folder / "b.db") as builder:
        other = StoreFollower(mount / "b.db", clock=hand)
        builder.seed()
        assert [each.snapshot.results for each in (other.look(), other.look())] == [1, 1]


def test_lines_of_json(ids: dict[str, str], call: Call) -> None:
    (line,) = call("watch", "--json", "--until-stopped").output.splitlines()
    document = json.loads(line)
    assert (document["state"], document["results"], document["best"]["candidate"]) == ("stopped", 4, ids["best"])
    assert [each["candidate"] for each in document["improvements"]] == [ids["seed"], ids["tiled"], ids["best"]]


def test_plain_lines(ids: dict[str, str], call: Call) -> None:
    lines = call("watch", "--until-stopped").output.splitlines()
    assert lines[0].endswith("runs/gemm.db")
    assert "4 judged, 75% right, best 60.00x seed, 6.00x torch (worker)" in lines[1]
    assert lines[1].endswith("the search has stopped: budget of 4 evaluations used")
    assert lines[2] == "runs/gemm.db: stopped, 4 judged, best 60.00x seed, 6.00x torch (worker mode)"
    assert len(lines) == 3


@pytest.mark.parametrize("torn", [True, False])
def test_what_is_no_sound_store_is_refused_and_not_waited_for(tmp_path: Path, torn: bool) -> None:
    path = tmp_path / "a.db"
    fill_store(path)
    if torn:
        path.write_bytes(path.read_bytes()[:-4096])
    else:  # sound as a file, though no text
        with Store.open(path, write=True) as store:
            store.database.execute("UPDATE proposals SET operator = CAST(x'ff' AS TEXT)")
    command = [sys.executable, "-m", "evokernel", "watch", str(path)]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout) == (2, b"")
    assert str(path) in done.stderr.decode()


def test_nothing_is_written_to_the_store(ids: dict[str, str], project: Path, call: Call) -> None:
    before = (project / "runs" / "gemm.db").read_bytes()
    call("watch", "--until-stopped")
    assert (project / "runs" / "gemm.db").read_bytes() == before


def test_words_of_strangers_are_only_text(project: Path, call: Call) -> None:
    evil = "[bold red]gotcha[/] \x1b[2J\u202eabc"
    with StoreBuilder(project / "runs" / "gemm.db") as builder:
        seed = builder.seed()
        builder.add("// best\n", speedup=2.0, parents=(seed,), operator=evil, island=evil, rationale=evil)
        builder.store.session_end(evil)
    for arguments in ((), ("--json",)):
        output = call("watch", "--until-stopped", *arguments).output
        assert "[bold red]gotcha[/]" in output
        assert not set(output) & set("\x1b\u202e")


@pytest.mark.slow
def test_a_search_is_seen_killed_and_resumed_on_a_terminal(tmp_path: Path) -> None:
    with Watching(tmp_path / "toy.db") as watching:
        watching.wait_for("there is no store at")
        search = watching.search(seconds=0.02, evaluations=100_000)
        watching.wait_for("running", " seed", "in flight", "tune")
        watching.resize(width=50, height=14)
        watching.wait_for("running")
        search.kill()
        search.wait()
        watching.wait_for("the search was killed", "`evokernel evolve`")
        search = watching.search(seconds=0.02, evaluations=100_000)
        watching.wait_for("running")
        search.send_signal(signal.SIGINT)
        watching.wait_for("the search has stopped: stopped by SIGINT")
        watching.type("\x03")
        assert watching.ended() == 0
        output = watching.output
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")  # the cursor is back
    assert "\x1b[?1049h" not in output  # what was on the screen before stays there
    assert output.count("\x1b[?2026h") == output.count("\x1b[?2026l")
    assert re.search(r"toy\.db: stopped, \d+ judged, best ", output)


@pytest.mark.slow
def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    with Watching(tmp_path / "toy.db", TERM="dumb", FORCE_COLOR="1") as watching:
        watching.search(seconds=0.0, evaluations=30)
        watching.wait_for("the search has stopped: budget of 30")
        watching.process.send_signal(signal.SIGTERM)
        assert watching.ended() == 128 + signal.SIGTERM
        assert "\x1b[?25l" not in watching.output


def test_a_reader_that_goes_away_ends_it(tmp_path: Path) -> None:
    with Watching(tmp_path / "toy.db", "--json", terminal=False) as watching:
        watching.wait_for("missing")
        watching.leave()  # and nothing will ever be written again
        assert watching.ended() == 128 + signal.SIGPIPE
