"""`evokernel report`: everything about a run as one HTML file."""

import webbrowser
from pathlib import Path

import click
from rich.text import Text

from evokernel import __version__
from evokernel.cli.display.text import DIM, STRONG, clean, stdout
from evokernel.cli.locate import open_store, say_if_long
from evokernel.cli.options import store_argument


@click.command()
@store_argument
@click.option(
    "--out", type=click.Path(), metavar="FILE", help="File or folder to write to; beside the store if left out."
)
@click.option("--with-prompts", is_flag=True, help="Put prompts and replies of models into the file too.")
@click.option("--open", "show", is_flag=True, help="Show it in the browser.")
def command(store: Path | None, out: str | None, with_prompts: bool, show: bool) -> None:
    """Write all about a run as one HTML file: the answer, every candidate, how it came about, what it cost.

    Each candidate has its source, the difference to its parent, its measurements and its kin, packed in the file. The
    file needs no network and nothing beside it; it may be made while the run goes on. An older report at the same
    place is replaced, anything else is left alone.
    """
    from evokernel.report.html import PageRefused, report_page, write_page

    with open_store(store) as opened:
        source = opened.database.path
        say_if_long(opened, stage="reading and packing")
        text = report_page(opened, version=__version__, prompts=with_prompts)
    path = source.with_suffix(".html") if out is None else Path(out)
    if out is not None and (out.endswith("/") or path.is_dir()):
        path /= source.with_suffix(".html").name
    size = write_page(text, path)
    stdout().print(Text.assemble(clean(str(path)), (f"  {size / 1e6:.1f} MB", DIM), style=STRONG), soft_wrap=True)
    if show and not webbrowser.open(path.absolute().as_uri()):
        raise PageRefused(f"{path} is written, but no browser was found here; open it in one")
