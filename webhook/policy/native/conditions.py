"""
What the fields of a native workload must satisfy together: one row for each condition.

A condition looks at what was given. That a field is absent counts only where the policy
reference says what absence means (its "Default:" values are not filled in); a field that has
no readable value is left out of all conditions, since its type is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from webhook.model.labels import is_label_key, is_label_value
from webhook.model.values import json_type

# Of a value that a message quotes: the longest quantity that somebody writes is far shorter.
_QUOTED_CHARS = 40

# Metrics that can scale to zero, and that a percentage of the threshold applies to.
_ZERO_METRICS = ("throughput", "concurrency")


# What is wrong with an item that has none of its sources.
NO_SOURCE = "has no value"


class Reading(NamedTuple):
    """A value that was given: as written, and what it means (`read_value`)."""

    value: Any
    meaning: Any


# What was given in one role or one item, by field or attribute path; empty values are not.
Readings: TypeAlias = Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class Finding:
    """
    What is wrong, and what would be right.

    *badness* is how far it is off, as for rules. *field* is where it is reported, if not at the
    field of the condition.
    """

    problem: str
    accepted: str
    badness: Any = 1
    field: str = ""


Check: TypeAlias = Callable[[Readings], Finding | None]


@dataclass(frozen=True, slots=True)
class Condition:
    """
    One condition. A break of it is reported at *field*; *reads* are the other fields it looks at.

    With *items*, an itemized field, it holds for each of its items and the names are those of
    attributes. *types* are the workload types it is for, all that have the fields if empty.
    *reason* is what the policy reference (or the workload API) says.

    *mended_by* are fields of which a value, where there is none yet, can mend a break.
    *goes_with* is another field (and its value, None for any) without which *field* says nothing:
    a policy that gives both gives both or neither.
    """

    name: str
    field: str
    reads: tuple[str, ...]
    check: Check
    reason: str
    items: str = ""
    types: frozenset[str] = frozenset()
    mended_by: tuple[str, ...] = ()
    goes_with: tuple[str, str | None] = ("", None)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Items of one field that give *attribute* must give the same value."""

    name: str
    items: str
    attribute: str
    reason: str


# -- the kinds of conditions ----------------------------------------------------------------


def _not_below(name: str, field: str, other: str, reason: str) -> Condition:
    """*field* ≥ *other*, where both are given."""

    def check(given: Readings) -> Finding | None:
        if field not in given or other not in given:
            return None
        missing = given[other].meaning - given[field].meaning
        if missing <= 0:
            return None
        return Finding(f"below {other}", f"≥ {quote(given[other].value)}", missing)

    return Condition(name, field, (other,), check, reason)


def _positive(name: str, field: str, reason: str) -> Condition:
    def check(given: Readings) -> Finding | None:
        if field not in given or given[field].meaning > 0:
            return None
        return Finding("is not above zero", "more than 0", 1 - given[field].meaning)

    return Condition(name, field, (), check, reason)


def _only_with(name: str, field: str, other: str, values: Iterable[str], reason: str) -> Condition:
    """*field* may be given only where *other*, if given, is one of *values*."""
    allowed = tuple(values)

    def check(given: Readings) -> Finding | None:
        if field not in given or other not in given or given[other].meaning in allowed:
            return None
        found = f"does not go with {other} {quote(given[other].value)}"
        return Finding(found, f"no value, or {other} {' or '.join(allowed)}")

    return Condition(name, field, (other,), check, reason)


def _needed_with(
    name: str, field: str, other: str, value: str, what: str, reason: str, *, items: str = ""
) -> Condition:
    """*field* must be given where *other* is *value*. *what* says what it may be."""

    def check(given: Readings) -> Finding | None:
        if field in given or other not in given or given[other].meaning != value:
            return None
        return Finding(f"needed with {other} {value}", what)

    return Condition(
        name, field, (other,), check, reason, items, mended_by=(field,), goes_with=(other, value)
    )


