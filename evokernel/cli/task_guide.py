"""The guide that begins each prompt of the tables: what a programmer must know of the task of a run."""

import yaml

from archive.store import Store
from evokernel.config.run import DEVICE_OF
from evokernel.errors import EvokernelError
from evokernel.evaluate.device.device_class import this_machine
from evokernel.languages import make_language
from evokernel.languages.toolchain import forge_plain, run_plain
from evokernel.tasks import load_task


def task_guide(store: Store) -> str:
    """Return task, entry point, contract and tool chain of a run; less where its task or its tool chain is not here."""
    identity = store.identity()
    if identity is None:
        return ""
    spec = str((yaml.safe_load(store.meta("config") or "") or {}).get("task", identity.task))
    said = f"You write kernels in {identity.language} for {identity.device}. Task: {identity.task}"
    try:
        task, device = load_task(spec), DEVICE_OF[identity.language]
        language = make_language(
            identity.language, run=run_plain, forge=forge_plain, device=this_machine().limits(device)
        )
        return f"{said}, {task.description}.\n\n{language.guide(task.on(device))}"
    except (EvokernelError, KeyError, OSError):
        return f"{said}."
