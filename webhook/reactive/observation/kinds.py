"""
The kinds of workloads that policies are about, and what is kept of one.

Here are the nine with short names; `mapped.py` has the others. Of most only the metadata is sent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from webhook.clients.informer import Resource
from webhook.model.counts import read_count
from webhook.model.rightsizing.controls import (
    NO_CONTROLS,
    PAUSE_UNTIL,
    SKIP_CONTAINERS,
    Controls,
)
from webhook.model.rightsizing.recommendations import WorkloadRef
from webhook.model.rightsizing.workload_types import type_of
from webhook.reactive.decisions.scopes import ScopedWorkload
from webhook.reactive.observation.allocations import GpuAllocation
from webhook.reactive.observation.jobs import JobSpec, JobStatus, Retries, read_retries
from webhook.reactive.observation.keyed import Keyed
from webhook.reactive.observation.pods import PodTemplate, allocation_of
from webhook.store.object_metadata import Metadata, OwnerRef, controller_of

_NO_LABELS: Mapping[str, str] = {}
_PERCENT = 100
_ROLLING_UPDATE = "RollingUpdate"
# A quarter of their pods may be away, rounded down, unless they say something else.
_LIKE_DEPLOYMENTS = ("Deployment", "Rollout")


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """
    Where objects of a kind are, in each of *versions* that may be served.

    *rolls* is whether their spec says how many pods may be away at a time, *retries* whether it
    says how many pods may fail. A *builtin* one is served by every cluster.
    """

    kind: str
    group: str
    versions: tuple[str, ...]
    plural: str
    rolls: bool = False
    retries: bool = False
    builtin: bool = False

    @property
    def type(self) -> str:
        """How `scope.workloadTypes` names it."""
        return type_of(self.group, self.kind)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What to watch: the same objects in each version."""
        return tuple(
            [
                Resource(
                    # Metrics tell resources apart by their names.
                    f"{self.plural}.{self.group}" + (f"/{version}" if self._is_ambiguous else ""),
                    f"/apis/{self.group}/{version}/{self.plural}",
                    optional=not self.builtin,
                    metadata_only=not (self.rolls or self.retries),
                )
                for version in self.versions
            ]
        )

    @property
    def _is_ambiguous(self) -> bool:
        return len(self.versions) > 1


WORKLOAD_KINDS: Mapping[str, WorkloadKind] = {
    each.kind: each
    for each in (
        WorkloadKind("Deployment", "apps", ("v1",), "deployments", rolls=True, builtin=True),
        WorkloadKind("StatefulSet", "apps", ("v1",), "statefulsets", rolls=True, builtin=True),
        WorkloadKind("DaemonSet", "apps", ("v1",), "daemonsets", rolls=True, builtin=True),
        WorkloadKind("Job", "batch", ("v1",), "jobs", retries=True, builtin=True),
        WorkloadKind("CronJob", "batch", ("v1",), "cronjobs", builtin=True),
        WorkloadKind("Rollout", "argoproj.io", ("v1alpha1",), "rollouts", rolls=True),
        WorkloadKind("AnalysisRun", "argoproj.io", ("v1alpha1",), "analysisruns"),
        WorkloadKind("Model", "kubeai.org", ("v1",), "models"),
        # Strimzi serves v1 since 0.49, and v1beta2 until 0.51.
        WorkloadKind("StrimziPodSet", "core.strimzi.io", ("v1beta2", "v1"), "strimzipodsets"),
    )
}


@dataclass(frozen=True, slots=True)
class Rollout:
    """
    How a Deployment, StatefulSet, DaemonSet or Argo's Rollout replaces its pods.

    *replicas* are wanted; of a DaemonSet, pods on the nodes that it is for. *max_unavailable* is
    as written: a number, a percentage, or None for the *default* of its kind.
    """

    replicas: int
    strategy: str
    max_unavailable: int | str | None = None
    rounds_up: bool = False
    default: int | str = 1

    @property
    def unavailable_allowed(self) -> int | None:
        """
        How many pods a rolling update lets be away; None where there is no rolling update.

        At least one: with less, an update makes a pod more first, which an eviction can't. Who
        wants none to be away says so by a PodDisruptionBudget.
        """
        if self.strategy != _ROLLING_UPDATE:
            return None
        given = self.default if self.max_unavailable is None else self.max_unavailable
        return max(1, _part_of(given, self.replicas, rounds_up=self.rounds_up))


