"""`evokernel.evolve`: task, seeds, store and search of a function in one call, from a script or a notebook."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from archive.store import Store
from evokernel.cli.display.live import make_view
from evokernel.cli.display.tables import best_kernel_tables, put
from evokernel.cli.display.text import stdout
from evokernel.cli.locate import store_of
from evokernel.config.load import load_config
from evokernel.config.places import nearest
from evokernel.config.run import RunConfig
from evokernel.engine.name_check import unknown_names
from evokernel.errors import ConfigError, TaskError
from evokernel.judging.user_function import PROJECTS, function_project, make_folder
from evokernel.python.background_search import BackgroundSearch
from evokernel.python.run import Run, open_store
from evokernel.report.best import find_best
from evokernel.report.status import run_facts, task_name
from evokernel.scaffold.task_text import template
from evokernel.tasks import task_path


def evolve(
    what: str | Path | Callable[..., Any],
    *example_inputs: Any,
    hours: float | None = None,
    evaluations: int | None = None,
    store: str | Path | None = None,
    folder: str | Path = PROJECTS,
    progress: bool = True,
    **settings: Any,
) -> Run:
    """Search for faster kernels, and return the run; the same call goes on with the same store.

    An interrupt finishes what is in flight and returns the run so far; a second one stops at once.

    Args:
        what: a function or module of PyTorch, a task (built-in name or file), or a config (.yaml).
        example_inputs: of the function: tensors and numbers, by position.
        hours: budget over all calls, in hours; the config's budget where no budget is given.
        evaluations: budget over all calls, in judged kernels.
        store: the file of the run; in the folder of the project if left out.
        folder: where task, seeds, config and store of a function or a task are written.
        progress: whether to show how the search goes.
        settings: settings of the config by name, as docs/config.md has them: `threads=2`, `device="cpu"`.

    Raises:
        TaskError: the function makes no fit task, or its folder cannot be written; the message says what to do.
        ConfigError: a setting cannot be used, or no seed is right.
        RunMismatch: the store holds another search.
    """
    _refuse_unknown(settings)
    console = stdout()
    notify = partial(console.print, soft_wrap=True) if progress else None
    device = settings.get("device", "auto")
    config = _config_file(what, example_inputs, folder=Path(folder), device=device, notify=notify)
    budget = {name: value for name, value in (("hours", hours), ("evaluations", evaluations)) if value is not None}
    given = settings | ({"budget": {**settings.get("budget", {}), **budget}} if budget else {})
    overrides = [f"{name}={json.dumps(value)}" for name, value in given.items()]
    loaded = load_config(config, overrides=overrides, look_up=unknown_names)
    if store is None:
        store = store_of(config, loaded) if str(what).endswith((".yaml", ".yml")) else config.with_suffix(".db")
    path = Path(store)
    view = make_view(console, title=f"{task_name(loaded.task)}, {path}") if progress else None
    reason = BackgroundSearch(loaded, path).follow(view)
    if progress:
        with Store.open(path, write=False) as opened:
            best, run = find_best(opened), run_facts(opened)
        tables = best_kernel_tables(best, run) if best else [Text("no right kernel was found")]
        put(console, Text(reason), *tables)
    return open_store(path)


def _refuse_unknown(settings: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for a name that no setting has, before a project is made."""
    known = [*RunConfig.model_fields, "hours", "evaluations", "folder", "progress"]
    for name in (each for each in settings if each.partition(".")[0] not in known):
        raise ConfigError(f"{name}: unknown setting of evolve; {nearest(name, known)}")


def _config_file(
    what: str | Path | Callable[..., Any],
    example_inputs: tuple[Any, ...],
    *,
    folder: Path,
    device: str,
    notify: Callable[[str], None] | None,
) -> Path:
    if not isinstance(what, str | Path):
        try:
            return function_project(what, example_inputs, folder=folder, device=device, notify=notify)
        except TaskError:
            for place in (*folder.glob(f"{getattr(what, '__name__', '')}-*"), folder):
                with suppress(OSError):  # it holds something: of this project or of others
                    place.rmdir()
            raise
    if example_inputs:
        raise ConfigError(f"example inputs belong to a function; {what} brings its own")
    if str(what).endswith((".yaml", ".yml")):
        return Path(what)
    return _task_config(str(what), folder=folder)


def _task_config(spec: str, *, folder: Path) -> Path:
    """Return a config for a task, which is written unless it is there."""
    file = task_path(spec)
    name = file.stem if spec.endswith(".py") else spec
    config = folder / name / f"{name}.yaml"
    if not config.exists():
        named = json.dumps(str(file)) if spec.endswith(".py") else spec  # in quotes: a path may hold anything
        make_folder(config.parent)
        config.write_text(template("config.yaml.txt", stem=name, task=named, file=file.name), encoding="utf-8")
    return config
