"""
What holds for any hierarchical policy and any workload, whatever kind it is of.

All kinds of rules are drawn: of values (min, max, step, options, pattern, blocked, canEdit,
required, defaultFrom), of items (canAdd, locked, rules and defaults of attributes), imposed
assets, behind roles and without. What is drawn may contradict itself: such a policy is refused
when it is written, and nothing is said about it here. `submit` itself checks that a patch gives
the object that was judged, and that a second pass changes nothing.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.builders import (
    DEPLOYMENT,
    POLICY_API,
    PYTORCH_JOB,
    Answer,
    JsonObject,
    make_container,
    make_snapshot,
    make_workload_policy,
    submit,
)
from webhook.model.kinds import GroupVersionKind
from webhook.model.pointer import escape_token
from webhook.model.scopes import Scope
from webhook.policy.effective import holds_at
from webhook.policy.explain import explain
from webhook.store.snapshot import Snapshot

# Many examples: with the others that `make test` adds to `make check`.
pytestmark = pytest.mark.slow

Strategy = st.SearchStrategy[Any]

CPU: Strategy = st.sampled_from([0.5, 1, 2, "500m", "2", 4, "x", True, []])
DISK: Strategy = st.sampled_from(["1Gi", "128Mi", 4, "x"])
TEXTS: Strategy = st.sampled_from(["a", "b", "ghcr.io/x", "", 5])
FLAGS: Strategy = st.booleans()
COUNTS: Strategy = st.integers(0, 6)
KEYS = st.sampled_from(["x/a", "x/b", "x/c"])
NAMES = st.sampled_from(["A", "B", "C"])
LABELS = st.sampled_from(["a", "b", "c"])


def some(**optional: Strategy) -> Strategy:
    """An object with any of these keys."""
    return st.fixed_dictionaries({}, optional=optional)


def items(key: str, keys: Strategy, **optional: Strategy) -> Strategy:
    """Items of different keys."""
    return st.lists(
        st.fixed_dictionaries({key: keys}, optional=optional),
        max_size=3,
        unique_by=lambda item: item[key],
    )


# --- policies ---------------------------------------------------------------------------------

# What every kind here has. A policy of a kind draws from these, in front of a role or not.
DEFAULTS = {
    "image": st.sampled_from(["a", "ghcr.io/x"]),
    "workingDir": st.just("/work"),
    "environmentVariables": st.fixed_dictionaries(
        {"instances": items("name", NAMES, value=st.sampled_from(["1", "2"]))}
    ),
    "labels": st.fixed_dictionaries(
        {"instances": items("name", LABELS, value=st.sampled_from(["1", "2"]))}
    ),
    "compute": some(
        cpuCoreLimit=st.sampled_from([1, 2]),
        cpuMemoryLimit=st.just("1Gi"),
        extendedResources=st.fixed_dictionaries(
            {"instances": items("resource", KEYS, quantity=st.integers(1, 3))},
            optional={"attributes": st.just({"quantity": 3})},
        ),
    ),
    "security": some(runAsNonRoot=FLAGS, runAsUid=st.integers(1, 3)),
}
RULES = {
    "image": some(
        required=FLAGS,
        canEdit=FLAGS,
        blocked=FLAGS,
        pattern=st.just(["a*", "ghcr.io/*"]),
        options=st.just(["a", "ghcr.io/x"]),
    ),
    "workingDir": some(required=FLAGS, canEdit=FLAGS, blocked=FLAGS),
    "environmentVariables": st.fixed_dictionaries(
        {"instances": some(canAdd=FLAGS, locked=st.lists(NAMES, max_size=2))}
    ),
    "labels": st.fixed_dictionaries(
        {"instances": some(canAdd=FLAGS, locked=st.lists(LABELS, max_size=2))}
    ),
    "compute": some(
        cpuCoreRequest=some(
            defaultFrom=st.just({"field": "compute.cpuCoreLimit", "factor": 0.5}),
            min=st.just(0.5),
            max=st.sampled_from([1, 4]),
            step=st.just(0.5),
            required=FLAGS,
        ),
        cpuMemoryLimit=some(min=st.just("64Mi"), max=st.just("2Gi"), canEdit=FLAGS),
        extendedResources=some(
            instances=some(canAdd=FLAGS, locked=st.lists(KEYS, max_size=2)),
            attributes=some(
                quantity=some(
                    required=FLAGS, min=st.just(1), max=st.just(5), canEdit=FLAGS, blocked=FLAGS
                )
            ),
        ),
    ),
    "security": some(
        runAsUid=some(min=st.just(1), canEdit=FLAGS), runAsNonRoot=some(blocked=FLAGS)
    ),
}
NATIVE_DEFAULTS = {
    "nodeType": st.just("b"),
    "backoffLimit": st.just(2),
    "storage": some(
        nfs=some(
            instances=items("name", NAMES, path=st.just("/p"), server=st.just("s")),
            attributes=some(mountPath=st.just("/m"), readOnly=FLAGS),
        )
    ),
}
NATIVE_RULES = {
    "nodeType": some(canEdit=FLAGS, required=FLAGS),
    "backoffLimit": some(min=st.just(0), max=st.just(6), step=st.just(2), blocked=FLAGS),
    "storage": some(
        nfs=some(
            instances=some(canAdd=FLAGS, locked=st.lists(NAMES, max_size=2)),
            attributes=some(server=some(required=FLAGS, options=st.just(["s", "t"]))),
        )
    ),
}
ASSET = {
    "apiVersion": POLICY_API,
    "kind": "DataSource",
    "metadata": {"name": "datasets"},
    "spec": {"nfs": {"server": "nfs.example.com", "path": "/datasets", "mountPath": "/data"}},
}

# --- workloads --------------------------------------------------------------------------------

SECTION = some(
    image=TEXTS,
    workingDir=TEXTS,
    nodeType=TEXTS,
    backoffLimit=st.one_of(COUNTS, TEXTS),
    environmentVariables=items("name", NAMES, value=TEXTS, exclude=FLAGS),
    labels=items("name", LABELS, value=st.sampled_from(["1", "2"]), exclude=FLAGS),
    compute=some(
        cpuCoreRequest=CPU,
        cpuCoreLimit=CPU,
        cpuMemoryLimit=DISK,
        extendedResources=st.one_of(
            st.none(), items("resource", KEYS, quantity=st.integers(0, 6), exclude=FLAGS)
        ),
    ),
    security=st.one_of(
        st.none(), some(runAsUid=COUNTS, runAsNonRoot=FLAGS, unknown=st.just(2**60))
    ),
    storage=some(nfs=items("name", NAMES, path=TEXTS, server=st.just("t"), exclude=FLAGS)),
)
AMOUNTS = some(**{"cpu": CPU, "memory": DISK, "x/a": COUNTS, "x/b": COUNTS})
CONTAINER = st.fixed_dictionaries(
    {"name": st.just("main")},
    optional={
        "image": TEXTS,
        "workingDir": TEXTS,
        "env": items("name", NAMES, value=TEXTS),
        "resources": st.one_of(st.none(), some(limits=AMOUNTS, requests=AMOUNTS)),
        "securityContext": st.one_of(st.none(), some(runAsUser=COUNTS, runAsNonRoot=FLAGS)),
        "lifecycle": st.just({"x": 2**60}),
    },
)
TEMPLATE = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {"containers": st.tuples(CONTAINER, st.just(make_container("sidecar"))).map(list)},
            optional={
                "initContainers": st.just([{"name": "init"}]),
                "securityContext": st.one_of(st.none(), st.just({"runAsUser": 2})),
            },
        )
    },
    optional={
        "metadata": some(labels=st.dictionaries(LABELS, st.just("1"))),
    },
)


def make_document(api_version: str, kind: str, **parts: Any) -> JsonObject:
    metadata = {"name": "w", "namespace": "team-a"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


NATIVE_API = "workload.gatewright.io/v1alpha1"
ROLE_SPEC = st.fixed_dictionaries(
    {"template": TEMPLATE}, optional={"replicas": st.integers(0, 3), "restartPolicy": TEXTS}
)

# Where the parts of a field stand in a pod template, from there. The first that a patch makes may
# be any of these and what is above.
IN_A_TEMPLATE = {
    "image": r"spec/(initContainers|containers)/\d+/image",
    "workingDir": r"spec/(initContainers|containers)/\d+/workingDir",
    "environmentVariables": r"spec/(initContainers|containers)/\d+/env/\d+",
    "labels": r"metadata/labels/[abc]",
    "compute.cpuCoreLimit": r"spec/containers/\d+/resources/limits/cpu",
    "compute.cpuCoreRequest": r"spec/containers/\d+/resources/requests/cpu",
    "compute.cpuMemoryLimit": r"spec/containers/\d+/resources/limits/memory",
    # A device is limited and asked for alike.
    "compute.extendedResources": r"spec/containers/\d+/resources/(limits|requests)/x~1[abc]",
    "security.runAsNonRoot": r"spec/(initContainers|containers)/\d+/securityContext/runAsNonRoot",
    "security.runAsUid": r"spec/(initContainers|containers)/\d+/securityContext/runAsUser",
    "storage.nfs": r"spec/(volumes/\d+|(initContainers|containers)/\d+/volumeMounts/\d+)",
}
# What the system policies write, and where it is remembered what a submitter left out.
SYSTEM = (r"spec/security/privileged", r"spec/terminationGracePeriodSeconds")
EXCLUDED = r"/metadata/annotations/policy\.gatewright\.io~1excluded"


@dataclass(frozen=True)
class Case:
    """One kind: what its policies and its objects are drawn from, and where its roles stand."""

    workload_type: Any
    documents: Strategy
    # By role, `""` for all of them: where the role stands in the object, as a pattern.
    roles: Mapping[str, str]
    native: bool

    @property
    def policies(self) -> Strategy:
        """`defaults` and `rules` of one policy."""
        extra = (NATIVE_DEFAULTS, NATIVE_RULES) if self.native else ({}, {})
        sections = [some(**DEFAULTS, **extra[0]), some(**RULES, **extra[1])]
        named = [role for role in self.roles if role]
        if named:
            sections = [
                st.one_of(section, st.dictionaries(st.sampled_from(named), section, min_size=1))
                for section in sections
            ]
        imposed = st.sampled_from([None, ["datasets"]]) if self.native else st.none()
        return st.fixed_dictionaries(
            {"defaults": sections[0], "rules": sections[1], "imposedAssets": imposed}
        )

    def named(self, policy: JsonObject) -> list[str]:
        """Patterns of the pointers that *policy* names: its defaults and what it imposes."""
        found: list[str] = []
        for path in [*leaves(policy["defaults"]), *derived(policy["rules"])]:
            role, _, rest = path.partition(".")
            field = rest if role in self.roles else path
            place = self.roles[role if role in self.roles else ""]
            inside = field.replace(".", "/") if self.native else IN_A_TEMPLATE[field]
            found.append(f"/({place})/{inside}")
        if policy["imposedAssets"]:
            found.append(f"/({self.roles['']})/storage/nfs")
        if self.native:
            found += [f"/({self.roles['']})/{inside.removeprefix('spec/')}" for inside in SYSTEM]
        return [*found, EXCLUDED]


SECTIONS = ("compute", "security", "storage", "master", "worker")


def leaves(node: JsonObject, prefix: str = "") -> Iterator[str]:
    """The fields that stand below *node*."""
    for key, value in node.items():
        if key in SECTIONS:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def derived(node: JsonObject, prefix: str = "") -> Iterator[str]:
    """The fields with a defaultFrom."""
    for key, value in node.items():
        if key in SECTIONS:
            yield from derived(value, f"{prefix}{key}.")
        elif "defaultFrom" in value:
            yield f"{prefix}{key}"


CASES = {
    "training": Case(
        "training",
        SECTION.map(lambda spec: make_document(NATIVE_API, "Training", spec=spec)),
        {"": "spec"},
        native=True,
    ),
    "distributed": Case(
        "distributed",
        st.tuples(SECTION, st.one_of(st.none(), SECTION)).map(
            lambda parts: make_document(
                NATIVE_API,
                "DistributedTraining",
                spec=parts[0],
                **({} if parts[1] is None else {"masterSpec": parts[1]}),
            )
        ),
        {"": "spec|masterSpec", "worker": "spec", "master": "masterSpec"},
        native=True,
    ),
    "deployment": Case(
        dict(DEPLOYMENT),
        TEMPLATE.map(
            lambda template: make_document("apps/v1", "Deployment", spec={"template": template})
        ),
        {"": "spec/template"},
        native=False,
    ),
    "pytorchjob": Case(
        dict(PYTORCH_JOB),
        st.dictionaries(st.sampled_from(["Master", "Worker", "worker"]), ROLE_SPEC, max_size=2).map(
            lambda roles: make_document(
                "kubeflow.org/v1", "PyTorchJob", spec={"pytorchReplicaSpecs": roles}
            )
        ),
        {
            "": r"spec/pytorchReplicaSpecs/\w+/template",
            "master": r"spec/pytorchReplicaSpecs/Master/template",
            "worker": r"spec/pytorchReplicaSpecs/[Ww]orker/template",
        },
        native=False,
    ),
}
KINDS = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
# The machine may be busy: time says nothing here.
EXAMPLES = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def snapshot_of(case: Case, policy: JsonObject) -> Snapshot:
    """What *policy* compiles to; one that contradicts itself is not asked about."""
    snapshot = make_snapshot(
        ASSET, make_workload_policy(workload_type=case.workload_type, **policy)
    )
    crashed = [str(problem) for problem in snapshot.problems if "can't be compiled" in str(problem)]
    assert crashed == []
    assume(not any(not problem.warning for problem in snapshot.problems))
    return snapshot


def drawn(data: st.DataObject, case: Case) -> JsonObject:
    """A workload as it comes over the wire: no two places share a part."""
    document: JsonObject = json.loads(json.dumps(data.draw(case.documents)))
    return document


def written(path: str, value: Any) -> Iterator[str]:
    """The pointers of everything in *value*, which is written at *path*."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from written(f"{path}/{escape_token(key)}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from written(f"{path}/{index}", inner)


