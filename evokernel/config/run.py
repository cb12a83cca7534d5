"""Settings of a run; `load` reads them from YAML."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, model_validator

from evokernel.config.islands import IslandConfig, NicheConfig
from evokernel.config.models import ModelConfig
from evokernel.config.notify import NotifyConfig
from evokernel.config.part import Part, parts_in, texts_in
from evokernel.config.places import Location
from evokernel.config.topology import Topology, wrong_routes
from evokernel.errors import ConfigError

DeviceClass = Literal["cpu", "cuda"]
LANGUAGE_OF: Mapping[str, str] = {"cpu": "cpp", "cuda": "triton"}
"""The language that is evolved on each class of devices, unless another is asked for."""
DEVICE_OF: Mapping[str, DeviceClass] = {"cpp": "cpu", "triton": "cuda", "cuda": "cuda"}
"""The class of devices that each language runs on."""
SUFFIXES: Mapping[str, str] = {".cpp": "cpp", ".cu.py": "cuda", ".py": "triton"}
"""Languages by the end of a source file's name; the first that fits counts."""
_AXES: Mapping[DeviceClass, Mapping[str, tuple[float, ...]]] = {
    "cpu": {"vector_bits": (128, 256, 512), "spills": (1, 16), "code_bytes": (1024, 4096)},
    "cuda": {"registers": (64, 128, 200), "shared_kib": (1, 64, 160), "tensor_cores": (1, 2), "spills": (1,)},
}
DESCRIPTORS: Mapping[DeviceClass, frozenset[str]] = {
    "cpu": frozenset(_AXES["cpu"]),
    "cuda": frozenset({*_AXES["cuda"], "occupancy", "kernels"}),
}
"""Names of what is read from compiled code, by device class."""
_CUDA_CLOCKS: Mapping[str, float] = {"final_ms": 750.0, "timeout_s": 10.0, "compile_timeout_s": 60.0}


def language_of(file: str | Path) -> str | None:
    """Return the language of a source file by its name, or None."""
    return next((language for suffix, language in SUFFIXES.items() if str(file).endswith(suffix)), None)


