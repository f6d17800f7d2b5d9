"""
A recommendation as changes to a pod: whole GPUs, or a share of one as KAI takes it.

Whatever a pod asks for, it comes out as one that Kubernetes and KAI accept, or as it was, with
the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from webhook.mapping.homes import GPU_RESOURCE
from webhook.model.labels import is_label_value
from webhook.model.pointer import Path, lookup
from webhook.model.rightsizing.amounts import format_amount
from webhook.model.rightsizing.controls import Controls, pause_of, skipped_containers
from webhook.model.rightsizing.injections import Injection
from webhook.model.rightsizing.policies import Scheduler
from webhook.policy.gpu import gpu_share
from webhook.policy.gpu.before import (
    GPU_BEFORE,
    Asked,
    as_stored,
    format_before,
    parse_before,
)
from webhook.policy.gpu.pod import (
    MPS,
    SHARE_ANNOTATIONS,
    GpuContainer,
    PodGpus,
    UnclearError,
    annotations_of,
    read_gpus,
)
from webhook.policy.gpu.rounding import HUNDREDTHS, WHOLE, capped, rounded_up, share_of, whole_of

# Where KAI reads a pod's queue.
QUEUE_LABEL = "kai.scheduler/queue"

_DEVICES_FIELD = "compute.gpuDevicesRequest"
_PORTION_FIELD = "compute.gpuPortionRequest"

_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
# Values of it that hand out nothing.
_NO_DEVICES = ("", "void", "none")


@dataclass(frozen=True, slots=True)
class GpuChange:
    """One value to write, or to take away where *new* is None. *item* names the container."""

    path: Path
    field: str
    selector: str
    item: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a recommendation, or what it says of one container, is not written at *path*."""

    path: Path
    field: str
    item: str
    reason: str


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """
    What to write into a pod, and why not all of a recommendation. Neither: the pod asks for
    what it should.
    """

    changes: tuple[GpuChange, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def reason(self) -> str:
        """Why not all of the recommendation is written; ``""`` if it is."""
        return "; ".join(dict.fromkeys([found.reason for found in self.obstacles]))


def plan_injection(pod: Mapping[str, Any], injection: Injection) -> GpuPlan:
    """What *injection* writes into *pod*, which is not changed."""
    try:
        gpus = read_gpus(pod)
    except UnclearError as unclear:
        return _nothing(injection, unclear.problem, unclear.path)
    writer = _Writer(pod, injection, gpus)
    plan = writer.plan()
    if plan.changes:
        controls = (Controls.of(annotations_of(pod)), *injection.controls)
        paused = pause_of(controls, injection.now) if injection.respects_pause else ""
        if paused:
            return _nothing(injection, paused)
    return plan


def _nothing(injection: Injection, reason: str, path: Path = ("spec",), item: str = "") -> GpuPlan:
    is_share = injection.scheduler is Scheduler.KAI
    field = _PORTION_FIELD if is_share else _DEVICES_FIELD
    return GpuPlan(obstacles=(Obstacle(path, field, item, reason),))


class _Writer:
    """Plans for one pod. *changes* and *obstacles* gather what comes of it."""

    def __init__(self, pod: Mapping[str, Any], injection: Injection, gpus: PodGpus) -> None:
        self._pod = pod
        self._injection = injection
        self._gpus = gpus
        self._changes: list[GpuChange] = []
        self._obstacles: list[Obstacle] = []
        # By container, what was asked for where something else is written.
        self._before: dict[str, Asked] = {}
        # The same, of when the pod was looked at before.
        self._noted = parse_before(annotations_of(pod).get(GPU_BEFORE))

    def plan(self) -> GpuPlan:
        wanted = list(self._wanted())
        if self._injection.scheduler is Scheduler.NONE:
            self._write_whole(self._whole(wanted))
        else:
            self._plan_kai(wanted)
        self._write_before()
        return GpuPlan(tuple(self._changes), tuple(self._obstacles))

    def _wanted(self) -> Iterator[tuple[GpuContainer, Fraction]]:
        """The containers of the pod that the recommendation is about, and what they should have."""
        injection = self._injection
        controls = (Controls.of(annotations_of(self._pod)), *injection.controls)
        skipped = skipped_containers(controls)
        known = {container.name: container for container in self._gpus.containers}
        for name, amount in injection.amounts.items():
            if not amount.is_finite() or amount <= 0:
                continue  # Nobody is to lose its GPU by an injection.
            container = known.get(name)
            if container is None:
                self._refuse(None, f"the pod has no container {name}")
            elif self._gpus.asked(container) == Fraction(amount):
                continue  # As it is, whatever it would be rounded to.
            elif name in skipped:
                self._refuse(container, f"container {name} is to be skipped")
            elif container.ends:
                self._refuse(container, f"{name} is an init container that ends")
            elif self._is_owners(container):
                own, base = format_amount(self._own(container)), injection.baselines[name]
                self._refuse(
                    container,
                    f"its owner gives {name} {own} GPUs, and what is recommended was computed from"
                    f" {format_amount(base)}",
                )
            else:
                yield container, Fraction(amount)

    def _is_owners(self, container: GpuContainer) -> bool:
        """Whether the owner of *container* gives it another amount since it was looked at."""
        baseline = self._injection.baselines.get(container.name)
        return baseline is not None and self._own(container) != baseline

    def _own(self, container: GpuContainer) -> Decimal:
        """What *container* asks for by itself."""
        noted = self._noted.get(container.name)
        return as_stored(self._gpus.asked(container) if noted is None else noted.amount)

    # -- whole GPUs -------------------------------------------------------------------------

    def _whole(
        self, wanted: Sequence[tuple[GpuContainer, Fraction]]
    ) -> list[tuple[GpuContainer, int]]:
        """*wanted* without KAI, rounded up. A share that is there is KAI's, and stays."""
        share = self._gpus.share
        if share is not None and wanted:
            reason = "the pod has a share of a GPU, and the strategy writes whole ones only"
            self._refuse(wanted[0][0], reason)
            return []
        return [
            (container, int(count))
            for container, amount in wanted
            if (count := self._within(container, whole_of(amount), WHOLE)) is not None
        ]

    def _write_whole(self, counts: Sequence[tuple[GpuContainer, int]]) -> bool:
        """Whether any of *counts* is written, as limit and request."""
        gpus = self._gpus
        due = [
            (container, count)
            for container, count in counts
            if count != gpus.asked(container) and self._may(container, Fraction(count))
        ]
        total = gpus.total({container.name: count for container, count in due})
        for container, count in due:
            reason = _no_room(self._injection, count, total, gpus.total())
            if reason:
                self._refuse(container, reason)
                return False
        for container, count in due:
            self._before[container.name] = gpus.as_asked(container)
            for part in ("limits", "requests"):
                path = (*container.path, "resources", part, GPU_RESOURCE)
                self._write(path, str(count), _DEVICES_FIELD, container.name)
        return bool(due)

    # -- KAI --------------------------------------------------------------------------------

    def _plan_kai(self, wanted: Sequence[tuple[GpuContainer, Fraction]]) -> None:
        """A share of a GPU is one container's, and no other one has any then."""
        gpus = self._gpus
        owners = {container.name for container, _ in wanted}
        owners |= {container.name for container in gpus.containers if container.whole}
        owners |= {gpus.share.container} if gpus.share is not None else set()
        if not wanted:
            return
        if len(owners) == 1:
            container, amount = wanted[0]
            devices = gpus.share.devices if gpus.share is not None else 1
            found = share_of(amount, devices, self._injection.ceilings.get(container.name))
            if found is not None:
                share = self._within(container, *found)
                if share is not None:
                    self._plan_share(container, share / devices, devices)
                return
        elif gpus.share is not None:
            reason = f"KAI gives a share to one container only, and {gpus.share.container} has it"
            self._refuse(wanted[0][0], reason)
            return
        for container, amount in wanted:
            if len(owners) > 1 and rounded_up(amount) < 1 and not container.whole:
                self._refuse(container, "KAI gives a share to one container only")
                return
        counts = [
            (container, int(count))
            for container, amount in wanted
            if (count := self._within(container, whole_of(rounded_up(amount)), WHOLE)) is not None
        ]
        if self._write_whole(counts):
            for key in SHARE_ANNOTATIONS:
                self._remove(("metadata", "annotations", key), _PORTION_FIELD, wanted[0][0].name)
            self._write_scheduler()

    def _plan_share(self, container: GpuContainer, portion: Fraction, devices: int) -> None:
        gpus, name = self._gpus, container.name
        if gpus.asked(container) == portion * devices or not self._may(
            container, portion * devices
        ):
            return
        reason = self._share_obstacle(name)
        if reason:
            self._refuse(container, reason)
            return
        self._before[name] = gpus.as_asked(container)
        for other in gpus.containers:
            for part in ("limits", "requests"):
                path = (*other.path, "resources", part, GPU_RESOURCE)
                self._remove(path, _DEVICES_FIELD, other.name)
        # Below one, so that it has two digits at most.
        text = f"{int(portion * HUNDREDTHS):02}".rstrip("0")
        self._annotate(gpu_share.FRACTION, f"0.{text}", name)
        if gpus.share is None:
            # The first container needs no name, but need not stay the first: some put a sidecar
            # before it.
            self._annotate(gpu_share.CONTAINER, name, name)
        self._write_scheduler()

    def _share_obstacle(self, name: str) -> str:
        """Why KAI or Kubernetes would not take the pod with a share for the container *name*."""
        if self._injection.room.limits:
            return f"a LimitRange of the namespace asks for {GPU_RESOURCE}"
        if MPS in annotations_of(self._pod) and self._gpus.share is None:
            return f"it has the annotation {MPS} and no share yet"
        if lookup(self._pod, ("spec", "nodeName")):
            return "it is bound to a node already"
        for other in self._gpus.containers:
            if other.name != name and _sees_devices(lookup(self._pod, (*other.path, "env"))):
                return f"KAI may refuse it, as {other.name} sets {_VISIBLE_DEVICES}"
        return ""

    def _write_scheduler(self) -> None:
        injection = self._injection
        self._write(("spec", "schedulerName"), injection.scheduler_name, "schedulerName", "")
        path = ("metadata", "labels", QUEUE_LABEL)
        is_given = bool(lookup(self._pod, path))
        if injection.queue and (injection.set_queue_when_specified or not is_given):
            self._write(path, injection.queue, f"labels[{QUEUE_LABEL}]", "")

    def _write_before(self) -> None:
        """Note what the pod asked for; also what was noted when it was looked at before."""
        if not self._before:
            return
        old, known = annotations_of(self._pod).get(GPU_BEFORE), self._noted
        new = format_before(known | self._before)
        if old != new:
            path, field = ("metadata", "annotations", GPU_BEFORE), f"annotations[{GPU_BEFORE}]"
            # What is no note is somebody's annotation, which nobody else is shown.
            shown = old if known else None
            self._changes.append(GpuChange(path, field, _selector(path), "", shown, new))

    # -- parts ------------------------------------------------------------------------------

    def _within(
        self, container: GpuContainer, rounded: Fraction, step: Fraction
    ) -> Fraction | None:
        """
        *rounded*, or what the ceiling allows; None, and said, where that is less than is there.

        What was rounded up is to give more. To take some away for it helps nobody.
        """
        most = capped(rounded, self._injection.ceilings.get(container.name), step)
        if most == rounded or (most and most >= self._gpus.asked(container)):
            return most
        ceiling = self._injection.ceilings[container.name]
        text = f"{format_amount(ceiling)}, and rounded up {container.name} would have"
        self._refuse(container, f"the strategy's ceiling is {text} {float(rounded):g}")
        return None

    def _may(self, container: GpuContainer, amount: Fraction) -> bool:
        """Whether the strategy allows *amount* in the place of what is asked for now."""
        injection, asked = self._injection, self._gpus.asked(container)
        if asked == 0:
            allowed, what = injection.set_from_unspecified, "GPU where none is asked for"
        elif amount > asked:
            allowed, what = injection.upsize, "upsize"
        else:
            allowed, what = injection.downsize, "downsize"
        if not allowed:
            self._refuse(container, f"the strategy allows no {what}")
        elif injection.scheduler is Scheduler.KAI and not is_label_value(injection.queue):
            allowed = False
            self._refuse(container, "the name of the strategy's queue can't be a label")
        return allowed

    def _refuse(self, container: GpuContainer | None, reason: str) -> None:
        path, name = (container.path, container.name) if container else (("spec",), "")
        self._obstacles += _nothing(self._injection, reason, path, name).obstacles

    def _annotate(self, key: str, text: str, item: str) -> None:
        self._write(("metadata", "annotations", key), text, _PORTION_FIELD, item)

    def _write(self, path: Path, value: str, field: str, item: str) -> None:
        old = lookup(self._pod, path)
        if old != value:
            self._changes.append(GpuChange(path, field, _selector(path), item, old, value))

    def _remove(self, path: Path, field: str, item: str) -> None:
        parent = lookup(self._pod, path[:-1])
        # Present is enough for KAI to refuse it, be it null.
        if isinstance(parent, dict) and path[-1] in parent:
            old = parent[path[-1]]
            self._changes.append(GpuChange(path, field, _selector(path), item, old, None))


def _no_room(injection: Injection, count: int, total: int, total_now: int) -> str:
    """
    Why the namespace has no room for *count* GPUs of a container, and *total* of its pod; ``""``
    if it has. A pod that asks for no more than it does now (*total_now*) needs none.
    """
    room = injection.room
    for limit in room.limits:
        amount, whose = (count, "container") if limit.type == "Container" else (total, "pod")
        if limit.most is not None and amount > limit.most:
            return f"a LimitRange allows a {whose} at most {limit.most} GPUs, not {amount}"
        if limit.least is not None and amount < limit.least:
            return f"a LimitRange wants at least {limit.least} GPUs of a {whose}, not {amount}"
    is_counted = injection.respects_quota and total > total_now
    if is_counted and room.free is not None and total > room.free:
        return f"the namespace's quota leaves {max(room.free, Fraction(0))} GPUs, not {total}"
    return ""


def _sees_devices(env: Any) -> bool:
    """Whether a container asks for devices by a variable, past what hands them out."""
    found = [
        variable
        for variable in (env if isinstance(env, list) else ())
        if isinstance(variable, dict) and variable.get("name") == _VISIBLE_DEVICES
    ]
    # Of several with one name Kubernetes takes the last. Who looks at the first sees another one.
    return any("valueFrom" in each or each.get("value", "") not in _NO_DEVICES for each in found)


def _selector(path: Path) -> str:
    """As the mapping of Pods calls what is there."""
    if path[:2] == ("metadata", "labels") or path[-1] == GPU_BEFORE:
        return "podMetadata"
    return "allContainers" if len(path) > 3 else "podSpec"