def excluded(node: Any) -> int:
    """How many items a workload excludes: these are taken out, whoever speaks of their field."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    here = isinstance(node, dict) and node.get("exclude") is True
    return here + sum([excluded(value) for value in inner])


def strangers(answer: Answer, patterns: list[str], document: JsonObject) -> list[str]:
    """The pointers that the patch touches, and none of *patterns* names or leads to."""
    below = [re.compile(f"{pattern}(/.*)?") for pattern in patterns]
    found = []
    removed = [operation for operation in answer.patch if operation["op"] == "remove"]
    assert len(removed) <= excluded(document)
    for operation in [operation for operation in answer.patch if operation not in removed]:
        touched = [*written(operation["path"], operation.get("value"))]
        for pointer in touched:
            # An object that is only made to hold what is named is no stranger.
            is_frame = any(other.startswith(f"{pointer}/") for other in touched)
            if not is_frame and not any(pattern.fullmatch(pointer) for pattern in below):
                found.append(f"{operation['op']} {pointer}")
    return found


@KINDS
@EXAMPLES
@given(data=st.data())
def test_a_patch_touches_only_what_a_policy_names(case: Case, data: st.DataObject) -> None:
    policy = data.draw(case.policies)
    snapshot = snapshot_of(case, policy)

    document = drawn(data, case)

    answer = submit(snapshot, document)

    assert strangers(answer, case.named(policy), document) == []


@KINDS
@EXAMPLES
@given(data=st.data())
def test_what_satisfies_the_policy_is_never_changed_or_refused(
    case: Case, data: st.DataObject
) -> None:
    snapshot = snapshot_of(case, data.draw(case.policies))
    answer = submit(snapshot, drawn(data, case))
    assume(answer.allowed)

    again = submit(snapshot, copy.deepcopy(answer.document))

    assert again.allowed
    assert again.patch == []


@KINDS
@EXAMPLES
@given(data=st.data())
def test_what_did_not_change_is_left_alone(case: Case, data: st.DataObject) -> None:
    """However badly it breaks what came after it."""
    snapshot = snapshot_of(case, data.draw(case.policies))
    document = drawn(data, case)
    touched = copy.deepcopy(document)
    touched["metadata"]["finalizers"] = ["a.b/c"]

    answer = submit(snapshot, touched, old=document)

    assert answer.allowed
    assert answer.patch == []


@KINDS
@EXAMPLES
@given(data=st.data())
def test_documents_mean_the_same_in_any_order(case: Case, data: st.DataObject) -> None:
    units = [("tenant", ""), ("department", "research"), ("project", "team-a")]
    policies = [
        make_workload_policy(
            workload_type=case.workload_type,
            name=f"of-{scope}",
            scope=scope,
            unit=unit,
            **data.draw(case.policies),
        )
        for scope, unit in units
    ]
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "team-a",
            "labels": {"runai/queue": "team-a", "gatewright.io/department": "research"},
        },
    }
    documents = [ASSET, namespace, *policies]
    shuffled = data.draw(st.permutations(documents))
    workload = drawn(data, case)

    first, second = make_snapshot(*documents), make_snapshot(*shuffled)

    assert told(first) == told(second)
    if not [problem for problem in first.problems if not problem.warning]:
        assert effective(first, workload) == effective(second, workload)
        one, other = submit(first, workload), submit(second, workload)
        assert (one.patch, one.broken) == (other.patch, other.broken)


def told(snapshot: Snapshot) -> bool:
    """Whether anything is wrong; what is said of a pair depends on which came first."""
    return any(not problem.warning for problem in snapshot.problems)


def effective(snapshot: Snapshot, document: JsonObject) -> list[JsonObject]:
    """All that is in force for *document*, with lineage."""
    branch = snapshot.branch("team-a")
    assert branch.unit(Scope.DEPARTMENT) == "research"
    policies = snapshot.policies.policies_of(GroupVersionKind.of(document))
    return [
        item.report for item in explain([policy for policy in policies if holds_at(policy, branch)])
    ]