def _not_with(
    name: str, field: str, other: str, values: Iterable[str], reason: str, *, items: str = ""
) -> Condition:
    """*field* may not be given where *other* is one of *values*."""
    refused = frozenset(values)

    def check(given: Readings) -> Finding | None:
        if field not in given or other not in given or given[other].meaning not in refused:
            return None
        return Finding(f"does not go with {other} {quote(given[other].value)}", "no value")

    return Condition(name, field, (other,), check, reason, items)


def _one_of(name: str, fields: tuple[str, ...], reason: str, *, items: str = "") -> Condition:
    """At most one of *fields*; some may be groups of attributes (`secret` of `secret.name`)."""

    def check(given: Readings) -> Finding | None:
        found = [field for field in fields if field in given]
        if len(found) < 2:
            return None
        found_text = f"given beside {' and '.join(found[:-1])}"
        return Finding(found_text, f"only one of {', '.join(fields)}", field=found[-1])

    return Condition(name, fields[-1], fields[:-1], check, reason, items)


# -- checks of their own --------------------------------------------------------------------


def _meaning(given: Readings, field: str, absent: Any) -> Any:
    reading = given.get(field)
    return absent if reading is None else reading.meaning


def _request_type_with_one_device(given: Readings) -> Finding | None:
    devices = _meaning(given, "compute.gpuDevicesRequest", 1)
    if "compute.gpuRequestType" not in given or devices == 1:
        return None
    return Finding(
        f"only with one GPU device, and compute.gpuDevicesRequest is {quote(devices)}",
        "no value, or compute.gpuDevicesRequest 1",
    )


def _portion_and_memory(given: Readings) -> Finding | None:
    both = "compute.gpuPortionRequest" in given and "compute.gpuMemoryRequest" in given
    if not both or "compute.gpuRequestType" in given:
        return None
    return Finding(
        "given beside compute.gpuPortionRequest, and no compute.gpuRequestType says which counts",
        "only one of the two",
    )


def _portion_range(given: Readings) -> Finding | None:
    """At most 1; the older form, without a type and one device, counts devices above that."""
    portion = _meaning(given, "compute.gpuPortionRequest", 0)
    if portion <= 1:
        return None
    if "compute.gpuRequestType" in given or _meaning(given, "compute.gpuDevicesRequest", 0) == 1:
        return Finding("more than one GPU device", "a number from 0 to 1", portion - 1)
    if portion.denominator == 1:
        return None
    return Finding(
        "is neither a portion of a GPU device nor a number of them",
        "a number from 0 to 1, or a whole number",
    )


def _tty_needs_stdin(given: Readings) -> Finding | None:
    if not _meaning(given, "tty", False) or _meaning(given, "stdin", False):
        return None
    return Finding("needs stdin", "stdin true, or tty false")


def _replica_range(given: Readings) -> tuple[Any, Any]:
    """The least and the most replicas: 1, and the least but no less than 1, where absent."""
    least = _meaning(given, "autoscaling.minReplicas", 1)
    return least, _meaning(given, "autoscaling.maxReplicas", max(least, 1))


def _metric_needed(given: Readings) -> Finding | None:
    least, most = _replica_range(given)
    if "autoscaling.metric" in given or least >= most or (least, most) == (0, 1):
        return None
    return Finding(
        f"needed to scale between {quote(least)} and {quote(most)} replicas",
        "throughput, concurrency, latency or a custom metric",
    )


def _threshold_needed(given: Readings) -> Finding | None:
    if "autoscaling.metric" not in given or "autoscaling.metricThreshold" in given:
        return None
    return Finding("needed with autoscaling.metric", "a whole number")


def _metric_to_zero(given: Readings) -> Finding | None:
    metric = _meaning(given, "autoscaling.metric", None)
    least = _meaning(given, "autoscaling.minReplicas", 1)
    if least != 0 or metric is None or metric in _ZERO_METRICS:
        return None
    return Finding(
        "cannot scale to zero, and autoscaling.minReplicas is 0",
        "throughput or concurrency, or autoscaling.minReplicas ≥ 1",
    )


