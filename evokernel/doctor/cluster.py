"""Checks of a Ray cluster: a finding for each node, with what it has and how it differs from this machine."""

import os
from collections.abc import Iterator
from typing import Any

from evokernel.doctor.finding import Finding, FindingLevel
from evokernel.evaluate.cluster.connection import connect
from evokernel.evaluate.cluster.fingerprint import ON_EVERY_MACHINE, Fingerprint, differences, fingerprint
from evokernel.evaluate.cluster.ray_hosts import CPU_HOSTS
from evokernel.evaluate.device.device_class import this_machine

_ANSWER_S = 60.0
_MODEL = "accelerator_type:"


def examine_cluster(address: str) -> Iterator[Finding]:
    """Yield a finding for each node of the cluster. Raises `ConfigError` where there is none at the address."""
    ray = connect(address)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = fingerprint(this_machine())
    expected = {name: here[name] for name in ON_EVERY_MACHINE}
    task = ray.remote(num_cpus=0, max_retries=0)(_fingerprint)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    calls = [
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ]
    for node, call in zip(nodes, calls, strict=True):
        name = f"node {node['NodeManagerHostname']} {node['NodeManagerAddress']}"
        try:
            found = ray.get(call, timeout=_ANSWER_S)
        except ray.exceptions.RayError as error:
            advice = "install evokernel there, with the same Python and the same packages as here"
            yield Finding(name, FindingLevel.MISSING, f"evokernel cannot run there: {_last_line(error)}", advice)
        else:
            yield _node(name, node["Resources"], found, expected)
    ray.shutdown()


def _fingerprint() -> Fingerprint:
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray hides every GPU from a task that asks for none
    return fingerprint(this_machine())


def _node(name: str, resources: dict[str, float], found: Fingerprint, expected: Fingerprint) -> Finding:
    models = [key.removeprefix(_MODEL) for key in resources if key.startswith(_MODEL)]
    offers = {**dict.fromkeys(models, resources.get("GPU", 0)), "CPU": resources.get(CPU_HOSTS, 0)}
    offered = ", ".join(f"{model}: {count:.0f}" for model, count in offers.items() if count) or "no host"
    text = f"{offered}; {found['device']}, driver {found['driver']}, torch {found['torch']}, triton {found['triton']}"
    wrong = differences(expected, found)
    if wrong:
        return Finding(name, FindingLevel.MISSING, f"{text}; {wrong}", "install there what is installed here")
    if not any(offers.values()):
        advice = f"it judges nothing; to time kernels on its processor: ray start --resources '{{\"{CPU_HOSTS}\": 1}}'"
        return Finding(name, FindingLevel.OK, text, advice)
    return Finding(name, FindingLevel.OK, text)


def _last_line(error: Any) -> str:
    return str(error).strip().rpartition("\n")[2]
