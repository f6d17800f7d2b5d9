"""Scale, resize and ephemeral containers: judged by the object that they change, never mutated."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POD,
    POLICY_API,
    PYTORCH_JOB,
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_request,
    make_rule,
    make_snapshot,
    make_workload_policy,
)
from webhook.admission.review import review
from webhook.model.decision import Decision
from webhook.model.pointer import to_pointer
from webhook.model.request import Operation, Phase
from webhook.store.snapshot import Snapshot

DEPLOYMENTS = ("apps", "v1", "deployments")
PYTORCH_JOBS = ("kubeflow.org", "v1", "pytorchjobs")
PODS = ("", "v1", "pods")
DOORS = [Phase.MUTATE, Phase.VALIDATE, Phase.REVIEW]


def make_scale(replicas: Any) -> JsonObject:
    """A Scale as an API server sends it: 0 replicas are left out."""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "team-a"},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": 1, "selector": "app=web"},
    }


def ask(
    snapshot: Snapshot,
    document: JsonObject,
    old: JsonObject,
    *,
    sub_resource: str,
    phase: Phase = Phase.VALIDATE,
    **more: Any,
) -> Decision:
    """
    The answer to an update of a subresource. None of them may ever be changed.

    What is sent is not touched either, nor is anything asked of jq, which would raise.
    """
    request = make_request(
        copy.deepcopy(document), old=copy.deepcopy(old), sub_resource=sub_resource, **more
    )
    decision = review(request, phase, snapshot)
    assert (decision.patch, decision.changes) == ([], ())
    assert request.object == document
    return decision


def scale(
    snapshot: Snapshot,
    before: Any,
    after: Any,
    *,
    resource: tuple[str, str, str] = DEPLOYMENTS,
    **more: Any,
) -> Decision:
    return ask(
        snapshot,
        make_scale(after),
        make_scale(before),
        sub_resource="scale",
        resource=resource,
        **more,
    )


def replicas(*enforcements: JsonObject, selector: str = "workload", **more: Any) -> JsonObject:
    return make_gvk_policy(
        make_rule("replicas", selector, *enforcements), **{"kind": DEPLOYMENT, **more}
    )


# -- scale ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("phase", DOORS)
@pytest.mark.parametrize(
    ("rule", "before", "after", "broken"),
    [
        pytest.param({"max": 4}, 1, 50, "max", id="above-the-maximum"),
        pytest.param({"max": 4}, 1, 4, "", id="at-the-maximum"),
        pytest.param({"max": 4}, 9, 6, "", id="down-while-still-above"),
        pytest.param({"max": 4}, 9, 9, "", id="unchanged-while-above"),
        pytest.param({"max": 4}, 9, 10, "max", id="up-while-above"),
        pytest.param({"min": 2}, 3, 0, "min", id="to-none-is-0-and-not-absent"),
        pytest.param({"min": 2}, 0, 1, "", id="up-from-none-while-below"),
        pytest.param({"set": 3}, 3, 5, "set", id="away-from-what-is-set"),
        pytest.param({"set": 3}, 5, 3, "", id="back-to-what-is-set"),
        pytest.param({"options": [1, 3]}, 1, 2, "options", id="options"),
        pytest.param({"step": 2}, 2, 3, "step", id="step"),
        pytest.param({"blocked": True}, 1, 2, "blocked", id="blocked-but-for-the-default"),
        pytest.param({"required": True}, 1, 0, "", id="required-is-met-by-0"),
        pytest.param({"default": 3}, 1, 50, "", id="a-default-rules-nothing"),
        pytest.param({"max": 4}, 1, "9", "max", id="numeric-text"),
        pytest.param({"max": 4}, 1, "many", "type", id="no-number"),
    ],
)
def test_scaling_is_judged_by_the_replicas_of_the_parent(
    phase: Phase, rule: JsonObject, before: Any, after: Any, broken: str
) -> None:
    decision = scale(make_snapshot(replicas(rule)), before, after, phase=phase)

    assert decision.allowed is not bool(broken)
    assert [violation.rule for violation in decision.violations] == ([broken] if broken else [])
    assert [source.policy for source in decision.consulted] == ["baseline"]
    for violation in decision.violations:
        assert to_pointer(violation.path) == "/spec/replicas"
        assert (violation.field, violation.selector, violation.item) == ("replicas", "workload", "")


@pytest.mark.parametrize(
    ("resource", "judged"),
    [
        pytest.param(DEPLOYMENTS, True, id="parent"),
        pytest.param(("apps", "v1beta2", "deployments"), True, id="another-version-of-it"),
        pytest.param(("extensions", "v1", "deployments"), False, id="another-group"),
        pytest.param(("apps", "v1", "statefulsets"), False, id="kind-without-a-policy"),
        pytest.param(("ray.io", "v1", "rayclusters"), False, id="kind-without-a-mapping"),
        pytest.param(("batch", "v1", "jobs"), False, id="kind-without-replicas"),
        pytest.param(("", "", ""), False, id="no-resource"),
    ],
)
@pytest.mark.parametrize("phase", DOORS)
def test_what_is_scaled_is_told_by_the_resource(
    phase: Phase, resource: tuple[str, str, str], judged: bool
) -> None:
    """Whatever is not known may be scaled: a denial for that would stop all scaling."""
    jobs = make_gvk_policy(
        make_rule("parallelism", "workload", {"max": 1}),
        kind={"group": "batch", "version": "v1", "kind": "Job"},
        name="jobs",
    )
    snapshot = make_snapshot(replicas({"max": 4}), jobs)

    decision = scale(snapshot, 1, 50, resource=resource, phase=phase)

    assert decision.allowed is not judged
    if not judged:
        assert decision.reason.startswith(("scale of ", "no policy concerns scale of "))


@pytest.mark.parametrize(
    ("selector", "judged"),
    [("worker", True), ("replicaSpecs", True), ("master", False)],
)
def test_every_selector_that_finds_the_scaled_role_counts(selector: str, judged: bool) -> None:
    """`kubectl scale pytorchjob` writes the replicas of its workers."""
    snapshot = make_snapshot(replicas({"max": 4}, kind=PYTORCH_JOB, selector=selector))

    decision = scale(snapshot, 1, 50, resource=PYTORCH_JOBS)

    assert decision.allowed is not judged
    for violation in decision.violations:
        assert violation.selector == selector


def test_the_policy_of_the_namespace_counts() -> None:
    snapshot = make_snapshot(replicas({"max": 4}, scope="project", unit="team-b"))

    assert scale(snapshot, 1, 50).allowed
    assert not scale(snapshot, 1, 50, namespace="team-b").allowed


@pytest.mark.parametrize("spec", [None, [], "x", {"replicas": None}], ids=str)
def test_a_scale_without_a_readable_spec_counts_as_none(spec: Any) -> None:
    snapshot = make_snapshot(replicas({"min": 1}))
    document = {**make_scale(1), "spec": spec}

    decision = ask(snapshot, document, make_scale(3), sub_resource="scale", resource=DEPLOYMENTS)

    assert [violation.rule for violation in decision.violations] == ["min"]


def make_mapping(scale: Any, query: str = ".spec.workers | select(.)", **spec: Any) -> JsonObject:
    return {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {
            "workloadType": {"group": "acme.io", "version": "v1", "kind": "AcmeJob"},
            "specSelectors": {
                "workers": {"query": query, "fieldGroups": ["acme"]},
                "roles": {"query": ".spec[]?", "fieldGroups": ["acme"]},
                "byJq": {
                    "query": ".spec | .[] | select(.count > 0)",
                    "fieldGroups": ["acme"],
                },
            },
            "scale": scale,
            **spec,
        },
    }


ACME_GROUP = {
    "apiVersion": POLICY_API,
    "kind": "FieldGroup",
    "metadata": {"name": "acme"},
    "spec": {
        "fields": {
            "size": {"specRef": "count", "type": "integer"},
            "zone": {"type": "string"},
            "free": {"specRef": "some.count"},
        }
    },
}
ACME = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}


@pytest.mark.parametrize(
    ("more", "plural"), [({}, "acmejobs"), ({"resource": "acmes"}, "acmes")], ids=["default", "own"]
)
@pytest.mark.parametrize("selector", ["workers", "roles"])
def test_a_registered_kind_says_what_scaling_writes(
    more: JsonObject, plural: str, selector: str
) -> None:
    mapping = make_mapping({"specSelector": "workers", "field": "size"}, **more)
    policy = make_gvk_policy(make_rule("size", selector, {"max": 4}), kind=ACME)
    snapshot = make_snapshot(mapping, ACME_GROUP, policy)

    decision = scale(snapshot, 1, 50, resource=("acme.io", "v1", plural))

    assert snapshot.problems == ()
    assert [to_pointer(item.path) for item in decision.violations] == ["/spec/replicas"]


@pytest.mark.parametrize(
    ("scale", "query", "wanted"),
    [
        pytest.param(
            {"specSelector": "worker", "field": "size"},
            ".spec",
            "spec.scale.specSelector: no selector 'worker'; did you mean \"workers\"?",
            id="selector",
        ),
        pytest.param(
            {"specSelector": "workers", "field": "sizes"},
            ".spec",
            "spec.scale.field: no field 'sizes' at selector workers; did you mean \"size\"?",
            id="field",
        ),
        pytest.param(
            {"specSelector": "workers", "field": "zone"},
            ".spec",
            "spec.scale.field: zone is no whole number",
            id="type",
        ),
        pytest.param(
            {"specSelector": "workers", "field": "size"},
            ".spec.groups[]?",
            "spec.scale.specSelector: the replicas of a scale stand at a path of names",
            id="many-places",
        ),
        pytest.param(
            {"specSelector": "workers", "field": "size"},
            ".spec.groups[0]",
            "spec.scale.specSelector: the replicas of a scale stand at a path of names",
            id="place-in-a-list",
        ),
        pytest.param(
            {"specSelector": "byJq", "field": "size"},
            ".spec",
            "spec.scale.specSelector: the replicas of a scale stand at a path of names",
            id="jq",
        ),
        pytest.param(
            {"specSelector": "workers"}, ".spec", "spec.scale.field: is needed", id="no-field"
        ),
        pytest.param(
            {"specSelector": "workers", "field": "size", "path": "x"},
            ".spec",
            "spec.scale.path: unknown field",
            id="unknown-key",
        ),
        pytest.param("workers", ".spec", "spec.scale: ", id="text"),
    ],
)
def test_a_scale_that_cannot_be_is_named_with_path_and_reason(
    scale: Any, query: str, wanted: str
) -> None:
    (problem,) = make_snapshot(make_mapping(scale, query), ACME_GROUP).problems

    assert f"{problem.path}: {problem.problem}".startswith(wanted)


@pytest.mark.parametrize("scale", [{"specSelector": "workers", "field": "free"}, None], ids=str)
def test_a_scale_may_be_left_out_and_its_field_be_untyped(scale: Any) -> None:
    assert make_snapshot(make_mapping(scale), ACME_GROUP).problems == ()


# -- ephemeral containers ------------------------------------------------------------------------

IMAGE = make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]})
PRIVILEGED = make_rule("privileged", "allContainers", {"options": [False]})


def make_debugged(*containers: JsonObject, **spec: Any) -> JsonObject:
    return make_pod(ephemeralContainers=list(containers), **spec)


def debugger(name: str = "debugger", **more: Any) -> JsonObject:
    return make_container(name, **{"image": "ghcr.io/example/debug:1", **more})


def debug(snapshot: Snapshot, *containers: JsonObject, before: Any = (), **more: Any) -> Decision:
    return ask(
        snapshot,
        make_debugged(*before, *containers),
        make_debugged(*before),
        sub_resource="ephemeralcontainers",
        resource=PODS,
        **more,
    )


@pytest.mark.slow
@pytest.mark.parametrize("phase", DOORS)
@pytest.mark.parametrize(
    ("rule", "container", "broken"),
    [
        pytest.param(IMAGE, debugger(), [], id="good-image"),
        pytest.param(IMAGE, debugger(image="docker.io/x"), ["image"], id="forbidden-image"),
        pytest.param(
            PRIVILEGED,
            debugger(securityContext={"privileged": True}),
            ["securityContext/privileged"],
            id="privileged",
        ),
        pytest.param(PRIVILEGED, debugger(), [], id="nothing-said-of-it"),
        pytest.param(
            make_rule("allowPrivilegeEscalation", "allContainers", {"set": False}),
            debugger(),
            [],
            id="set-without-a-value",
        ),
        pytest.param(
            make_rule("allowPrivilegeEscalation", "allContainers", {"set": False}),
            debugger(securityContext={"allowPrivilegeEscalation": True}),
            ["securityContext/allowPrivilegeEscalation"],
            id="set-with-another-value",
        ),
        pytest.param(
            make_rule("allowPrivilegeEscalation", "allContainers", {"set": False}),
            debugger(securityContext={"allowPrivilegeEscalation": False}),
            [],
            id="set-with-its-value",
        ),
        pytest.param(
            make_rule("capabilitiesAdd", "allContainers", {"blocked": True}),
            debugger(securityContext={"capabilities": {"add": ["SYS_PTRACE"]}}),
            ["securityContext/capabilities/add"],
            id="capabilities",
        ),
        pytest.param(
            make_rule("runAsUser", "allContainers", {"min": 1000}),
            debugger(securityContext={"runAsUser": 0}),
            ["securityContext/runAsUser"],
            id="user",
        ),
        pytest.param(
            make_rule("runAsNonRoot", "allContainers", {"required": True}),
            debugger(),
            [],
            id="what-is-missing-is-not-asked-for",
        ),
        pytest.param(
            make_rule(
                "resourceLimits",
                "allContainers",
                {"required": {"key": "cpu"}},
                {"default": {"key": "memory", "value": "1Gi"}},
            ),
            debugger(),
            [],
            id="resources-have-no-place-there",
        ),
        pytest.param(
            make_rule("imagePullPolicy", "allContainers", {"options": ["Always"]}),
            debugger(imagePullPolicy="IfNotPresent"),
            [],
            id="other-fields-are-not-judged",
        ),
        pytest.param(
            make_rule("image", "mainContainer", {"pattern": ["ghcr.io/*"]}),
            debugger(image="docker.io/x"),
            [],
            id="rules-of-the-main-container",
        ),
        pytest.param(
            make_rule("hostNetwork", "podSpec", {"options": [False]}),
            debugger(),
            [],
            id="rules-of-the-pod",
        ),
    ],
)
def test_image_and_security_of_an_ephemeral_container_are_judged(
    phase: Phase, rule: JsonObject, container: JsonObject, broken: list[str]
) -> None:
    decision = debug(make_snapshot(make_gvk_policy(rule)), container, phase=phase)

    assert decision.allowed is not bool(broken)
    assert [to_pointer(violation.path) for violation in decision.violations] == [
        f"/spec/ephemeralContainers/0/{path}" for path in broken
    ]
    for violation in decision.violations:
        assert (violation.selector, violation.item) == ("allContainers", "debugger")


def test_ephemeral_containers_from_before_a_rule_stay() -> None:
    snapshot = make_snapshot(make_gvk_policy(IMAGE, PRIVILEGED))
    old = debugger("old", image="docker.io/x", securityContext={"privileged": True})

    assert debug(snapshot, debugger(), before=[old]).allowed
    decision = debug(snapshot, debugger("new", image="docker.io/y"), before=[old])
    assert [violation.item for violation in decision.violations] == ["new"]


def test_the_containers_of_a_pod_from_before_a_rule_do_not_keep_it_from_being_debugged() -> None:
    snapshot = make_snapshot(make_gvk_policy(IMAGE))
    bad = [make_container(image="docker.io/x")]

    decision = ask(
        snapshot,
        make_debugged(debugger(), containers=bad),
        make_debugged(containers=bad),
        sub_resource="ephemeralcontainers",
        resource=PODS,
    )

    assert decision.allowed


def test_without_a_rule_on_them_ephemeral_containers_pass_and_it_is_said() -> None:
    snapshot = make_snapshot(
        make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))
    )

    decision = debug(snapshot, debugger(image="docker.io/x"))

    assert decision.allowed
    assert decision.reason == "no policy concerns ephemeralcontainers of v1/Pod here"


# -- resize --------------------------------------------------------------------------------------

CPU = make_rule(
    "resourceLimits",
    "allContainers",
    {"max": {"key": "cpu", "value": 4}},
    {"default": {"key": "memory", "value": "1Gi"}},
)


def with_cpu(cpu: Any) -> JsonObject:
    resources = {"limits": {"cpu": cpu}} if cpu else {}
    return make_pod(containers=[make_container(resources=resources), make_container("side")])


@pytest.mark.parametrize("phase", DOORS)
@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [("1", "4", True), ("1", "5", False), ("8", "6", True), ("8", "9", False), ("2", None, True)],
    ids=str,
)
def test_resizing_a_pod_is_judged_as_an_update_of_its_containers(
    phase: Phase, before: Any, after: Any, allowed: bool
) -> None:
    snapshot = make_snapshot(make_gvk_policy(CPU, IMAGE))

    decision = ask(
        snapshot,
        with_cpu(after),
        with_cpu(before),
        sub_resource="resize",
        resource=PODS,
        phase=phase,
    )

    assert decision.allowed is allowed
    for violation in decision.violations:
        assert violation.item == "main"
        assert to_pointer(violation.path) == "/spec/containers/0/resources/limits/cpu"


# -- everything else -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "sub_resource", "resource"),
    [
        (make_pod(containers=[make_container(image="docker.io/x")]), "status", PODS),
        (make_pod(containers=[make_container(image="docker.io/x")]), "binding", PODS),
        (make_scale(50), "resize", DEPLOYMENTS),
        (make_scale(50), "ephemeralcontainers", DEPLOYMENTS),
        ({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {}}, "eviction", PODS),
    ],
    ids=["status", "binding", "resize-of-another-kind", "debug-of-another-kind", "eviction"],
)
@pytest.mark.parametrize("phase", DOORS)
def test_other_subresources_pass_untouched(
    phase: Phase, document: JsonObject, sub_resource: str, resource: tuple[str, str, str]
) -> None:
    policies = [make_gvk_policy(IMAGE), replicas({"max": 4}, name="deployments")]

    decision = ask(
        make_snapshot(*policies),
        document,
        {**document, "spec": {}},
        sub_resource=sub_resource,
        resource=resource,
        phase=phase,
    )

    assert decision.allowed
    assert decision.reason == f"{sub_resource} of {'/'.join(filter(None, resource))} is not judged"


@pytest.mark.parametrize("operation", [Operation.DELETE, Operation.CONNECT])
@pytest.mark.parametrize("sub_resource", ["scale", "ephemeralcontainers", "exec"])
def test_nothing_but_changes_is_judged(operation: Operation, sub_resource: str) -> None:
    snapshot = make_snapshot(make_gvk_policy(IMAGE), replicas({"max": 4}, name="deployments"))
    request = make_request(
        make_scale(50), operation=operation, sub_resource=sub_resource, resource=DEPLOYMENTS
    )

    assert review(request, Phase.VALIDATE, snapshot).allowed


def test_a_workload_policy_without_rules_leaves_scaling_alone() -> None:
    snapshot = make_snapshot(make_workload_policy(rules={"image": {"required": True}}))
    resource = ("workload.gatewright.io", "v1alpha1", "trainings")

    assert scale(snapshot, 1, 50, resource=resource).allowed


@pytest.mark.parametrize("user", ["alice", "system:serviceaccount:kube-system:vpa-updater"])
def test_who_is_trusted_resizes_what_was_judged_under_its_owner(user: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1"}
    documents = [with_cpu(cpu) for cpu in ("9", "1")]
    for document in documents:
        document["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    snapshot = make_snapshot(
        make_gvk_policy(CPU, kind=POD), replicas({"max": 4}, name="deployments")
    )

    decision = ask(snapshot, *documents, sub_resource="resize", resource=PODS, user=user)

    assert decision.allowed is (user != "alice")