def _retention(given: Readings) -> Finding | None:
    least = _meaning(given, "autoscaling.minReplicas", 1)
    if "autoscaling.scaleToZeroRetentionSeconds" not in given or least == 0:
        return None
    return Finding("only with autoscaling.minReplicas 0", "no value, or autoscaling.minReplicas 0")


def _leader_given(given: Readings) -> Finding | None:
    if "leader" in given:
        return None
    return Finding("a leader must be given, whatever the number of workers", "an object")


def _worker_given(given: Readings) -> Finding | None:
    workers = _meaning(given, "workers", 0)
    if "worker" in given or workers <= 0:
        return None
    return Finding(f"needed with workers {quote(workers)}", "an object, or workers 0")


def _one_master(given: Readings) -> Finding | None:
    if "masterSpec" not in given or not _meaning(given, "masterSpecSameAsWorker", False):
        return None
    return Finding(
        "given although masterSpecSameAsWorker is true", "no value, or masterSpecSameAsWorker false"
    )


def _claim_named(given: Readings) -> Finding | None:
    if "claimName" in given:
        return None
    return Finding("a claim needs a name", "the name of a persistent volume claim")


def _sized(name: str, prefix: str, *, items: str = "") -> Condition:
    """A claim that is made needs a size. The section *prefix* may be left out, items are there."""
    size, existing = f"{prefix}claimInfo.size", f"{prefix}existingPvc"
    section = prefix.removesuffix(".")

    def check(given: Readings) -> Finding | None:
        is_given = not section or section in given
        if not is_given or size in given or _meaning(given, existing, False):
            return None
        return Finding("a new claim needs a size", f"a size such as 10Gi, or {existing} true")

    return Condition(
        name,
        size,
        (existing, section) if section else (existing,),
        check,
        "size: mandatory when existingPvc is false, which is its default.",
        items,
        mended_by=(size, existing),
    )


def _toleration_keyed(given: Readings) -> Finding | None:
    if "key" in given or _meaning(given, "operator", "Equal") == "Exists":
        return None
    return Finding("needed unless operator is Exists", "the key of a taint, or operator Exists")


def _authorized(prefix: str, items: str = "") -> tuple[Condition, ...]:
    """Who may open a URL: a list of users or one of groups, as authorizationType says."""
    kind, users, groups = (
        f"{prefix}{name}" for name in ("authorizationType", "authorizedUsers", "authorizedGroups")
    )
    at = items or "servingPort"

    def users_or_groups(given: Readings) -> Finding | None:
        if _meaning(given, kind, "") != "authorizedUsersOrGroups" or users in given:
            return None
        if groups in given:
            return None
        return Finding(
            f"needed with {kind} authorizedUsersOrGroups, since there is no {groups}",
            "a list of users, or one of groups",
        )

    conditions = [
        _one_of(
            f"{at}-users-or-groups",
            (users, groups),
            "authorizedUsers and authorizedGroups are mutually exclusive.",
            items=items,
        ),
        _needed_with(
            f"{at}-users",
            users,
            kind,
            "authorizedUsers",
            "a list of users",
            "authorizationType authorizedUsers: only the users listed may open the URL.",
            items=items,
        ),
        _needed_with(
            f"{at}-groups",
            groups,
            kind,
            "authorizedGroups",
            "a list of groups",
            "authorizationType authorizedGroups: only the groups listed may open the URL.",
            items=items,
        ),
        _not_with(
            f"{at}-users-ignored",
            users,
            kind,
            ("public", "authenticatedUsers", "authorizedGroups"),
            "Listed users count only where authorizationType is about users: the URL would be "
            "open to others than those listed.",
            items=items,
        ),
        _not_with(
            f"{at}-groups-ignored",
            groups,
            kind,
            ("public", "authenticatedUsers", "authorizedUsers"),
            "Listed groups count only where authorizationType is about groups.",
            items=items,
        ),
    ]
    if not items:
        conditions.append(
            Condition(
                f"{at}-someone",
                users,
                (kind, groups),
                users_or_groups,
                "authorizationType authorizedUsersOrGroups: only the users or groups listed may "
                "open the URL.",
                mended_by=(users, groups),
                goes_with=(kind, "authorizedUsersOrGroups"),
            )
        )
    return tuple(conditions)