class BudgetConfig(Part):
    """Limits of a run; the first one reached ends it. Counted over all sessions of a store.

    A budget needs one of evaluations, hours and plateau: a run may never reach the others.
    """

    evaluations: int | None = Field(default=None, gt=0)
    """Candidates judged."""
    hours: float | None = Field(default=None, gt=0)
    """Hours of running, over all sessions."""
    dollars: float | None = Field(default=None, gt=0)
    """Money for models. evokernel does not make a call that could cost more than is left."""
    tokens: int | None = Field(default=None, gt=0)
    """Tokens of prompts and replies."""
    calls: int | None = Field(default=None, gt=0)
    """Calls of models, failed ones among them."""
    plateau: int | None = Field(default=None, gt=0)
    """Evaluations without a better kernel."""
    roofline: float | None = Field(default=None, gt=0, le=1)
    """Share of the device's physical limit that the best kernel must reach."""
    stoppers: tuple[str, ...] = ()
    """Rules of your own, each as `package.module:Class`."""
    when_spent: Literal["end", "rules"] = "end"
    """`end` the run when its dollars, tokens or calls are used, or go on with `rules`, which ask no model."""

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield a budget that a run may never use up; a misspelt limit is told by itself."""
        endless = all(raw.get(name) is None for name in ("evaluations", "hours", "plateau"))
        if endless and not raw.keys() - cls.model_fields:
            yield (), "a budget needs at least one of evaluations, hours, plateau: the others may never be reached"


class EvaluationConfig(Part):
    """Settings of the judge. Part of the identity of a run. A missing value is the device class's own."""

    quick_ms: float = Field(default=60, gt=0, le=3_600_000)
    """Clock time per workload for every correct candidate, in ms."""
    precise_ms: float = Field(default=250, gt=0, le=3_600_000)
    """Clock time per workload for a candidate that may be the best, in ms."""
    final_ms: float = Field(default=1000, gt=0, le=3_600_000)
    """Clock time per workload for a winner, in ms, shared by its fresh processes."""
    final_processes: int = Field(default=3, ge=1, le=16)
    """Fresh processes a winner is measured in."""
    timeout_s: float = Field(default=20, gt=0, le=86_400)
    """The longest a candidate may run for one call or batch, in s."""
    compile_timeout_s: float = Field(default=10, gt=0, le=86_400)
    """The longest a compiler may take, in s."""
    memory_mib: int = Field(default=4096, ge=256, le=2**24)
    """Address space a candidate may use on a processor, in MiB."""
    sandbox: Literal["auto", "full", "landlock", "rlimits"] = "auto"
    """The strongest level to use; auto takes the best that this machine offers."""
    gpus: Literal["all"] | Annotated[int, Field(ge=1)] = "all"
    """GPUs that judge candidates at the same time: all visible ones of the first one's model, or at most this many."""
    hosts: Literal["local", "ray"] = "local"
    """Where candidates are built and judged: on this machine, or on hosts of a Ray cluster (docs/cluster.md)."""
    address: str = "auto"
    """The address of the Ray cluster, as HOST:PORT; `auto` for the one that this machine belongs to."""
    devices: Mapping[str, Annotated[int, Field(ge=1)]] = {}
    """The most hosts to use in the cluster, under the one model of their devices: {H100: 8}, or {CPU: 2}."""
    max_autotune: bool = False
    """Measure winners against torch.compile with max-autotune too, where a task has torch.compile for a baseline; plain
    matrix products have cuBLASLt instead. Each fresh process then waits for its trials: 20 s, and more than a minute
    for a matrix product with an epilogue.
    """
    expert: str = ""
    """The file of a kernel to beat, relative to the config. It is judged as candidates are, and then serves as one more
    baseline, `expert`. evokernel trusts it as it trusts the task. Empty for none.
    """
    cuda_include: tuple[str, ...] = ()
    """Folders of headers for CUDA C++, such as CUTLASS's include, relative to the config. Sources find what is in them
    by `#include <...>`; compilers can only read them. A verdict holds for their contents.
    """

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield settings of a cluster without one, and a cluster without its devices."""
        hosts, devices = raw.get("hosts", "local"), raw.get("devices") or {}
        if hosts == "local" and devices:
            yield ("devices",), "devices are those of a cluster: add hosts: ray, or remove devices"
        if hosts == "ray" and isinstance(devices, Mapping) and len(devices) != 1:
            yield (
                ("hosts",),
                f"hosts: ray needs devices of one model, such as {{H100: 8}} or {{CPU: 2}}, and got "
                f"{dict(devices)}: times of two models do not compare",
            )
        if hosts == "ray" and raw.get("expert"):
            yield ("expert",), "expert is a baseline on this machine only; remove it, or use hosts: local"

    def on(self, device: DeviceClass) -> "EvaluationConfig":
        """Return the settings with every value given: those that were, and the device class's own for the others."""
        own = _CUDA_CLOCKS if device == "cuda" else {}
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return EvaluationConfig(**{**EvaluationConfig().model_dump(), **own, **given})


class MigrationConfig(Part):
    """The exchange between islands, by step of the run and never by the clock."""

    every: int = Field(default=40, gt=0)
    """Results between two exchanges."""
    count: int = Field(default=1, gt=0)
    """Elites each island sends to each neighbour."""


