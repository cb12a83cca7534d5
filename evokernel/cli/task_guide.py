"""The guide that begins each prompt of the tables: what a programmer must know of the task of a run."""

import yaml
from rich.text import Text

from archive.store import Store
from evokernel.cli.display.text import WARN, clean, one_line, stderr
from evokernel.config.run import DEVICE_OF
from evokernel.errors import EvokernelError
from evokernel.evaluate.device.device_class import this_machine
from evokernel.languages import make_language
from evokernel.languages.toolchain import forge_plain, run_plain
from evokernel.report.status import task_name
from evokernel.tasks import load_task
from operators.llm.sections import guide_section, task_section


def task_guide(store: Store) -> str:
    """Return the task with its reference and sizes, and how a kernel is written; less, and say so, without either."""
    identity = store.identity()
    if identity is None:
        return ""
    spec = str((yaml.safe_load(store.meta("config") or "") or {}).get("task", identity.task))
    said = f"You write kernels in {identity.language} for {identity.device}."
    try:
        task, device = load_task(spec), DEVICE_OF[identity.language]
        language = make_language(
            identity.language, run=run_plain, forge=forge_plain, device=this_machine().limits(device)
        )
        on_device = task.on(device)
        return f"{said}\n\n{task_section(on_device)}\n\n{guide_section(identity.language, language.guide(on_device))}"
    except (EvokernelError, KeyError, OSError) as error:
        name = clean(store.database.path.name)
        what = f"warning: {name}: prompts only name the task, which cannot be used here: {one_line(str(error))}"
        stderr().print(Text(what, style=WARN), soft_wrap=True)
        return f"{said} Task: {task_name(identity.task)}."
