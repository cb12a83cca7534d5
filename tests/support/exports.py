"""What tests of exports share: a store with a kernel that was judged, and scripts that use what was written."""

import json
from pathlib import Path

from archive.identity import RunIdentity
from archive.store import Store
from evokernel.config.run import RunConfig, dump_config
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.process_exit import ProcessExit
from tests.support.warm_python import warm_python


def store_run(path: Path, config: RunConfig, judged: KernelVerdict, *waiting: Candidate) -> None:
    """Write a run of one seed, with what was found about it, and of others that still wait for that."""
    identity, language = judged.identity, judged.candidate.language
    with Store.open(path, write=True) as store:
        store.session_start()
        store.begin_run(
            RunIdentity(
                task=config.task,
                task_hash=identity.task_hash,
                seed=0,
                language=language,
                device=identity.device,
                environment=identity.environment,
                evokernel_version="0.1.0",
                task_spec={},
            )
        )
        store.set_meta("config", dump_config(config))
        for step, candidate in enumerate((judged.candidate, *waiting)):
            proposal = Proposal(candidate, step, "one", "seed" if not step else "rewrite", 0)
            program = judged.last.key.program_hash if not step else "f" * 16
            store.propose(proposal, program_hash=program, skeleton="s")
        store.commit(0, judged.evaluations[0])
        for evaluation in judged.evaluations[1:]:
            store.add_evaluation(evaluation)
        store.session_end("test")


def run_beside(folder: Path, script: str, *, timeout_s: float = 300.0, **environment: str) -> str:
    """Run a script as `exit_beside` does; returns what it printed."""
    done = exit_beside(folder, script, timeout_s=timeout_s, **environment)
    assert done.ok, done.stderr[-3000:]
    return done.stdout


def exit_beside(folder: Path, script: str, *, timeout_s: float = 300.0, **environment: str) -> ProcessExit:
    """Run a script in the folder of an export, without evokernel, in a fork of a process that has imported torch.

    `environment` is added to that of this session.
    """
    alone = f'import os, sys\nos.environ.update({environment!r})\nsys.modules["evokernel"] = None\n' + script
    command = ["python", "-c", alone, json.dumps({"environment": {}})]
    return warm_python("torch")(command, workdir=folder, timeout_s=timeout_s, memory_bytes=0)