def _part_of(amount: int | str, whole: int, *, rounds_up: bool) -> int:
    """*amount*, or so many percent of *whole*; 0 where it is neither."""
    if isinstance(amount, int):
        return amount
    percent = read_count(amount.removesuffix("%")) if amount.endswith("%") else None
    if percent is None:
        return 0
    part = percent * whole
    return -(-part // _PERCENT) if rounds_up else part // _PERCENT


class SeenWorkload(Keyed, msgspec.Struct, frozen=True, gc=False):
    """
    One workload. *name* is its key, `namespace/name`.

    *type* is how `scope.workloadTypes` names its kind. *template_controls* are the annotations of
    its pod template, where it is known; pods take them over when they are made. *template_gpus* is
    what the template asks for; None where it is not known. One that *is_ending* is being deleted,
    and makes no pods any more. *retries* are a Job's.
    """

    name: str
    resource_version: str
    api_version: str
    kind: str
    type: str
    uid: str
    labels: Mapping[str, str]
    owner: OwnerRef | None
    controls: Controls
    template_controls: Controls
    rollout: Rollout | None
    template_gpus: GpuAllocation | None = None
    is_ending: bool = False
    retries: Retries | None = None

    @property
    def workload_name(self) -> str:
        return self.name.partition("/")[2]

    @property
    def ref(self) -> WorkloadRef:
        return WorkloadRef(self.api_version, self.kind, self.workload_name, self.uid)

    @property
    def scoped(self) -> ScopedWorkload:
        """The workload as scopes see it."""
        return ScopedWorkload(self.namespace, self.type, self.workload_name, self.labels)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


# --- reading ---


class _RollingUpdate(msgspec.Struct, gc=False):
    max_unavailable: int | str | None = msgspec.field(default=None, name="maxUnavailable")


class _Strategy(msgspec.Struct, gc=False):
    type: str = ""
    rolling_update: _RollingUpdate | None = msgspec.field(default=None, name="rollingUpdate")
    # Argo's, of which a Rollout has one.
    canary: _RollingUpdate | None = None
    blue_green: _RollingUpdate | None = msgspec.field(default=None, name="blueGreen")


class _Spec(msgspec.Struct, gc=False):
    replicas: int | None = None
    # A Deployment's name for it, and that of the others.
    strategy: _Strategy | None = None
    update_strategy: _Strategy | None = msgspec.field(default=None, name="updateStrategy")
    template: PodTemplate | None = None


class _Status(msgspec.Struct, gc=False):
    desired: int = msgspec.field(default=0, name="desiredNumberScheduled")


class _RollingWorkload(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _Job(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class _Workload(msgspec.Struct, gc=False):
    metadata: Metadata


_JOB = msgspec.json.Decoder(_Job)
_ROLLING = msgspec.json.Decoder(_RollingWorkload)
_WORKLOAD = msgspec.json.Decoder(_Workload)


def decode_workload(raw: bytes, kind: WorkloadKind, version: str) -> SeenWorkload:
    """
    Read one object of *kind*, or its metadata alone.

    Raises:
        msgspec.DecodeError: *raw* is none.
    """
    spec: _Spec | None = None
    status: _Status | None = None
    retries: Retries | None = None
    if kind.rolls:
        read = _ROLLING.decode(raw)
        metadata, spec, status = read.metadata, read.spec, read.status
    elif kind.retries:
        job = _JOB.decode(raw)
        metadata, retries = job.metadata, read_retries(job.spec, job.status)
    else:
        metadata = _WORKLOAD.decode(raw).metadata
    template = None if spec is None else spec.template
    annotations = None if template is None else template.annotations
    return SeenWorkload(
        name=metadata.key,
        resource_version=metadata.resource_version,
        api_version=sys.intern(f"{kind.group}/{version}"),
        kind=kind.kind,
        type=sys.intern(kind.type),
        uid=metadata.uid,
        labels=metadata.labels or _NO_LABELS,
        owner=controller_of(metadata.owners),
        controls=_controls(metadata.annotations),
        template_controls=_controls(annotations),
        rollout=None if spec is None else _rollout(kind, spec, status or _Status()),
        template_gpus=None if template is None else allocation_of(template),
        is_ending=metadata.deleted is not None,
        retries=retries,
    )


def _controls(annotations: Mapping[str, str] | None) -> Controls:
    if annotations and (PAUSE_UNTIL in annotations or SKIP_CONTAINERS in annotations):
        return Controls.of(annotations)
    return NO_CONTROLS


def _rollout(kind: WorkloadKind, spec: _Spec, status: _Status) -> Rollout:
    strategy = spec.strategy or spec.update_strategy or _Strategy()
    is_argo = kind.kind == "Rollout"
    rolling = strategy.canary or strategy.blue_green if is_argo else strategy.rolling_update
    is_everywhere = kind.kind == "DaemonSet"
    return Rollout(
        replicas=status.desired if is_everywhere else _or(spec.replicas, 1),
        strategy=_ROLLING_UPDATE if is_argo else sys.intern(strategy.type),
        max_unavailable=None if rolling is None else rolling.max_unavailable,
        # Kubernetes: "Deployments", "DaemonSets", fields of rollingUpdate. Argo Rollouts:
        # "Specification", maxUnavailable of both strategies.
        rounds_up=kind.kind not in _LIKE_DEPLOYMENTS,
        default="25%" if kind.kind in _LIKE_DEPLOYMENTS else 1,
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
