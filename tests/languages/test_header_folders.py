"""Folders of headers: their digest, and what is none."""

import os
from pathlib import Path

import pytest

from evokernel.config.load import parse_config
from evokernel.errors import ConfigError, LanguageError
from evokernel.languages.header_folders import header_folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "include" / "cute").mkdir(parents=True)
    (tmp_path / "include" / "cute" / "layout.hpp").write_text("1")
    (tmp_path / "include" / "one.h").write_text("2")
    return tmp_path / "include"


def test_the_digest_is_of_names_and_contents(folder: Path) -> None:
    before = header_folders([str(folder)])
    assert before.paths == (str(folder),)
    assert before.names() == ["cute", "one.h"]
    (folder / ".git").mkdir()
    (folder / ".git" / "index").write_text("not a header")
    os.mkfifo(folder / "pipe")
    assert header_folders([str(folder)]).digest == before.digest
    (folder / "one.h").rename(folder / "two.h")
    renamed = header_folders([str(folder)])
    (folder / "two.h").write_text("3")
    assert len({before.digest, renamed.digest, header_folders([str(folder)]).digest}) == 3
    assert not header_folders([]).digest


def test_what_is_no_folder_of_headers_is_named(folder: Path) -> None:
    for wrong in (folder / "one.h", folder / "missing"):
        with pytest.raises(LanguageError, match=f"expected a folder of headers, and {wrong} is none"):
            header_folders([str(wrong)])


def test_headers_that_nothing_reads_are_refused(folder: Path) -> None:
    evaluation = {"cuda_include": [str(folder)]}
    run = {"task": "softmax", "language": "triton", "budget": {"evaluations": 1}}
    islands = [{"name": "one", "operators": {"tune": 1}}]
    config = parse_config({**run, "islands": islands, "evaluation": evaluation}, "the test")
    with pytest.raises(ConfigError, match=r"evaluation\.cuda_include names headers for CUDA C\+\+"):
        config.on("cuda")