# What the items of a field can't be without, and why. Where storage is mounted is not among it: the
# platform that runs the workload knows its own places.
NEEDED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "environmentVariables": (("name",), "Kubernetes: a variable has a name."),
    "annotations": (("name",), "Kubernetes: an annotation has a key."),
    "labels": (("name",), "Kubernetes: a label has a key."),
    "imagePullSecrets": (("name",), "A reference names what it refers to."),
    "exposedUrls": (("container",), "A URL leads to a port of the container."),
    "relatedUrls": (("url",), "A link leads somewhere."),
    "ports": (("container",), "Kubernetes: a port of a container has a number."),
    "compute.extendedResources": (
        ("resource", "quantity"),
        "Kubernetes: a resource that is asked for has a name and an amount.",
    ),
    "storage.dataVolume": (("id",), "A reference names what it refers to."),
    "storage.hostPath": (("path",), "Kubernetes: a hostPath volume has a path."),
    "storage.git": (("repository",), "repository: what is mapped to the container."),
    "storage.nfs": (
        ("server", "path"),
        "Kubernetes: an NFS volume has a server and a path.",
    ),
    "storage.s3": (("bucket",), "A reference names what it refers to."),
    "storage.configMapVolume": (("configMap",), "A reference names what it refers to."),
    "storage.secretVolume": (("secret",), "A reference names what it refers to."),
}

# Sections of an environment variable: what each names.
VARIABLE_SECTIONS = {
    "secret": ("name", "key"),
    "configMap": ("name", "key"),
    "userCredential": ("name", "key"),
}


def _needed(items: str, attribute: str, reason: str) -> Condition:
    """Each item of a field has *attribute*."""

    def check(given: Readings) -> Finding | None:
        return None if attribute in given else Finding("needed in every item", "a value")

    name = f"{items.rpartition('.')[2]}-{attribute}-needed"
    return Condition(name, attribute, (), check, reason, items, mended_by=(attribute,))


def _needed_in(section: str, key: str) -> Condition:
    """A source of an environment variable is named in full."""
    attribute = f"{section}.{key}"

    def check(given: Readings) -> Finding | None:
        if section not in given or attribute in given:
            return None
        return Finding(f"needed in {section}", "a value")

    return Condition(
        f"variable-{section}-{key}",
        attribute,
        (section,),
        check,
        "Kubernetes: a reference says what it refers to.",
        "environmentVariables",
        mended_by=(attribute,),
    )


def _spelt(
    name: str, attribute: str, sound: Callable[[str], bool], found: Finding, items: str
) -> Condition:
    """A text that Kubernetes takes."""

    def check(given: Readings) -> Finding | None:
        return found if attribute in given and not sound(given[attribute].meaning) else None

    return Condition(name, attribute, (), check, f"Kubernetes: {found.accepted}.", items)


def _is_variable_name(text: str) -> bool:
    return text.isascii() and text.isprintable() and "=" not in text


def _is_key(text: str) -> bool:
    """The length of a key is a limit of its own."""
    return len(text) > 63 or is_label_key(text)


def _key(kind: str) -> Finding:
    accepted = "letters, digits, '-', '_' and '.', with a domain and '/' in front or without"
    return Finding(f"is no key of {kind}", accepted)


