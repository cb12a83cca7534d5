"""Pages of results are made from stores alone: their figures, nobody's markup, nothing that was judged by old rules."""

import gzip
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from evokernel.evaluate import EVALUATOR_VERSION
from tests.support.stores import StoreBuilder, fill_store

OLD = Path(__file__).parents[1] / "old_stores" / "v1_finished.db.gz"
SCRIPT = Path(__file__).parents[2] / "docs" / "results.py"


@pytest.fixture(scope="module")
def results() -> ModuleType:
    """The script, by its path: other packages may bring a module `docs` along."""
    spec = importlib.util.spec_from_file_location("results_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_figures_of_the_last_measurement(results: ModuleType, tmp_path: Path) -> None:
    ids = fill_store(tmp_path / "run.db", evaluator_version=EVALUATOR_VERSION)
    assert results.main([str(tmp_path / "run.db")], tmp_path) == 0
    text = (tmp_path / "test-cpu.md").read_text()
    assert "## Test CPU\n\ng++ 13 -O3; worker mode, version " in text
    assert (
        "| gemm | cpp | **4.9x (4.833 to 4.968)** | compiled 4.5x (4.413 to 4.589), torch 5x" in text
    )  # 6x in the search
    assert f"Best kernel `{ids['best']}` in cpp" in text
    assert "<details><summary>The kernel</summary>\n\n```cpp\n" in text
    assert "rewrite (1 of 2 right)" in text
    assert "1. tune: tune: BLOCK\\_K 8 -\\> 16: 6x over its parent" in text


def test_words_of_others_are_no_markup(results: ModuleType, tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "run.db", evaluator_version=EVALUATOR_VERSION) as builder:
        seed = builder.seed()
        hostile = "<script>a|b</script>\n\n# head `code` [x](http://y) ~~~ \x1b[2J"
        best = builder.add("// best \x1b[2J ```\n</details><script>\n", speedup=2.0, parents=(seed,), rationale=hostile)
        builder.final(best, speedup=2.0, panel={"torch|*": 2.0})
    assert results.main([str(tmp_path / "run.db")], tmp_path) == 0
    text = (tmp_path / "test-cpu.md").read_text()
    assert "\\<script\\>a\\|b\\</script\\> \\# head \\`code\\` \\[x\\](http://y) \\~\\~\\~ \\[2J" in text
    assert "torch\\|\\* 2x" in text
    assert "````cpp\n// best ?[2J ```\n</details><script>\n````\n" in text  # as it is, in a fence it cannot close
    assert "\x1b" not in text


def test_what_cannot_be_shown_is_refused_and_the_page_stays(
    results: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, good, pending, old = (tmp_path / name for name in ("test-cpu.md", "good.db", "pending.db", "old.db"))
    page.write_text("as it was")
    fill_store(good, evaluator_version=EVALUATOR_VERSION)
    fill_store(pending, crowned=False, evaluator_version=EVALUATOR_VERSION)
    old.write_bytes(gzip.decompress(OLD.read_bytes()))
    for path, words in (
        (pending, "was not measured anew"),
        (old, "was judged by version"),
        (tmp_path / "no.db", "no.db"),
    ):
        assert results.main([str(good), str(path)], tmp_path) == 2
        assert words in capsys.readouterr().err
    assert results.main([], tmp_path) == 2
    assert results.main(["--older"], tmp_path) == 2
    assert page.read_text() == "as it was"


def test_what_older_rules_have_judged_is_shown_on_request_under_their_version(
    results: ModuleType, tmp_path: Path
) -> None:
    for name, version in (("new.db", EVALUATOR_VERSION), ("old.db", "2")):
        fill_store(tmp_path / name, evaluator_version=version)
    stores = [str(tmp_path / "new.db"), str(tmp_path / "old.db")]
    assert results.main(stores, tmp_path) == 2
    assert results.main(["--older", *stores], tmp_path) == 0
    text = (tmp_path / "test-cpu.md").read_text()
    assert text.index("worker mode, version 2 of") < text.index(f"worker mode, version {EVALUATOR_VERSION} of")
    assert text.count("| gemm | cpp |") == 2
