"""`evokernel record`: the replies of a run as a file that answers in place of a model."""

from pathlib import Path

import click

from archive.journal import InboxEntry, InsightEntry
from evokernel.cli.locate import open_store
from evokernel.cli.options import takes_store
from evokernel.errors import StoreError


@click.command()
@takes_store(file="FILE.jsonl")
def command(store: Path | None, file: str) -> None:
    """Write every reply of a run to FILE, by step, role and number of the call in its step.

    A config that names it as `replay:` under `models:` repeats the run without a key or a network.
    """
    from evokernel.llm.recordings import write_recording

    path = Path(file)
    if path.exists():
        raise StoreError(f"{file} exists already, and may be another recording; name a new file")
    with open_store(store) as opened:
        told = (fact.seq for fact in opened.facts() if isinstance(fact, InsightEntry | InboxEntry))
        titles = {seq: insight.title for seq in told if (insight := opened.insight(seq)) is not None}
        count = write_recording(path, opened.calls.all(), titles=titles)
        if not count:
            raise StoreError(f"{opened.database.path} holds no replies of models, so there is nothing to record")
    click.echo(f"{count} replies recorded in {file}; to replay them, in a config:")
    click.echo(f"models: [{{name: recorded, replay: {file}}}]")