# -- the table ------------------------------------------------------------------------------

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "gpu-type",
        "compute.gpuRequestType",
        ("compute.gpuDevicesRequest",),
        _request_type_with_one_device,
        "gpuRequestType: may be portion or memory only where one device is asked for. "
        "No number of devices counts as one.",
    ),
    _needed_with(
        "gpu-portion",
        "compute.gpuPortionRequest",
        "compute.gpuRequestType",
        "portion",
        "a number from 0 to 1",
        "gpuPortionRequest: needed if gpuRequestType is portion.",
    ),
    _needed_with(
        "gpu-memory",
        "compute.gpuMemoryRequest",
        "compute.gpuRequestType",
        "memory",
        "a quantity such as 4Gi",
        "gpuMemoryRequest: needed if gpuRequestType is memory.",
    ),
    _not_with(
        "gpu-portion-type",
        "compute.gpuPortionRequest",
        "compute.gpuRequestType",
        ("memory",),
        "gpuRequestType: the unit of the request is either portion or memory.",
    ),
    _not_with(
        "gpu-memory-type",
        "compute.gpuMemoryRequest",
        "compute.gpuRequestType",
        ("portion",),
        "gpuRequestType: the unit of the request is either portion or memory.",
    ),
    Condition(
        "gpu-portion-and-memory",
        "compute.gpuMemoryRequest",
        ("compute.gpuPortionRequest", "compute.gpuRequestType"),
        _portion_and_memory,
        "gpuRequestType: the unit of the request is either portion or memory.",
    ),
    Condition(
        "gpu-portion-range",
        "compute.gpuPortionRequest",
        ("compute.gpuDevicesRequest", "compute.gpuRequestType"),
        _portion_range,
        "gpuPortionRequest: between 0 and 1. The older form, a number of devices above 1, is "
        "still taken.",
    ),
    _not_below(
        "cpu-core-limit",
        "compute.cpuCoreLimit",
        "compute.cpuCoreRequest",
        "A workload gets at least its request, so that no limit can be below it.",
    ),
    _not_below(
        "cpu-memory-limit",
        "compute.cpuMemoryLimit",
        "compute.cpuMemoryRequest",
        "A workload gets at least its request, so that no limit can be below it.",
    ),
    _not_below(
        "gpu-portion-limit",
        "compute.gpuPortionLimit",
        "compute.gpuPortionRequest",
        "gpuPortionLimit: the limit to a requested portion.",
    ),
    _not_below(
        "gpu-memory-limit",
        "compute.gpuMemoryLimit",
        "compute.gpuMemoryRequest",
        "gpuMemoryLimit: no less than the GPU memory asked for.",
    ),
    *[
        _positive(
            f"positive-{field}",
            f"compute.{field}",
            "Amounts of memory that are not above zero are refused at submission.",
        )
        for field in ("cpuMemoryRequest", "cpuMemoryLimit", "gpuMemoryRequest", "gpuMemoryLimit")
    ],
    Condition(
        "tty",
        "tty",
        ("stdin",),
        _tty_needs_stdin,
        "tty: also requires stdin to be true.",
        mended_by=("stdin",),
    ),
    _not_below(
        "elastic-range",
        "maxReplicas",
        "minReplicas",
        "maxReplicas: cannot be smaller than minReplicas.",
    ),
    *[
        _only_with(
            f"mpi-{field}",
            field,
            "distributedFramework",
            ("MPI",),
            f"{field}: for MPI only.",
        )
        for field in ("sshAuthMountPath", "mpiLauncherCreationPolicy", "slotsPerWorker")
    ],
    *[
        _only_with(
            f"pytorch-{field}",
            field,
            "distributedFramework",
            ("PyTorch",),
            f"{field}: applicable only for PyTorch.",
        )
        for field in ("minReplicas", "maxReplicas")
    ],
    Condition(
        "one-master",
        "masterSpec",
        ("masterSpecSameAsWorker",),
        _one_master,
        "masterSpecSameAsWorker: the master is like the workers, and has no masterSpec.",
    ),
    _not_below(
        "autoscaling-range",
        "autoscaling.maxReplicas",
        "autoscaling.minReplicas",
        "minReplicas and maxReplicas are the least and the most replicas of autoscaling.",
    ),
    Condition(
        "metric",
        "autoscaling.metric",
        ("autoscaling.minReplicas", "autoscaling.maxReplicas"),
        _metric_needed,
        "metric: mandatory if minReplicas < maxReplicas, except for 0 and 1. minReplicas "
        "defaults to 1, maxReplicas to minReplicas and at least 1.",
        types=frozenset({"inference"}),
        mended_by=("autoscaling.metric", "autoscaling.minReplicas", "autoscaling.maxReplicas"),
    ),
    Condition(
        "metric-threshold",
        "autoscaling.metricThreshold",
        ("autoscaling.metric",),
        _threshold_needed,
        "metricThreshold: mandatory if metric is specified.",
        mended_by=("autoscaling.metricThreshold",),
        goes_with=("autoscaling.metric", None),
    ),
    Condition(
        "metric-to-zero",
        "autoscaling.metric",
        ("autoscaling.minReplicas",),
        _metric_to_zero,
        "metric: only throughput and concurrency support scale-to-zero.",
        types=frozenset({"inference"}),
    ),
    _only_with(
        "metric-percentage",
        "autoscaling.metricThresholdPercentage",
        "autoscaling.metric",
        _ZERO_METRICS,
        "metricThresholdPercentage: applicable only with throughput and concurrency.",
    ),
    Condition(
        "retention",
        "autoscaling.scaleToZeroRetentionSeconds",
        ("autoscaling.minReplicas",),
        _retention,
        "scaleToZeroRetentionSeconds: available only if minReplicas is 0.",
        mended_by=("autoscaling.minReplicas",),
    ),
    *_authorized("servingPort."),
    *_authorized("", items="exposedUrls"),
    Condition(
        "leader",
        "leader",
        (),
        _leader_given,
        "leader: must always be provided, regardless of the number of workers.",
        mended_by=("leader",),
    ),
    Condition(
        "worker",
        "worker",
        ("workers",),
        _worker_given,
        "worker: required only if the number of workers is above 0, its default.",
        mended_by=("worker",),
    ),
    _one_of(
        "variable-source",
        ("value", "secret", "configMap", "podFieldRef", "userCredential"),
        "The sources of an environment variable are mutually exclusive.",
        items="environmentVariables",
    ),
    Condition(
        "claim-name",
        "claimName",
        (),
        _claim_named,
        "claimName: mandatory.",
        items="storage.pvc",
        mended_by=("claimName",),
    ),
    _sized("claim-size", "", items="storage.pvc"),
    *[
        _needed(items, attribute, reason)
        for items, (attributes, reason) in NEEDED.items()
        for attribute in attributes
    ],
    *[_needed_in(section, key) for section, keys in VARIABLE_SECTIONS.items() for key in keys],
    _spelt(
        "variable-name",
        "name",
        _is_variable_name,
        Finding("is no name of a variable", "printable ASCII characters without '='"),
        "environmentVariables",
    ),
    _spelt("label-key", "name", _is_key, _key("a label"), "labels"),
    _spelt(
        "label-value",
        "value",
        is_label_value,
        Finding("can't be the value of a label", "letters, digits, '-', '_' and '.', at most 63"),
        "labels",
    ),
    _spelt("annotation-key", "name", _is_key, _key("an annotation"), "annotations"),
    _sized("model-claim-size", "modelStore.pvc."),
    _not_with(
        "toleration-value",
        "value",
        "operator",
        ("Exists",),
        "Kubernetes: a toleration with operator Exists has no value.",
        items="tolerations",
    ),
    Condition(
        "toleration-key",
        "key",
        ("operator",),
        _toleration_keyed,
        "Kubernetes: a toleration without a key must have operator Exists.",
        items="tolerations",
        mended_by=("key", "operator"),
    ),
    _not_with(
        "toleration-seconds",
        "seconds",
        "effect",
        ("NoSchedule", "PreferNoSchedule"),
        "Kubernetes: only eviction can be put off, which is effect NoExecute.",
        items="tolerations",
    ),
)

AGREEMENTS: tuple[Agreement, ...] = (
    Agreement(
        "mount-propagation",
        "storage.hostPath",
        "mountPropagation",
        "mountPropagation: the same value for all host paths of a workload.",
    ),
)


def quote(value: Any) -> str:
    """A value that is no secret, for the middle of a sentence."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= 2**63:
            return f"an integer of {value.bit_length()} bits"
        case str() if len(value) > _QUOTED_CHARS:
            return f"{value[:_QUOTED_CHARS]}…"
        case str() | int() | float():
            return str(value)
        case _:
            return json_type(value)