class ConstraintsConfig(Part):
    """Limits for every kernel, beside being right. Checked before a kernel is timed, and part of every prompt."""

    forbid: tuple[str, ...] = ()
    """Regular expressions that no source may match, its comments included, for example use_fast_math or tl\\.atomic."""
    shared_bytes: int | None = Field(default=None, ge=0)
    """The most shared memory one block may use, in bytes."""
    registers: int | None = Field(default=None, ge=16, le=255)
    """The most registers one thread may use."""
    deterministic: bool = False
    """Refuse kernels whose bits differ from run to run on equal inputs, such as sums by atomic operations. Otherwise
    they are accepted within the tolerance, and marked: on a GPU where racecheck of compute-sanitizer finds no race, on
    a processor with several threads."""

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield patterns that are no regular expressions."""
        for pattern in texts_in(raw.get("forbid")):
            try:
                re.compile(pattern)
            except re.error as error:
                yield ("forbid",), f"{pattern!r} is not a regular expression: {error}"


class RunConfig(Part):
    """All settings of a run."""

    task: str
    """A built-in task or the path of a task file, relative to the config."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """The class of devices to evolve for; auto takes an NVIDIA GPU if there is one that the task can use."""
    language: Literal["auto", "cpp", "triton", "cuda"] = "auto"
    """The language of the candidates; auto takes that of the seed sources, or else cpp for cpu and triton for cuda."""
    seed: int = Field(default=0, ge=0)
    """The number from which every random choice of the search comes."""
    seed_sources: tuple[str, ...] = ()
    """Files of kernels to start from, relative to the config; none for the task's own seed."""
    store: str = ""
    """The SQLite file, from the current folder on; empty for runs/<name of the config>.db beside the config."""
    threads: int = Field(default=1, ge=1, le=4096)
    """Threads a candidate and its baseline may use; above 1 candidates may use OpenMP."""
    budget: BudgetConfig
    evaluation: EvaluationConfig = EvaluationConfig()
    islands: tuple[IslandConfig, ...] = Field(min_length=1)
    """The populations, one at least; in a ring or a star their order decides which are neighbours."""
    topology: Topology = "ring"
    """`ring`, `star` or `full`; or, for each island that sends elites, a list of its receivers, such as
    {one: [two, three], two: [one]}; or `package.module:function`, which returns such lists for the names."""
    migration: MigrationConfig = MigrationConfig()
    reset_after: int | None = Field(default=150, gt=0)
    """After this many results without a better elite, an island of the weaker half starts again from a survivor of
    another island, unless it alone holds the fastest kernel on a workload."""
    models: tuple[ModelConfig, ...] = ()
    """Models that operators may ask; without any, prompts wait for `evokernel ask` and `tell`."""
    prompts: str = ""
    """A folder of your own prompts (NAME.md.j2), relative to the config; one with a built-in name replaces that one."""
    plugins: str = ""
    """A folder with plug-ins, the modules that `package.module:Class` names, relative to the config; if left out, the
    config's own folder. Python's path is searched first."""
    prompt_tokens: int = Field(default=16000, ge=1000)
    """The longest prompt, in tokens as estimated; the least useful parts are dropped first."""
    prompt_feedback: Literal["none", "correctness", "times", "profile"] = "profile"
    """The evaluator's words in prompts: `none`, `correctness`, `times` too, or all with `profile`."""
    prompt_history: Literal["last", "best", "ascending", "all"] = "all"
    """The earlier changes in prompts: the `last`, the `best`, the right ones `ascending`, or `all`."""
    repairs: int = Field(default=3, ge=0)
    """The most times that a model's failed kernel, and its repaired versions, go back to be repaired."""
    plans: Literal["newest", "mean", "floor", "novel"] = "newest"
    """The strategy to implement next: the `newest`; the highest expected gain, `mean`, or its `floor`, both by what
    measured gains kept of predicted ones; or the most `novel`."""
    plans_per_call: int = Field(default=1, ge=1, le=8)
    """The strategies that one call for a plan asks for; above 1 each comes with its risk and its novelty."""
    hypotheses: bool = False
    """Keep a tree of bottlenecks and the changes meant to remove them: plans name one and are told what results say."""
    replies_from: tuple[str, ...] = ()
    """Other stores, relative to the config, whose replies serve equal requests; they cost nothing."""
    device_usd_per_hour: float = Field(default=2.0, ge=0)
    """The price of an hour of the device, in dollars, for operators chosen by gain and cost."""
    constraints: ConstraintsConfig = ConstraintsConfig()
    focus: tuple[Literal["tiling", "memory", "loops", "fusion", "arithmetic", "launch"], ...] = ()
    """Classes of transformations that rewrites are drawn from, and that models are told to keep to; all if left out.
    Other rules, such as `tune`, go on as before."""
    durable: Literal["kill", "power"] = "kill"
    """What no paid reply is lost by: a kill, or a power cut too, which waits for the disk at each call of a model."""
    notify: tuple[NotifyConfig, ...] = ()
    """Receivers of messages about the search."""
    in_flight: int = Field(default=0, ge=0, le=100_000)
    """Proposals that wait or are judged at once. 0 takes the number of processor cores plus one; with GPUs it takes the
    number of cores left for compilers, at most 12 for each GPU and at least 4; with hosts: ray, 12 for each GPU,
    4 for each processor."""

    @model_validator(mode="before")
    @classmethod
    def _one_decides_the_other(cls, raw: Any) -> Any:
        """Let seed sources or a given device class decide the language, and a language the device class."""
        if not isinstance(raw, Mapping):
            return raw
        device, language = (str(raw.get(name, "auto")) for name in ("device", "language"))
        meant = _language_of_all(raw.get("seed_sources"))
        if language == "auto":
            language = meant or LANGUAGE_OF.get(device, "auto")
        if language not in DEVICE_OF:
            return raw
        if device not in ("auto", DEVICE_OF[language]):
            return raw  # told by _language_and_device
        return {**raw, "language": language, "device": DEVICE_OF[language]}

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield names that are taken or unknown here, and settings that do not fit each other."""
        yield from _language_and_device(raw)
        models, islands = parts_in(raw.get("models")), parts_in(raw.get("islands"))
        yield from _taken_names("models", models)
        yield from _taken_names("islands", islands)
        known = [str(model.get("name")) for _, model in models]
        for number, island in islands:
            unknown = sorted(set(texts_in(island.get("models"))) - set(known))
            if unknown:
                yield (
                    ("islands", number, "models"),
                    f"island {island.get('name')!r} names models {unknown}, and the config has {known}",
                )
        routes = raw.get("topology")
        if isinstance(routes, Mapping) and all(isinstance(each, list | tuple) for each in routes.values()):
            lists = {name: texts_in(each) for name, each in routes.items()}
            names = [str(island.get("name")) for _, island in islands]
            yield from ((("topology",), problem) for problem in wrong_routes(lists, names))
        budget = raw.get("budget")
        if isinstance(budget, Mapping) and budget.get("dollars") is not None and not raw.get("models"):
            yield ("budget", "dollars"), "budget.dollars limits what models cost, and the config names no models"

    def on(self, device: DeviceClass) -> "RunConfig":
        """Return the config as it is for a class of devices: nothing auto, every default that depends on it given.

        Raises `ConfigError` for a selector's objective that is not measured there, an axis of niches that is measured
        nowhere (a config may be for two devices), and for headers that nothing reads.
        """
        anywhere = frozenset().union(*DESCRIPTORS.values())
        for island in self.islands:
            objective = island.selector.objective
            named = [("selector.objective", objective, DESCRIPTORS[device])] if objective else []
            named += [("niches.axes", axis, anywhere) for axis in island.niches.axes]
            for setting, name, known in named:
                if name not in known:
                    raise ConfigError(
                        f"island {island.name!r}: {setting} {name!r} is not measured on device class {device}; "
                        f"expected one of {', '.join(sorted(DESCRIPTORS[device]))}"
                    )
        islands = tuple(
            island if island.niches.axes else island.model_copy(update={"niches": NicheConfig(axes=_AXES[device])})
            for island in self.islands
        )
        language = self.language if DEVICE_OF.get(self.language) == device else LANGUAGE_OF[device]
        if self.evaluation.cuda_include and "cuda" not in (language, language_of(self.evaluation.expert)):
            raise ConfigError(
                f"evaluation.cuda_include names headers for CUDA C++, and kernels here are in {language}: remove it, "
                "or set language: cuda"
            )
        chosen = {"device": device, "language": language, "islands": islands}
        return self.model_copy(update={**chosen, "evaluation": self.evaluation.on(device)})


def _language_and_device(raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Yield a language that does not run on the device class, or that is not that of the seed sources."""
    device, language = (str(raw.get(name, "auto")) for name in ("device", "language"))
    meant = _language_of_all(raw.get("seed_sources"))
    if "auto" not in (meant or "auto", language) and meant != language:
        yield ("language",), f"the seed sources are in language {meant}, and language: {language} is asked for"
    named, known = (meant or "auto") if language == "auto" else language, set(DEVICE_OF.values())
    if named in DEVICE_OF and device in known and device != DEVICE_OF[named]:
        yield (
            ("device",),
            f"language {named} runs on device class {DEVICE_OF[named]}, and device: {device} is asked for; "
            "give one of the two, or neither",
        )


