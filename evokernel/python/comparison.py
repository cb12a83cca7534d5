"""Tables of the terminal as text and HTML, and a comparison that shows itself by them."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.text import Text

from evokernel.cli.compare import comparison_tables
from evokernel.cli.display.tables import put
from evokernel.cli.display.text import PlainConsole
from evokernel.report.compare import Comparison

WIDTH = 120
"""Width of the tables, in characters."""
_FRAME = '<pre style="white-space: pre; line-height: 1.3; overflow-x: auto">{code}</pre>'


def as_text(tables: Sequence[RenderableType | None], *, styled: bool = False) -> str:
    """Return tables as text, plain or `styled` with the codes of a terminal."""
    file = io.StringIO()
    console = PlainConsole(
        file=file, width=WIDTH, markup=False, emoji=False, highlight=False, force_terminal=styled,
        color_system="standard" if styled else None,
    )  # fmt: skip
    put(console, *tables)
    return file.getvalue().rstrip()


def as_html(tables: Sequence[RenderableType | None]) -> str:
    """Return tables as HTML that needs no style sheet."""
    console = Console(file=io.StringIO(), record=True, width=WIDTH)
    console.print(Text.from_ansi(as_text(tables, styled=True)), crop=False, no_wrap=True, overflow="ignore")
    return console.export_html(inline_styles=True, code_format=_FRAME)


@dataclass(frozen=True, slots=True, repr=False)
class RunComparison:
    """Runs side by side: their results, costs, and whether their best kernels differ."""

    found: Comparison
    """The comparison as data."""

    def __repr__(self) -> str:
        return as_text(comparison_tables(self.found))

    def _repr_html_(self) -> str:
        return as_html(comparison_tables(self.found))
