"""A recommendation beside the policies, in the one review."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import (
    JOB,
    POD,
    Answer,
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_request,
    make_rule,
    make_snapshot,
    make_workload_policy,
    submit,
)
from tests.gpu import (
    CONTAINER,
    DEVICES,
    FRACTION,
    GPU,
    QUEUE,
    make_gpu_container,
    make_gpu_pod,
    make_injection,
    make_kai_injection,
    share_of,
    whole_gpus,
)
from webhook.admission.record import audit_annotation, decision_record
from webhook.admission.review import may_inject, review
from webhook.model.decision import NOT_SHOWN, Decision, Outcome
from webhook.model.kinds import GroupVersionKind
from webhook.model.request import AdmissionRequest, Operation, Phase
from webhook.model.rightsizing.controls import PAUSE_UNTIL
from webhook.model.rightsizing.injections import Injection
from webhook.model.rightsizing.policies import DocumentKey
from webhook.model.rightsizing.recommendations import WorkloadRef
from webhook.model.scopes import Branch, Scope
from webhook.model.settings import EngineSettings
from webhook.policy.enforce.enforcer import Enforcer
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.store.snapshot import Snapshot

CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
POLICY = "policy GpuReactivePolicy team-a/llm, project team-a"
LIMIT = f"/spec/containers/0/resources/limits/{GPU.replace('/', '~1')}"
REQUEST = LIMIT.replace("limits", "requests")
NOTE = f"annotations[{GPU_BEFORE}]"

Decide = Callable[[AdmissionRequest, Phase, Snapshot], Decision]


def with_injection(injection: Injection | None) -> Decide:
    def decide(request: AdmissionRequest, phase: Phase, snapshot: Snapshot) -> Decision:
        return review(request, phase, snapshot, injection=injection)

    return decide


def inject(pod: JsonObject, injection: Injection, *documents: JsonObject, **more: Any) -> Answer:
    """Through both doors; a second pass must change nothing."""
    return submit(make_snapshot(*documents), pod, decide=with_injection(injection), **more)


def asking(limit: str | None = "1", **more: Any) -> JsonObject:
    return make_gpu_pod(make_gpu_container("main", limit, limit), **more)


def owned(pod: JsonObject, kind: str = "ReplicaSet", api_version: str = "apps/v1") -> JsonObject:
    owner = {"apiVersion": api_version, "kind": kind, "name": "llm-6f9", "uid": "r-1"}
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return pod


def told(decision: Decision) -> list[tuple[str, str, Any, Any, str]]:
    return [
        (change.field, change.rule, change.old, change.new, str(change.source))
        for change in decision.changes
    ]


# -- where no policy acts --------------------------------------------------------------------------


def test_a_pod_that_no_policy_concerns_is_injected_all_the_same() -> None:
    answer = inject(asking(), make_injection())

    assert whole_gpus(answer.document) == {"main": ("2", "2")}
    assert answer.paths == [LIMIT, REQUEST, "/metadata/annotations"]
    assert answer.decision.outcome is Outcome.MUTATED
    assert told(answer.decision) == [
        *[("compute.gpuDevicesRequest", "set", "1", "2", POLICY)] * 2,
        (NOTE, "set", None, "main=1", POLICY),
    ]
    assert [str(source) for source in answer.decision.consulted] == [POLICY]
    assert answer.decision.warnings == ()


NOBODY = "policy recommendations, system"
ONE = {"main": Decimal(1)}


@pytest.mark.parametrize(
    ("pod", "injection", "gpus", "changes"),
    [
        pytest.param(asking("4"), None, "4", [(NOTE, "main=1", None, NOBODY)], id="nothing-known"),
        pytest.param(
            asking("4"),
            make_injection(baselines=ONE),
            "4",
            [(NOTE, "main=1", None, POLICY)],
            id="the-owners",
        ),
        pytest.param(
            asking("4"),
            make_injection({"main": "6"}, baselines={"main": Decimal(4)}),
            "6",
            [
                *[("compute.gpuDevicesRequest", "4", "6", POLICY)] * 2,
                (NOTE, "main=1", "main=4", POLICY),
            ],
            id="noted-anew",
        ),
        pytest.param(
            asking("1"),
            make_injection(baselines=ONE),
            "2",
            [("compute.gpuDevicesRequest", "1", "2", POLICY)] * 2,
            id="true-by-chance",
        ),
        pytest.param(asking("2"), make_injection(baselines=ONE), "2", [], id="ours-once-more"),
    ],
)
def test_what_a_pod_says_that_it_asked_for_is_not_believed(
    pod: JsonObject,
    injection: Injection | None,
    gpus: str,
    changes: list[tuple[str, str | None, str | None, str]],
) -> None:
    """Unless that and what it has are what comes of the recommendation: it was here before."""
    pod["metadata"]["annotations"] = {GPU_BEFORE: "main=1", "mine": "stays"}
    answer = submit(make_snapshot(), pod, decide=with_injection(injection))

    assert whole_gpus(answer.document) == {"main": (gpus, gpus)}
    found = [(c.field, c.old, c.new, str(c.source)) for c in answer.decision.changes]
    assert found == changes
    assert answer.document["metadata"]["annotations"]["mine"] == "stays"


def test_nor_where_a_policy_acts_on_the_pod() -> None:
    pod = asking("4", annotations={GPU_BEFORE: "main=1"})
    snapshot = make_snapshot(gpu_policy({"max": 8}))

    answer = submit(snapshot, pod, decide=with_injection(None))

    assert answer.allowed
    assert GPU_BEFORE not in answer.document["metadata"].get("annotations", {})


@pytest.mark.parametrize("operation", [Operation.UPDATE, Operation.CREATE])
def test_what_a_stored_pod_says_stays(operation: Operation) -> None:
    """We wrote it when the pod was made, and only then."""
    pod = asking("4", annotations={GPU_BEFORE: "main=1"})
    phase = Phase.MUTATE if operation is Operation.UPDATE else Phase.VALIDATE
    request = make_request(pod, old=copy.deepcopy(pod), operation=operation)

    decision = review(request, phase, make_snapshot())

    assert decision.patch == []
    assert pod["metadata"]["annotations"] == {GPU_BEFORE: "main=1"}


def test_an_annotation_of_that_name_that_is_no_note_is_somebodys() -> None:
    pod = asking("4", annotations={GPU_BEFORE: "token: abc"})

    answer = submit(make_snapshot(), pod, decide=with_injection(None))

    assert answer.patch == []


def test_a_pod_without_a_mapping_is_injected_all_the_same() -> None:
    """Nobody can take the built-in mapping away; another version of the kind has none."""
    snapshot = make_snapshot()
    request = make_request(asking(), kind=GroupVersionKind("", "v2", "Pod"))

    decision = review(request, Phase.MUTATE, snapshot, injection=make_injection())

    assert decision.outcome is Outcome.MUTATED
    assert not decision.mapped


def test_a_pod_whose_owner_was_judged_is_injected_and_still_not_judged() -> None:
    policy = make_gvk_policy(
        make_rule("resourceLimits", "allContainers", {"max": {"key": "cpu", "value": "1"}}),
        kind={"group": "apps", "version": "v1", "kind": "Deployment"},
    )
    pods = make_gvk_policy(
        make_rule("hostNetwork", "podSpec", {"blocked": True}), name="pods", kind=POD
    )
    pod = owned(asking(hostNetwork=True))

    answer = inject(pod, make_injection(), policy, pods, user=CONTROLLER)

    assert answer.allowed
    assert "which was judged" in answer.decision.reason
    assert whole_gpus(answer.document) == {"main": ("2", "2")}


def test_a_pod_that_asks_for_what_it_should_is_left_without_a_word() -> None:
    answer = inject(asking("2"), make_injection())

    assert (answer.patch, answer.decision.warnings, answer.decision.changes) == ([], (), ())
    assert answer.decision.outcome is Outcome.ALLOWED
    assert audit_annotation(answer.decision) == ""


def test_a_pod_whose_owner_has_changed_its_gpus_is_made_as_he_wrote_it_and_that_is_told() -> None:
    answer = inject(asking("3"), make_injection({"main": "2"}, baselines={"main": Decimal(1)}))

    assert (answer.paths, answer.decision.outcome) == ([], Outcome.ALLOWED)
    (warning,) = answer.decision.warnings
    assert "its owner gives main 3 GPUs, and what is recommended was computed from 1" in warning


def test_a_policy_of_the_cluster_stands_for_the_cluster() -> None:
    policy = DocumentKey("ClusterGpuReactivePolicy", "", "llm")
    snapshot = make_snapshot(settings=EngineSettings(cluster_name="prod"))
    injection = make_injection(policies={"main": policy})

    decision = review(make_request(asking()), Phase.MUTATE, snapshot, injection=injection)

    source = decision.changes[0].source
    assert str(source) == "policy ClusterGpuReactivePolicy llm, cluster prod"
    assert (source.scope, source.kind) == (Scope.CLUSTER, "ClusterGpuReactivePolicy")


def test_why_not_is_a_warning_and_in_the_record() -> None:
    pod = asking(annotations={PAUSE_UNTIL: "infinite"})

    answer = inject(pod, make_injection())

    assert answer.patch == []
    text = f"compute.gpuDevicesRequest: set not applied, it is paused ({POLICY})"
    assert answer.decision.warnings == (text,)
    record = decision_record(
        make_request(pod),
        answer.decision,
        phase="mutate",
        branch=Branch(),
        snapshot="1",
        duration_s=0.0,
    )
    (entry,) = record["notApplied"]
    assert entry["reason"] == "it is paused"
    assert entry["policy"] == "GpuReactivePolicy team-a/llm"


# -- who is never injected -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"operation": Operation.UPDATE, "old": asking("4")}, id="update"),
        pytest.param({"sub_resource": "resize"}, id="sub-resource"),
        pytest.param({"operation": Operation.DELETE}, id="delete"),
        pytest.param({"kind": GroupVersionKind("apps", "v1", "Deployment")}, id="another-kind"),
        pytest.param(
            {
                "namespace": "kai-resource-reservation",
                "user": "system:serviceaccount:kai-resource-reservation:binder",
            },
            id="reservation-pod",
        ),
    ],
)
def test_who_is_not_a_pod_that_is_being_made_is_not_injected(more: dict[str, Any]) -> None:
    request = make_request(asking(), **more)

    decision = review(request, Phase.MUTATE, make_snapshot(), injection=make_injection())

    assert not may_inject(request)
    assert decision.patch == []


def test_a_mirror_pod_is_not_injected_and_nobody_else_can_pass_for_one() -> None:
    pod = asking(annotations={"kubernetes.io/config.mirror": "abc"})
    node = make_request(copy.deepcopy(pod), groups=("system:nodes",))
    alice = make_request(copy.deepcopy(pod))

    patches = [
        review(request, Phase.MUTATE, make_snapshot(), injection=make_injection()).patch
        for request in (node, alice)
    ]

    assert [bool(patch) for patch in patches] == [False, True]


def test_the_second_door_judges_and_injects_nothing() -> None:
    request = make_request(asking())

    decision = review(request, Phase.VALIDATE, make_snapshot(), injection=make_injection())

    assert (decision.patch, decision.changes) == ([], ())


# -- beside policies -------------------------------------------------------------------------------


def gpu_policy(rule: JsonObject, **more: Any) -> JsonObject:
    return make_workload_policy(
        workload_type=[POD], rules={"compute": {"gpuDevicesRequest": rule}}, **more
    )


def test_the_recommendation_comes_after_sets_defaults_and_assets() -> None:
    policy = make_gvk_policy(
        make_rule("labels", "metadata", {"set": {"key": "a/b", "value": "c"}}),
        make_rule("resourceLimits", "allContainers", {"default": {"key": GPU, "value": "1"}}),
    )

    answer = inject(asking(None), make_injection(), policy)

    assert [(field, new) for field, _, _, new, _ in told(answer.decision)] == [
        ("labels[a/b]", "c"),
        (f"resourceLimits[{GPU}]", "1"),
        ("compute.gpuDevicesRequest", "2"),
        ("compute.gpuDevicesRequest", "2"),
        (NOTE, "main=1"),
    ]
    assert answer.at("/metadata/labels") == {"a/b": "c"}


@pytest.mark.parametrize(
    ("rule", "limit", "amount"),
    [
        pytest.param({"max": 1}, "1", "2", id="max"),
        pytest.param({"min": 4}, "4", "2", id="min"),
        pytest.param({"canEdit": False}, None, "2", id="can-edit"),
        pytest.param({"step": 4}, "4", "2", id="step"),
    ],
)
def test_what_would_break_a_rule_is_not_applied(
    rule: JsonObject, limit: str | None, amount: str
) -> None:
    pod = asking(limit)

    answer = inject(pod, make_injection({"main": amount}), gpu_policy(rule))

    assert answer.allowed
    assert answer.patch == []
    (warning,) = answer.decision.warnings
    assert "compute.gpuDevicesRequest would be refused" in warning
    assert "policy guardrails" in warning


def test_a_set_of_a_policy_is_not_overwritten() -> None:
    policy = make_gvk_policy(
        make_rule("resourceLimits", "allContainers", {"set": {"key": GPU, "value": "1"}})
    )

    answer = inject(asking("1"), make_injection(), policy)

    assert whole_gpus(answer.document) == {"main": ("1", "1")}
    assert "policy baseline, tenant would change it again" in answer.decision.warnings[0]


def test_a_default_that_would_come_again_keeps_a_share_out() -> None:
    """The share takes the whole GPU away, and the next pass would fill it in beside it."""
    policy = make_gvk_policy(
        make_rule("resourceLimits", "allContainers", {"default": {"key": GPU, "value": "1"}})
    )

    answer = inject(asking("1"), make_kai_injection({"main": "0.5"}), policy)

    assert share_of(answer.document) == {}
    assert "would change it again" in answer.decision.warnings[0]


def test_a_default_number_of_devices_does_not_multiply_a_share() -> None:
    policy = make_workload_policy(
        workload_type=[POD], defaults={"compute": {"gpuDevicesRequest": 2}}
    )

    answer = inject(asking("1"), make_kai_injection({"main": "0.5"}), policy)

    assert DEVICES not in share_of(answer.document)
    assert whole_gpus(answer.document) == {"main": ("1", "1")}


def test_a_rule_that_is_broken_already_denies_as_before() -> None:
    answer = inject(asking("9"), make_injection({"main": "10"}), gpu_policy({"max": 8}))

    assert not answer.allowed
    assert answer.broken == [(LIMIT, "max")]


def test_a_recommendation_may_be_what_keeps_a_rule() -> None:
    answer = inject(asking("9"), make_injection({"main": "8"}), gpu_policy({"max": 8}))

    assert answer.allowed
    assert whole_gpus(answer.document) == {"main": ("8", "8")}


def test_a_share_is_judged_by_the_rules_of_portions() -> None:
    rules = {"compute": {"gpuPortionRequest": {"max": 0.5}}}
    policy = make_workload_policy(workload_type=[POD], rules=rules)

    fits = inject(asking("1"), make_kai_injection({"main": "0.5"}), policy)
    does_not = inject(asking("1"), make_kai_injection({"main": "0.51"}), policy)

    assert share_of(fits.document)[FRACTION] == "0.5"
    assert whole_gpus(does_not.document) == {"main": ("1", "1")}
    assert "gpuPortionRequest would be refused" in does_not.decision.warnings[0]


def test_rules_of_the_pods_own_kind_hold_for_pods_that_are_not_judged() -> None:
    jobs = make_gvk_policy(make_rule("backoffLimit", "workload", {"max": 4}), kind=JOB, name="jobs")
    pod = owned(asking("1"), "Job", "batch/v1")

    answer = inject(pod, make_injection(), jobs, gpu_policy({"max": 1}), user=CONTROLLER)

    assert answer.patch == []
    assert "would be refused: above the maximum; ≤ 1" in answer.decision.warnings[0]


OWNERS = [
    ({"group": "apps", "version": "v1", "kind": "Deployment"}, "apps/v1", "ReplicaSet"),
    ({"group": "apps", "version": "v1", "kind": "StatefulSet"}, "apps/v1", "StatefulSet"),
    ({"group": "batch", "version": "v1", "kind": "CronJob"}, "batch/v1", "Job"),
]


@pytest.mark.parametrize(("kind", "api_version", "owner"), OWNERS, ids=lambda row: str(row)[:40])
@pytest.mark.parametrize("user", [CONTROLLER, "alice"])
@pytest.mark.parametrize("with_pods", [True, False])
def test_rules_of_the_workloads_kind_hold_for_its_pods(
    kind: JsonObject, api_version: str, owner: str, user: str, with_pods: bool
) -> None:
    rules = {"compute": {"gpuDevicesRequest": {"max": 2}}, "priorityClass": {"required": True}}
    documents = [make_workload_policy(workload_type=[kind], rules=rules)]
    if with_pods:
        pods = make_rule("hostNetwork", "podSpec", {"blocked": True})
        documents.append(make_gvk_policy(pods, name="pods", kind=POD))
    workload = WorkloadRef(f"{kind['group']}/{kind['version']}", kind["kind"], "llm")
    fits = replace(make_injection({"main": "2"}), workload=workload)
    does_not = replace(make_injection({"main": "3"}), workload=workload)

    answers = [
        inject(owned(asking("1"), owner, api_version), injection, *documents, user=user)
        for injection in (fits, does_not)
    ]

    assert [whole_gpus(answer.document)["main"][0] for answer in answers] == ["2", "1"]
    assert "above the maximum; ≤ 2 (policy guardrails" in answers[1].decision.warnings[0]


def test_a_denied_pod_has_no_changes() -> None:
    policy = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"blocked": True}))

    answer = inject(asking(hostNetwork=True), make_injection(), policy)

    assert not answer.allowed
    assert answer.decision.changes == ()


def test_a_policy_that_is_only_tried_keeps_nothing_out() -> None:
    policy = gpu_policy({"max": 1}, mode="Audit")

    answer = inject(asking("1"), make_injection(), policy)

    assert whole_gpus(answer.document) == {"main": ("2", "2")}


def test_a_foreign_sidecar_at_the_front_does_not_get_the_share() -> None:
    """Another webhook adds a container, and we are called again."""
    injection = make_kai_injection({"main": "0.5"})
    document = inject(asking("1"), injection).document
    document["spec"]["containers"].insert(0, make_container("mesh"))

    again = inject(document, injection)

    assert (again.patch, again.decision.warnings) == ([], ())
    assert share_of(again.document)[CONTAINER] == "main"


def test_values_of_other_annotations_are_in_no_change() -> None:
    pod = asking(annotations={"token": "hidden-away"}, labels={QUEUE: "mine"})

    answer = inject(pod, make_kai_injection({"main": "0.5"}))

    assert "hidden-away" not in str(told(answer.decision)) + str(answer.patch)


# -- the probe -------------------------------------------------------------------------------------


def probe(**metadata: Any) -> JsonObject:
    pod = make_pod()
    pod["metadata"] = {"name": "probe", "labels": {"gatewright.io/probe": "true"}, **metadata}
    return pod


OWN = EngineSettings(own_namespace="gatewright")


def test_a_probe_in_our_namespace_is_changed_so_that_it_is_seen() -> None:
    blocked = make_gvk_policy(make_rule("image", "allContainers", {"blocked": True}))
    snapshot = make_snapshot(blocked, settings=OWN)
    request = make_request(probe(), namespace="gatewright", dry_run=True)

    decision = review(request, Phase.MUTATE, snapshot)

    assert decision.allowed
    annotations = {"gatewright.io/probed": snapshot.revision}
    assert decision.patch == [{"op": "add", "path": "/metadata/annotations", "value": annotations}]
    assert [change.new for change in decision.changes] == [NOT_SHOWN]
    again = make_request(request.object, namespace="gatewright", dry_run=True)
    assert review(again, Phase.MUTATE, snapshot).patch == []
    assert review(again, Phase.VALIDATE, snapshot).allowed


@pytest.mark.parametrize(
    ("settings", "pod", "more"),
    [
        pytest.param(OWN, probe(), {"dry_run": False}, id="in-earnest"),
        pytest.param(OWN, probe(), {"namespace": "team-a"}, id="elsewhere"),
        pytest.param(OWN, probe(labels={"gatewright.io/probe": "false"}), {}, id="another-value"),
        pytest.param(OWN, probe(labels={}), {}, id="no-label"),
        pytest.param(OWN, probe(labels=[]), {}, id="labels-of-another-type"),
        pytest.param(OWN, probe(), {"sub_resource": "status"}, id="sub-resource"),
        pytest.param(OWN, probe(annotations="x"), {}, id="annotations-of-another-type"),
        pytest.param(EngineSettings(), probe(), {"namespace": ""}, id="namespace-not-known"),
    ],
)
def test_anything_else_is_no_probe(
    settings: EngineSettings, pod: JsonObject, more: dict[str, Any]
) -> None:
    request = make_request(pod, **{"namespace": "gatewright", "dry_run": True, **more})

    decision = review(request, Phase.MUTATE, make_snapshot(settings=settings))

    assert (decision.allowed, decision.patch) == (True, [])


def test_the_engine_is_asked_about_a_copy() -> None:
    """What is refused leaves nothing behind in the object that is judged."""
    policy = gpu_policy({"max": 1})
    snapshot = make_snapshot(policy)
    request = make_request(asking("1"))
    before = copy.deepcopy(request.object)

    review(request, Phase.MUTATE, snapshot, injection=make_injection())

    assert request.object == before
    plan = snapshot.plan(request.kind, snapshot.branch("team-a"))
    assert plan is not None
    enforcer = Enforcer(plan, request.object or {})
    enforcer.judge()
    assert enforcer.findings.violations == []
