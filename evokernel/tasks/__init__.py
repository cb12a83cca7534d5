"""Built-in tasks and the loading of a user's own. A task is a Python file with a module-level `task = Task(...)`."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from evokernel.errors import TaskError
from evokernel.source.python_file import without_bytecode
from evokernel.task import Task

_HERE = Path(__file__).parent
_BESIDE = "evokernel.tasks."
_LOADS = "load_source"  # how tasks that `init` wrote name the user's file


def builtin_tasks() -> tuple[str, ...]:
    """Return the names of the built-in tasks."""
    return tuple(sorted(path.parent.name for path in _HERE.glob("*/task.py")))


def task_path(spec: str, *, folder: Path = Path()) -> Path:
    """Return the file of a task given by built-in name or by path; one in the folder may be what was meant.

    Raises:
        TaskError: there is neither such a name nor such a file.
    """
    if spec in builtin_tasks():
        return _HERE / spec / "task.py"
    path = Path(spec)
    if path.suffix == ".py" and path.is_file():
        return path.resolve()
    if path.suffix == ".py":
        near = get_close_matches(path.name, [each.name for each in path.parent.glob("*.py")], n=1)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise TaskError(f"there is no task file {spec!r}{hint}")
    known = ", ".join(builtin_tasks())
    own = {path.name.removesuffix("_task.py"): path.name for path in folder.glob("*_task.py")}
    near = get_close_matches(spec, [*own, *builtin_tasks()], n=1)
    hint = f"; did you mean {own.get(near[0], near[0])!r}?" if near else ""
    raise TaskError(f"unknown task {spec!r}: expected a built-in task ({known}) or the path of a task file (.py){hint}")


def task_hash(spec: str) -> str:
    """Return 16 hex digits over the text of the task file and of what it imports from its folder or beside our tasks.

    These may hold what it computes or compares with: a user's own modules, a task made from another one, a baseline
    that several share. What is imported by a name that is made while it runs is not seen.
    """
    return task_hashes(spec)[0]


def task_hashes(spec: str) -> tuple[str, ...]:
    """Return the hash of a task, then those that earlier versions may have given the same texts.

    There it depended on whether evokernel or the task came first in the alphabet of all paths, whose order it took.
    """
    path = task_path(spec)
    texts = {path: path.read_bytes()}
    open_ends = [path]
    while open_ends:
        file = open_ends.pop()
        for found in _imported_beside(texts[file], file.parent):
            if found not in texts:
                texts[found] = found.read_bytes()
                open_ends.append(found)
    own, *others = texts
    ours = sorted(other for other in others if other.is_relative_to(_HERE))
    theirs = sorted(other for other in others if not other.is_relative_to(_HERE))
    orders = (own, *theirs, *ours), (own, *ours, *theirs)
    hashes = (hashlib.sha256(b"".join(texts[each] for each in order)).hexdigest()[:16] for order in orders)
    return tuple(dict.fromkeys(hashes))


def _imported_beside(text: bytes, folder: Path) -> Iterator[Path]:
    """Yield the files that a text imports from a folder or from `evokernel.tasks`; none where it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # whoever loads it is told
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(alias.name, folder)
        elif isinstance(node, ast.ImportFrom):
            base = folder.joinpath(*[".."] * (node.level - 1)).resolve() if node.level else folder
            for alias in node.names:
                yield from _files_of(".".join(filter(None, (node.module, alias.name))), base)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == _LOADS:
            yield from _named_files(node, folder)


def _files_of(name: str, folder: Path) -> Iterator[Path]:
    """Yield the files of a module and of the packages it is in. The last word may be something inside a module."""
    if name.startswith(_BESIDE):
        name, folder = name.removeprefix(_BESIDE), _HERE
    elif name.partition(".")[0] == "evokernel":  # versions of ours are told apart elsewhere
        return
    place = folder
    for word in name.split("."):
        place = place / word
        yield from (path.resolve() for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def _named_files(call: ast.Call, folder: Path) -> Iterator[Path]:
    """Yield the file in the first argument of a call: `load_source(HERE / "mine.py")`."""
    for node in ast.walk(call.args[0]) if call.args else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (path := folder / node.value).is_file():
            yield path.resolve()


def load_task(spec: str) -> Task:
    """Import a task file and return its `task`. Imports torch.

    Raises:
        TaskError: the file cannot be found or imported, or defines no `task`.
    """
    path = task_path(spec)
    name = f"_evokernel_task_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    loader = importlib.util.spec_from_file_location(name, path)
    if loader is None or loader.loader is None:
        raise TaskError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(loader)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # a task file may import its neighbours, as a script would
    try:
        with without_bytecode():
            loader.loader.exec_module(module)
    except TaskError:
        raise
    except SystemExit as error:  # in a thread of an event loop it would end the loop, and leave its tasks unread
        raise TaskError(f"{path}{_line_in(error, path)} ends the process; a task file must return") from error
    except Exception as error:  # a user's file may raise anything; it becomes one clear message
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
            raise  # not the file's fault; the command says what to install
        line = _line_in(error, path)
        raise TaskError(f"task file {path}{line} raised {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    task = getattr(module, "task", None)
    if not isinstance(task, Task):
        raise TaskError(f"{path} must define `task = evokernel.task.Task(...)`; found {type(task).__name__}")
    return task


def _line_in(error: BaseException, path: Path) -> str:
    """Return `:line` of the innermost frame of an error that lies in the file, or nothing."""
    line, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = f":{trace.tb_lineno}"
        trace = trace.tb_next
    return line