def _taken_names(kind: str, parts: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[Location, str]]:
    named = [(number, name) for number, part in parts if isinstance(name := part.get("name"), str)]
    names = [name for _, name in named]
    for place, (number, name) in enumerate(named):
        if name in names[:place]:
            yield (kind, number, "name"), f"{kind} need names of their own, got {names}"


def _language_of_all(sources: Any) -> str | None:
    """Return the one language of the seed sources by their names, or None. Other values are checked later."""
    named = sources if isinstance(sources, list | tuple) else ()
    found = {language_of(each) for each in named if isinstance(each, str)}
    return found.pop() if len(found) == 1 else None


def dump_config(config: RunConfig) -> str:
    """Return the resolved config as YAML."""
    text: str = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    return text


def flatten(config: RunConfig) -> dict[str, Any]:
    """Return every setting by dotted key."""
    return flat_settings(config.model_dump(mode="json"))


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return every setting of a resolved config, as JSON or YAML has it, by dotted key."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, Mapping) and value:
            for key, inner in value.items():
                walk(f"{prefix}.{key}" if prefix else str(key), inner)
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for index, inner in enumerate(value):
                walk(f"{prefix}.{inner.get('name', index)}", inner)
        else:
            flat[prefix] = value

    walk("", settings)
    islands = settings.get("islands", ())
    flat["islands"] = [island["name"] for island in islands]  # their order decides who neighbours whom
    return flat
