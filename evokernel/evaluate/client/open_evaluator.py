"""Opening of an evaluator of this machine: first judge up, task admitted, device and baselines measured."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

from evokernel.config.run import DEVICE_OF, EvaluationConfig
from evokernel.errors import HarnessError
from evokernel.evaluate.client.build_lock import BuildLock, NoBuildLock
from evokernel.evaluate.client.builds import Builder
from evokernel.evaluate.client.devices import DevicePool, DeviceSlot, SearchJudge, StartJudge
from evokernel.evaluate.client.evaluations import identify
from evokernel.evaluate.client.evaluator import LocalEvaluator
from evokernel.evaluate.client.expert import ExpertKernel, expert_baseline, read_expert
from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.evaluate.client.judge_setup import JoinedRun, JudgeSetup
from evokernel.evaluate.device.cores import Cores, share_out
from evokernel.evaluate.device.device_class import Machine, this_machine
from evokernel.evaluate.device.lock import quiet_cores, timed_cores
from evokernel.evaluate.device.nvml import GpuFacts, gpu_count
from evokernel.evaluate.wire import Message
from evokernel.protocols import Language
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.task import Task
from evokernel.tasks import load_task, task_path

_CORES = tuple(sorted(os.sched_getaffinity(0)))
"""Read before any evaluator moves its thread off some of them."""


def open_evaluator(  # noqa: PLR0913 - each is a choice of some caller
    task_spec: str,
    language: Language,
    *,
    settings: EvaluationConfig,
    threads: int = 1,
    machine: Machine | None = None,
    deterministic: bool = False,
    profiled: bool = False,
    start: StartJudge | None = None,
    joins: JoinedRun | None = None,
) -> AbstractAsyncContextManager[LocalEvaluator]:
    """Return a context with a ready evaluator; the files that the settings name are read now.

    Each GPU has a judge of its own, started when there is a candidate for it. The first judge admits the task and
    identifies the evaluator. It also chooses the input distributions of the run, which all others take over, and draws
    the hidden shapes, so that one build fits every judge. Judges of winners draw shapes of their own.

    Inside the context the calling thread keeps off the cores of judges and timed processes, where other cores remain.
    Every process that was started ends with the context.

    Args:
        task_spec: argument of `evokernel.tasks.load_task`.
        settings: how to judge, resolved for the device class.
        threads: threads a candidate may use on a processor.
        machine: provides the GPUs, as many as the settings say; this machine if left out.
        deterministic: refuse kernels whose bits differ from run to run.
        profiled: whether precise timings of GPU kernels come with a profile; only worthwhile where it is read.
        start: how a judge is started; as a process of this machine if left out.
        joins: a run that was begun on another machine, which this evaluator takes over in place of beginning one.

    Raises:
        ConfigError: the expert cannot be read; on entering, it is not right.
        TaskError: on entering, the task cannot be loaded or is not fit to judge candidates.
        HarnessError: on entering, the machinery failed, or it cannot judge as the run that it joins does.
    """
    machine, device = machine or this_machine(), DEVICE_OF[language.name]
    gpus = machine.gpus(device, wanted=settings.gpus)
    expert = read_expert(settings, device=device, threads=threads, limits=machine.limits(device))
    indices = [gpu.index for gpu in gpus]
    share = partial(share_out, device=device, threads=threads, gpus=indices or [0], machine=gpu_count() if gpus else 0)
    return _opened(
        JudgeSetup(
            *(str(task_path(task_spec)), device, threads, settings),
            deterministic=deterministic,
            profiled=profiled and device == "cuda",
        ),
        language,
        share=share,
        gpus=gpus,
        expert=expert,
        start=start,
        joins=joins,
    )


@asynccontextmanager
async def _opened(
    setup: JudgeSetup,
    language: Language,
    *,
    share: Callable[[Sequence[int]], Sequence[Cores]],
    gpus: Sequence[GpuFacts],
    expert: ExpertKernel | None,
    start: StartJudge | None,
    joins: JoinedRun | None,
) -> AsyncIterator[LocalEvaluator]:
    lock = BuildLock() if setup.device_class == "cpu" else NoBuildLock()
    async with AsyncExitStack() as stack:
        on_processor = setup.device_class == "cpu"
        cores = share(stack.enter_context(timed_cores(_CORES, setup.threads)) if on_processor else _CORES)
        start = start or stack.enter_context(JudgeHostClient(setup.device_class))
        slots = DevicePool([DeviceSlot(start, own, gpu=gpu) for own, gpu in zip(cores, gpus or (None,), strict=True)])
        quiet = partial(quiet_cores, own=cores[0].runners if on_processor else ())
        builder = Builder(language, lock, cores[0].compilers, quiet=quiet)
        stack.push_async_callback(builder.close)
        builder.warm()
        stack.callback(os.sched_setaffinity, 0, _CORES)
        stack.push_async_callback(slots.close)
        os.sched_setaffinity(0, cores[0].engine)
        identified = partial(
            identify,
            task_spec=setup.task_spec,
            language=language,
            settings=setup.settings,
            threads=setup.threads,
            device=setup.device_class,
            expert=expert.candidate.id if expert else "",
        )
        file = ""
        async with slots.take() as slot:
            if joins is None:
                task, (judge, hello) = await _open_first(slot, setup, lock)
                task = task.on(setup.device_class)
                if expert is not None:
                    added = expert_baseline(expert, judge, task, lock=lock, cores=cores[0].compilers)
                    file, baseline_us = await stack.enter_async_context(added)
                    hello |= {"baseline_us": baseline_us}
                joins = JoinedRun(identified(hello), tuple(hello["distributions"]), judge.hidden)
            else:
                task = (await asyncio.to_thread(load_task, setup.task_spec)).on(setup.device_class)
                _check_equal(joins.identity, identified)
                own = replace(setup, distributions=joins.distributions)
                async with lock.alone():
                    again = own.joining(joins.identity, expert="", probes=joins.hidden)
                    await slot.reopen(again, device=joins.identity.device)
        evaluator = LocalEvaluator(
            joins.identity,
            task,
            language=language,
            setup=replace(setup, distributions=joins.distributions),
            expert=file,
            hidden=joins.hidden,
            slots=slots,
            builder=builder,
        )
        stack.push_async_callback(evaluator.close)
        yield evaluator


def _check_equal(run: EvaluatorIdentity, identified: Callable[[Message], EvaluatorIdentity]) -> None:
    """Refuse a run whose verdicts would have other keys here. Raises `HarnessError`."""
    hello = {"device": run.device, "sheet": run.device_sheet, "sandbox": run.sandbox, "baseline_us": run.baseline_us}
    here = identified(hello)
    if here.environment != run.environment:
        raise HarnessError(f"kernels are built by {here.environment} here, and in this run by {run.environment}")
    if here.task_hash != run.task_hash:
        raise HarnessError("the text of the task is another one here; give every host the same file")


async def _open_first(
    slot: DeviceSlot, setup: JudgeSetup, lock: BuildLock | NoBuildLock
) -> tuple[Task, tuple[SearchJudge, Message]]:
    """Return the task and its first judge, with the judge's hello."""
    async with lock.alone():
        opening = asyncio.create_task(slot.open(setup.first()))
        try:
            return await asyncio.gather(asyncio.to_thread(load_task, setup.task_spec), opening)
        finally:
            opening.cancel()  # the task could not be loaded: end the judge that is starting
            await asyncio.wait([opening])
