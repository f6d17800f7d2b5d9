"""
Mutating twice is mutating once, whatever policies give and whatever a submitter brought along.

Drawn are items that are nearly those of the policies: with another spelling, less or more than they
have, half of them there, left out in the list or in the annotation, or theirs under another name.
`submit` itself checks that a second pass changes nothing.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.builders import (
    DEPLOYMENT,
    POD,
    POLICY_API,
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.policy.items.enforcing import EXCLUDED
from webhook.store.snapshot import Snapshot

Strategy = st.SearchStrategy[Any]

TRAINING = {"group": "workload.gatewright.io", "version": "v1alpha1", "kind": "Training"}
EXAMPLES = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))

FLAGS = st.booleans()
PATHS = st.sampled_from(["/d", "/d/", "//d", "d", "/e"])
NAMES = st.sampled_from(["a", "b"])
KEYS = st.sampled_from(["team", "tier"])


def some(**optional: Strategy) -> Strategy:
    """An object with any of these keys."""
    return st.fixed_dictionaries({}, optional=optional)


def mostly(strategy: Strategy) -> Strategy:
    return st.one_of(strategy, strategy, st.none())


def items(*kinds: Strategy) -> Strategy:
    return st.lists(st.one_of(*kinds), max_size=2)


def source(name: str, **spec: Any) -> JsonObject:
    metadata = {"name": name}
    return {"apiVersion": POLICY_API, "kind": "DataSource", "metadata": metadata, "spec": spec}


NFS = {"server": "nas", "path": "/x"}
SOURCES = [
    source("a", nfs={**NFS, "mountPath": "/d"}),
    source("c", hostPath={"path": "/y", "mountPath": "/e"}),
]
STORED = {
    "nfs": st.fixed_dictionaries(
        {"name": NAMES, "server": st.just("nas"), "path": st.just("/x")},
        optional={"mountPath": PATHS, "readOnly": FLAGS},
    ),
    "pvc": st.fixed_dictionaries(
        {"claimName": NAMES, "existingPvc": st.just(True)},
        optional={"path": PATHS, "readOnly": FLAGS},
    ),
    "hostPath": st.fixed_dictionaries(
        {"name": NAMES, "path": st.just("/y")}, optional={"mountPath": PATHS, "readOnly": FLAGS}
    ),
}
TOLERATIONS = st.fixed_dictionaries(
    {"key": st.just("gpu"), "operator": st.just("Exists")},
    optional={"effect": st.sampled_from(["NoSchedule", "NoExecute"])},
)
NAMED_TOLERATIONS = st.tuples(NAMES, TOLERATIONS).map(lambda pair: {"name": pair[0], **pair[1]})
LABELS = st.fixed_dictionaries({"name": KEYS, "value": st.sampled_from(["ml", "x"])})
LEFT_OUT = NAMES.map(lambda name: {"name": name, "exclude": True})


def defaults_of(item: Strategy, **attributes: Strategy) -> Strategy:
    return some(instances=items(item), attributes=some(**attributes))


DEFAULTS = some(
    storage=some(
        nfs=defaults_of(STORED["nfs"], readOnly=FLAGS, mountPath=PATHS),
        pvc=defaults_of(STORED["pvc"], readOnly=FLAGS, path=PATHS),
        hostPath=defaults_of(STORED["hostPath"], readOnly=FLAGS),
    ),
    tolerations=defaults_of(NAMED_TOLERATIONS, effect=st.just("NoExecute")),
    labels=some(instances=items(LABELS)),
)
INSTANCE_RULES = some(instances=some(locked=st.lists(NAMES, max_size=2), canAdd=FLAGS))
RULES = some(
    storage=some(nfs=INSTANCE_RULES, pvc=INSTANCE_RULES, hostPath=INSTANCE_RULES),
    tolerations=INSTANCE_RULES,
)
POLICIES = st.fixed_dictionaries(
    {"defaults": DEFAULTS, "rules": RULES},
    optional={"imposedAssets": st.lists(st.sampled_from(["a", "c"]), min_size=1, unique=True)},
)
FLAT = st.lists(
    st.one_of(
        st.tuples(st.just("labels"), st.sampled_from(["set", "default"]), LABELS),
        st.tuples(st.just("storage.nfs"), st.sampled_from(["set", "default"]), STORED["nfs"]),
    ),
    max_size=2,
    unique_by=lambda rule: rule[:1],
)
REMEMBERED = st.dictionaries(
    st.sampled_from(["labels", "storage.nfs", "storage.pvc", "tolerations"]),
    st.lists(st.one_of(NAMES, KEYS), max_size=2, unique=True),
    max_size=2,
)

SPECS = some(
    labels=items(LABELS, KEYS.map(lambda key: {"name": key, "exclude": True})),
    tolerations=items(NAMED_TOLERATIONS, TOLERATIONS, LEFT_OUT),
    storage=some(
        nfs=items(
            STORED["nfs"],
            LEFT_OUT,
            PATHS.map(lambda path: {"name": "own", **NFS, "mountPath": path}),
            PATHS.map(lambda path: {**NFS, "mountPath": path}),
        ),
        pvc=items(STORED["pvc"]),
        hostPath=items(STORED["hostPath"], LEFT_OUT),
    ),
)
VOLUMES = st.lists(
    st.sampled_from(
        [
            {"name": "a", "nfs": NFS},
            {"name": "b", "persistentVolumeClaim": {"claimName": "b"}},
            {"name": "c", "hostPath": {"path": "/y"}},
            {"name": "own", "emptyDir": {}},
        ]
    ),
    max_size=3,
    unique_by=lambda volume: str(volume["name"]),
)
MOUNTS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "c", "own"]), "mountPath": PATHS},
        optional={"readOnly": FLAGS},
    ),
    max_size=2,
)
POD_SPECS = some(
    volumes=VOLUMES,
    tolerations=items(TOLERATIONS),
    initContainers=MOUNTS.map(lambda mounts: [make_container("init", volumeMounts=mounts)]),
)


def compiled(*documents: JsonObject) -> Snapshot:
    """What contradicts itself is refused when it is written, and not asked about."""
    snapshot = make_snapshot(*SOURCES, *documents)
    assume(not any(not problem.warning for problem in snapshot.problems))
    return snapshot


def remembering(document: JsonObject, remembered: JsonObject | None) -> JsonObject:
    if remembered is not None:
        document["metadata"]["annotations"] = {EXCLUDED: json.dumps(remembered)}
    return document


def settled(snapshot: Snapshot, document: JsonObject, old: JsonObject | None = None) -> None:
    """A second pass changes nothing, which `submit` checks, and one pointer is written once."""
    answer = submit(snapshot, document, old=old)

    paths = [operation["path"] for operation in answer.patch if operation["op"] != "remove"]
    assert len(paths) == len(set(paths))


@pytest.mark.slow
@EXAMPLES
@given(
    policy=POLICIES,
    flat=FLAT,
    spec=SPECS,
    before=st.one_of(st.none(), SPECS),
    remembered=mostly(REMEMBERED),
)
@example(
    policy={"defaults": {}, "rules": {}},
    flat=[("labels", "set", {"name": "team", "value": "ml"})],
    spec={},
    before=None,
    remembered={"labels": ["team"]},
)
def test_items_of_a_native_workload_are_settled_at_once(
    policy: JsonObject,
    flat: list[tuple[str, str, JsonObject]],
    spec: JsonObject,
    before: JsonObject | None,
    remembered: JsonObject | None,
) -> None:
    rules = [make_rule(field, "spec", {rule: keyed(item)}) for field, rule, item in flat]
    flat_policies = [make_gvk_policy(*rules, kind=TRAINING)] if rules else []
    snapshot = compiled(make_workload_policy(**policy), *flat_policies)
    old = None if before is None else make_training(**copy.deepcopy(before))

    settled(snapshot, remembering(make_training(**copy.deepcopy(spec)), remembered), old)


def keyed(item: JsonObject) -> JsonObject:
    """As a flat policy names an item."""
    content = {name: value for name, value in item.items() if name != "name"}
    return {"key": item["name"], "value": content.get("value", content)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [POD, DEPLOYMENT], ids=["pod", "deployment"])
@EXAMPLES
@given(
    policy=POLICIES,
    spec=POD_SPECS,
    mounts=MOUNTS,
    before=st.one_of(st.none(), st.tuples(POD_SPECS, MOUNTS)),
    remembered=mostly(REMEMBERED),
)
@example(
    policy={
        "defaults": {
            "storage": {
                "pvc": {
                    "instances": [{"claimName": "b", "existingPvc": True, "path": "/d"}],
                    "attributes": {"readOnly": True},
                }
            }
        },
        "rules": {},
    },
    spec={},
    mounts=[],
    before=None,
    remembered=None,
)
@example(
    policy={
        "defaults": {
            "storage": {
                "hostPath": {
                    "instances": [{"name": "c", "path": "/y", "mountPath": "/d", "readOnly": True}]
                }
            }
        },
        "rules": {},
    },
    spec={},
    mounts=[{"name": "c", "mountPath": "/d"}],
    before=None,
    remembered=None,
)
def test_volumes_and_mounts_of_a_pod_are_settled_at_once(
    kind: JsonObject,
    policy: JsonObject,
    spec: JsonObject,
    mounts: list[JsonObject],
    before: tuple[JsonObject, list[JsonObject]] | None,
    remembered: JsonObject | None,
) -> None:
    snapshot = compiled(make_workload_policy(workload_type=dict(kind), **policy))
    old = None if before is None else of_kind(kind, *before)

    settled(snapshot, remembering(of_kind(kind, spec, mounts), remembered), old)


def of_kind(kind: JsonObject, spec: JsonObject, mounts: list[JsonObject]) -> JsonObject:
    container = make_container(volumeMounts=copy.deepcopy(mounts))
    pod = make_pod(containers=[container], **copy.deepcopy(spec))
    if kind == POD:
        return pod
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm", "namespace": "team-a"},
        "spec": {"template": {"spec": pod["spec"]}},
    }
