"""Completion of stores, candidates, tasks and operators in bash, zsh and fish, by the means of click.

A completion is a service to somebody who types: where nothing can be read, nothing is offered.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import click
from click.shell_completion import CompletionItem

MOST = 200
"""Items that are offered at most."""
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_stores(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer stores and configs that begin so, those under `runs/` also by nothing; a folder to go on in."""
    found = [*_paths(incomplete), *(sorted(Path("runs").glob("*.db")) if not incomplete else ())]
    return _items(str(path) + ("/" if path.is_dir() else "") for path in found)


def complete_tasks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the built-in tasks."""
    from evokernel.tasks import builtin_tasks

    return _items(name for name in builtin_tasks() if name.startswith(incomplete))


def complete_operators(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the names of the operators."""
    from operators import OPERATORS
    from operators.llm.templates import load_templates

    return _items(name for name in (*OPERATORS, *load_templates("")) if name.startswith(incomplete))


def complete_candidates(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer `best`, `seed` and the ids of the store that was named, or of the only one there is."""
    return _items(name for name in ("best", "seed", *_ids(ctx)) if name.startswith(incomplete))


def completing(others: Sequence[str]) -> Completer:
    """Return the completer of a store and other arguments, by their metavars."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        offered = complete_stores(ctx, param, incomplete)
        if any(name.strip("[]") in ("ID", "A", "B") for name in others):
            offered = [*complete_candidates(ctx, param, incomplete), *offered]
        if any(name in ("FILE", "DIR", "NEW") for name in others) and incomplete:
            offered = [CompletionItem(incomplete, type="file")]
        return offered

    return complete


def _paths(incomplete: str) -> list[Path]:
    base, _, begun = incomplete.rpartition("/")
    folder = Path(base or ("/" if incomplete.startswith("/") else "."))
    try:
        found = sorted(path for path in folder.iterdir() if path.name.startswith(begun))
    except OSError:
        return []
    wanted = [path for path in found if path.is_dir() or path.suffix in (".db", ".yaml", ".yml")]
    return [path for path in wanted if begun.startswith(".") or not path.name.startswith(".")]


def _ids(ctx: click.Context) -> list[str]:
    from archive.queries import candidate_ids
    from archive.store import Store
    from evokernel.cli.locate import is_store, store_path
    from evokernel.errors import EvokernelError

    named = ctx.params.get("store") or next(filter(is_store, ctx.params.get("words") or ()), None)
    try:
        with closing(Store.open(store_path(Path(named) if named else None), write=False)) as store:
            return candidate_ids(store.database)
    except (EvokernelError, OSError):
        return []


def _items(names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name, _ in zip(names, range(MOST), strict=False)]
