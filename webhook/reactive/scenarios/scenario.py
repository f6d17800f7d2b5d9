"""
Scenarios: workloads, their pods and samples at given times, to try a policy on without a cluster.

A scenario is replayed under the policies, strategies and settings that stand beside it, in the
same file or in others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from webhook.errors import SpecError
from webhook.model.documents import is_ours, parse_spec
from webhook.model.kinds import POLICY_GROUP, VERSION
from webhook.model.manifests import Manifest
from webhook.model.names import did_you_mean
from webhook.model.rightsizing.documents import (
    KINDS,
    is_rightsizing,
    key_of,
    read_document,
    warnings_of,
)
from webhook.model.rightsizing.policies import (
    DEFAULT_PRIORITIES,
    DocumentKey,
    GlobalSettings,
    Mode,
    Precedence,
    ReactivePolicy,
    Signal,
    Strategy,
)
from webhook.model.rightsizing.workload_types import read_type
from webhook.reactive.decisions.scopes import ScopedWorkload, keeps_names
from webhook.reactive.decisions.states import Baseline, ObservedPod, Recommendation, WorkloadState
from webhook.reactive.decisions.windows import Series
from webhook.reactive.scenarios.specs import (
    MINUTE,
    PodSpec,
    PreviousSpec,
    Recreate,
    SamplesSpec,
    ScenarioSpec,
    WorkloadSpec,
)

KIND = "GpuScenario"

# Guesses that bound the work: a month of minutes, and two signals of a hundred pods for a week.
MAX_STEPS = 50_000
MAX_SAMPLES = 2_000_000
# Names of files in one message.
_MAX_LISTED = 3


@dataclass(frozen=True, slots=True)
class ScenarioWorkload:
    """A workload at the start."""

    ref: ScopedWorkload
    state: WorkloadState
    pods: tuple[ObservedPod, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    What is replayed, and under which documents.

    *series* are by signal and pod, copies of one series each by itself. *warnings* say what may
    be meant otherwise.
    """

    policies: tuple[ReactivePolicy, ...]
    strategies: Mapping[DocumentKey, Strategy]
    settings: GlobalSettings
    precedence: Precedence
    start: datetime
    duration: timedelta
    step: timedelta
    recreate: Recreate
    workloads: tuple[ScenarioWorkload, ...]
    series: Mapping[tuple[Signal, str], tuple[Series, ...]]
    warnings: tuple[str, ...] = ()

    @property
    def times(self) -> Iterator[datetime]:
        """When the policies are evaluated: from the start to the end, both included."""
        for index in range(self.duration // self.step + 1):
            yield self.start + index * self.step


def read_scenario(manifests: Sequence[Manifest]) -> Scenario:
    """
    The only scenario among *manifests*, with the documents beside it.

    Raises:
        ExceptionGroup: of SpecError, one for each problem; its path begins with the document.
    """
    problems: list[SpecError] = []
    documents = _Documents()
    specs: list[tuple[Manifest, ScenarioSpec | None]] = []
    for manifest in manifests:
        found: list[SpecError] = []
        if not isinstance(manifest.value, dict):
            found.append(SpecError("", "must be an object"))
        elif is_rightsizing(manifest.value):
            found += documents.add(manifest)
        else:
            spec = _parse_scenario(manifest.value, found)
            if manifest.value.get("kind") == KIND:
                specs.append((manifest, spec))
        problems += [_at(manifest, problem) for problem in found]
    if len(specs) != 1:
        sources = dict.fromkeys([manifest.source for manifest in manifests])
        source = ", ".join(sources) if 0 < len(sources) <= _MAX_LISTED else "the files"
        count = "no" if not specs else "more than one"
        problems.append(SpecError(source, f"there is {count} {KIND}; one is needed"))
    scenario: Scenario | None = None
    for manifest, spec in specs[:1]:
        if spec is not None:
            step = documents.settings.check_interval if spec.step is None else spec.step
            problems += [_at(manifest, problem) for problem in _judge(spec, step)]
            if not problems:
                scenario = _build(manifest, spec, step, documents)
    if scenario is None:
        raise ExceptionGroup("the scenario can't be replayed", problems)
    return scenario


def enforced(scenario: Scenario) -> Scenario:
    """*scenario* as if every policy acted, in whatever mode it is."""
    policies = [replace(policy, mode=Mode.ENFORCE) for policy in scenario.policies]
    return replace(scenario, policies=tuple(policies))


def is_scenario(value: Any) -> bool:
    """Whether a document is meant for a scenario: by its kind, in any version of our group."""
    return isinstance(value, dict) and value.get("kind") == KIND and is_ours(value)


def check_scenario(value: Mapping[str, Any]) -> tuple[Sequence[SpecError], Sequence[SpecError]]:
    """
    What is wrong with a scenario by itself, and what may be meant otherwise.

    Without a step of its own it is judged with the default one, whatever a GlobalConfiguration
    says.
    """
    problems: list[SpecError] = []
    spec = _parse_scenario(value, problems)
    if spec is None:
        return problems, ()
    step = GlobalSettings().check_interval if spec.step is None else spec.step
    return [*problems, *_judge(spec, step)], [*_unknown_kinds(spec), *_unknown_series(spec)]


def _at(manifest: Manifest, problem: SpecError) -> SpecError:
    where = f"{manifest.name}: {problem.path}" if problem.path else manifest.name
    return SpecError(where, problem.problem)


class _Documents:
    """The documents beside a scenario, as they are found."""

    def __init__(self) -> None:
        self.policies: list[ReactivePolicy] = []
        self.strategies: dict[DocumentKey, Strategy] = {}
        self.settings = GlobalSettings()
        self.precedence: Precedence = DEFAULT_PRIORITIES
        self.manifests: dict[DocumentKey, Manifest] = {}

    def add(self, manifest: Manifest) -> Sequence[SpecError]:
        """Read one more; what is wrong with it is returned."""
        try:
            document = read_document(manifest.value)
        except ExceptionGroup as group:
            return [error for error in group.exceptions if isinstance(error, SpecError)]
        key = key_of(manifest.value)
        if key in self.manifests:
            return [SpecError("metadata.name", f"{key} is also {self.manifests[key].name}")]
        self.manifests[key] = manifest
        match document:
            case ReactivePolicy():
                self.policies.append(document)
            case Strategy():
                self.strategies[document.key] = document
            case GlobalSettings():
                self.settings = document
            case _:
                self.precedence = document
        return ()

    def warnings(self) -> Iterator[str]:
        for manifest in self.manifests.values():
            for warning in warnings_of(manifest.value, strategies=self.strategies):
                yield str(_at(manifest, warning))


def _parse_scenario(value: Mapping[str, Any], problems: list[SpecError]) -> ScenarioSpec | None:
    kind = value.get("kind")
    if kind != KIND:
        hint = did_you_mean(str(kind), (*KINDS, KIND))
        problems.append(SpecError("kind", f"{kind!r} is no kind that a scenario knows{hint}"))
        return None
    if value.get("apiVersion") != f"{POLICY_GROUP}/{VERSION}":
        problems.append(SpecError("apiVersion", f"must be {POLICY_GROUP}/{VERSION}"))
    for key in value:
        if key not in ("apiVersion", "kind", "metadata", "spec"):
            hint = did_you_mean(key, ("metadata", "spec"))
            problems.append(SpecError(key, f"unknown field{hint}"))
    return parse_spec(ScenarioSpec, value.get("spec"), "spec", problems)


def _judge(spec: ScenarioSpec, step: timedelta) -> Iterator[SpecError]:
    """What is wrong beyond the single fields."""
    if step <= timedelta():
        yield SpecError("spec.step", "must be more than 0")
    elif spec.duration < timedelta():
        yield SpecError("spec.duration", "must not be negative")
    elif spec.duration // step >= MAX_STEPS:
        yield SpecError("spec.duration", f"has more than {MAX_STEPS} steps")
    samples = 0
    for index, entry in enumerate(spec.samples):
        samples += entry.count
        if samples > MAX_SAMPLES:
            yield SpecError(f"spec.samples[{index}]", f"there are more than {MAX_SAMPLES} samples")
            break
    pods: set[tuple[str, str]] = set()
    refs: set[tuple[str, str, str]] = set()
    for index, workload in enumerate(spec.workloads):
        path = f"spec.workloads[{index}]"
        ref = (workload.namespace, workload.kind, workload.name)
        if ref in refs:
            yield SpecError(f"{path}.name", f"{workload.name!r} is there already")
        refs.add(ref)
        for number, pod in enumerate(workload.pods):
            where = f"{path}.pods[{number}]"
            if (workload.namespace, pod.name) in pods:
                yield SpecError(f"{where}.name", f"{pod.name!r} is there already")
            pods.add((workload.namespace, pod.name))
            for name in pod.init_containers.keys() & pod.containers.keys():
                yield SpecError(f"{where}.initContainers.{name}", "is a container already")
    try:
        spec.start + max([spec.duration, *[entry.to or entry.since for entry in spec.samples]])
        for entry in spec.samples:
            spec.start + entry.since + (entry.count * MINUTE)
        for workload in spec.workloads:
            for pod in workload.pods:
                spec.start - (pod.age or timedelta())
    except OverflowError:
        yield SpecError("spec.start", "leads out of the years 1 to 9999")


def _build(
    manifest: Manifest, spec: ScenarioSpec, step: timedelta, documents: _Documents
) -> Scenario:
    series: dict[tuple[Signal, str], list[Series]] = {}
    for entry in spec.samples:
        series.setdefault((entry.signal, entry.pod), []).append(_series(entry, spec.start))
    doubts = [*_unknown_kinds(spec), *_unknown_series(spec)]
    unknown = [str(_at(manifest, warning)) for warning in doubts]
    return Scenario(
        policies=tuple(documents.policies),
        strategies=documents.strategies,
        settings=documents.settings,
        precedence=documents.precedence,
        start=spec.start,
        duration=spec.duration,
        step=step,
        recreate=spec.recreate,
        workloads=tuple(_workload(workload, spec.start) for workload in spec.workloads),
        series={key: tuple(found) for key, found in series.items()},
        warnings=(*documents.warnings(), *unknown),
    )


def _series(entry: SamplesSpec, start: datetime) -> Series:
    first = start + entry.since
    values = entry.values or [entry.value] * entry.count
    samples = [
        (first + index * MINUTE, value) for index, value in enumerate(values) if value is not None
    ]
    return Series(
        key=(entry.pod, entry.container, entry.gpu),
        times=[time for time, _ in samples],
        values=[value for _, value in samples],
    )


def _unknown_series(spec: ScenarioSpec) -> Iterator[SpecError]:
    pods = {pod.name: pod for workload in spec.workloads for pod in workload.pods}
    for index, entry in enumerate(spec.samples):
        pod = pods.get(entry.pod)
        if pod is None:
            hint = did_you_mean(entry.pod, pods)
            yield SpecError(f"spec.samples[{index}].pod", f"there is no {entry.pod!r}{hint}")
        elif entry.container not in {*pod.containers, *pod.init_containers}:
            hint = did_you_mean(entry.container, {*pod.containers, *pod.init_containers})
            path = f"spec.samples[{index}].container"
            yield SpecError(path, f"pod {entry.pod} has no {entry.container!r}{hint}")


def _workload(spec: WorkloadSpec, start: datetime) -> ScenarioWorkload:
    previous = spec.previous or PreviousSpec()
    state = WorkloadState(
        {name: Baseline(amount, start, "scenario") for name, amount in previous.baseline.items()},
        Recommendation(previous.containers, previous.driver) if previous.containers else None,
    )
    ref = ScopedWorkload(spec.namespace, _type(spec.kind), spec.name, spec.labels)
    return ScenarioWorkload(ref, state, tuple(_pod(pod, start, ref.kind) for pod in spec.pods))


def _type(kind: str) -> str:
    """*kind* as `scope.workloadTypes` names it; one that it can't name is nobody's."""
    try:
        return read_type(kind)
    except ValueError:
        return kind


def _unknown_kinds(spec: ScenarioSpec) -> Iterator[SpecError]:
    for index, workload in enumerate(spec.workloads):
        try:
            read_type(workload.kind)
        except ValueError as error:
            yield SpecError(f"spec.workloads[{index}].kind", str(error))


def _pod(spec: PodSpec, start: datetime, kind: str) -> ObservedPod:
    restartable = {name: c for name, c in spec.init_containers.items() if c.restartable}
    allocations = {name: c.gpu for name, c in {**spec.containers, **restartable}.items()}
    started = spec.start_time if spec.age is None else start - spec.age
    if "start_time" in spec.model_fields_set and spec.start_time is None:
        started = None
    return ObservedPod(spec.name, started, allocations, keeps_name=keeps_names(kind))
