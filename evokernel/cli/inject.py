"""`evokernel inject`: a kernel that a person has written joins a run."""

from pathlib import Path

import click

from archive.identity import RunIdentity
from evokernel.cli.inbox import hand_in
from evokernel.cli.locate import open_store, store_path
from evokernel.cli.options import takes_store
from evokernel.config.run import language_of
from evokernel.errors import ConfigError, StoreError
from evokernel.records.candidate import Candidate
from evokernel.report.best import best_kernel
from evokernel.source import SIZE_LIMIT_BYTES


@click.command()
@takes_store(file="FILE")
@click.option("--why", metavar="TEXT", default="", help="What is new about it; kept in its lineage.")
def command(store: Path | None, file: str, why: str) -> None:
    """Hand a kernel in a FILE to a run, which judges it like any other; of another run's store (.db) its winner.

    The language is told by the name: .cpp, .py (Triton), .cu.py (CUDA C++). A kernel in another language than the
    run's is not judged: prompts show it, and `port` brings it over. STORE may be in use.
    """
    path = store_path(store)
    with open_store(path) as opened:
        identity = opened.identity()
        if identity is None:
            raise StoreError(f"{path} holds no run yet: name the kernel under seed_sources of its config")
        candidate, words = _winner(Path(file), identity) if file.endswith(".db") else (_candidate(Path(file)), "")
        foreign = candidate.language != identity.language
        _refuse_no_kernel(file, candidate, foreign=foreign)
        if not foreign and opened.proposal_of(candidate.id) is not None:
            raise ConfigError(f"{candidate.id} is in the run already: `evokernel show {path} {candidate.id}`")
    then = hand_in(
        path,
        "foreign" if foreign else "source",
        {
            "source": candidate.source,
            "language": candidate.language,
            "rationale": f"inject: {'; '.join(filter(None, (why.strip(), words))) or Path(file).name}",
        },
    )
    idea = f" as an idea from {candidate.language}" if foreign else ""
    click.echo(f"{candidate.id} handed in{idea}: {then}")


def _winner(path: Path, run: RunIdentity) -> tuple[Candidate, str]:
    """Return the best kernel of another run of a task, and words on its speed."""
    with open_store(path) as other:
        identity = other.identity()
        same = identity is not None and (identity.task == run.task or identity.task_hash == run.task_hash)
        if identity is None or not same:
            has = "no run" if identity is None else f"a run of task {identity.task}"
            raise ConfigError(f"{path} holds {has}, and this run is of task {run.task}")
        best = best_kernel(other)
    return best.candidate, f"winner of {path.name}: {best.speedup.value:.3g}x over its baselines on {identity.device}"


def _refuse_no_kernel(file: str, candidate: Candidate, *, foreign: bool) -> None:
    """Raise `ConfigError` for what would fail before it is built; of an idea, for Python without Triton in it."""
    from evokernel.languages import complaint_of  # half a second, which a wrong call does without

    language, complaint = candidate.language, complaint_of(candidate.language, candidate.source)
    if foreign:
        none = language == "triton" and "triton" not in candidate.source
        complaint = "it does not name triton; a function in PyTorch alone is what `evokernel init` takes" * none
    if complaint:
        raise ConfigError(f"{file} is no {language} kernel: {complaint} (docs/kernels.md says what one looks like)")


def _candidate(file: Path) -> Candidate:
    language = language_of(file)
    if language is None:
        raise ConfigError(f"{file}: its language is not known; expected a name ending in .cpp, .py or .cu.py")
    try:
        source = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {file}: {error}") from None
    if not source.strip():
        raise ConfigError(f"{file} is empty")
    if len(source) > SIZE_LIMIT_BYTES:  # it would be refused, and kept in the store for ever
        raise ConfigError(f"{file} has {len(source)} characters, and the limit is {SIZE_LIMIT_BYTES}")
    return Candidate(source, language)
