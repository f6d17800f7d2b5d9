"""Policies that are only tried: `mode: Warn` and `mode: Audit` change and refuse nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.builders import (
    DEPLOYMENT,
    POD,
    make_container,
    make_gvk_policy,
    make_pod,
    make_request,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.admission.existing import judge_existing
from webhook.admission.record import audit_annotation, decision_record
from webhook.admission.review import review
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.locate import answer_by_jq
from webhook.model.decision import Decision
from webhook.model.request import Phase
from webhook.model.scopes import Branch
from webhook.store.snapshot import Snapshot

JsonObject = dict[str, Any]


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    worker = JqWorker()
    yield worker
    worker.close()


def compile_ok(*documents: JsonObject) -> Snapshot:
    snapshot = make_snapshot(*documents)
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []
    return snapshot


def tried(mode: str, *rules: JsonObject, name: str = "candidate", **more: Any) -> JsonObject:
    policy = make_gvk_policy(*rules, name=name, **more)
    policy["spec"]["mode"] = mode
    return policy


def record_of(decision: Decision) -> JsonObject:
    return decision_record(
        make_request(make_pod()),
        decision,
        phase="mutate",
        branch=Branch(),
        snapshot="r",
        duration_s=0.0,
    )


IMAGE = make_rule("image", "allContainers", {"pattern": ["nvcr.io/*"]})
LABEL = make_rule("labels", "podMetadata", {"default": {"key": "team", "value": "x"}})


@pytest.mark.parametrize("mode", ["Warn", "Audit", "warn", "AUDIT"])
def test_nothing_is_changed_or_refused(mode: str) -> None:
    answer = submit(compile_ok(tried(mode, IMAGE, LABEL)), make_pod())

    assert (answer.decision.allowed, answer.decision.patch) == (True, [])


@pytest.mark.parametrize(
    ("mode", "warnings"),
    [
        pytest.param(
            "Warn",
            (
                "image [allContainers main]: matches no allowed pattern, got"
                " ghcr.io/example/train:1; like nvcr.io/*; not enforced yet"
                " (policy candidate, tenant)",
                "labels[team] [podMetadata]: default would be applied, x; not enforced yet"
                " (policy candidate, tenant)",
            ),
            id="warn",
        ),
        pytest.param("Audit", (), id="audit"),
    ],
)
def test_the_submitter_is_told_with_warn_only(mode: str, warnings: tuple[str, ...]) -> None:
    decision = review(make_request(make_pod()), Phase.MUTATE, compile_ok(tried(mode, IMAGE, LABEL)))

    assert decision.warnings == warnings


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_record_and_audit_log_say_what_it_would_have_done(mode: str) -> None:
    decision = review(make_request(make_pod()), Phase.MUTATE, compile_ok(tried(mode, IMAGE, LABEL)))

    for told in (record_of(decision), orjson.loads(audit_annotation(decision))):
        assert [
            (found["mode"], found["field"], found["rule"], found["policy"])
            for found in told["previews"]
        ] == [
            (mode, "image", "pattern", "candidate"),
            (mode, "labels[team]", "default", "candidate"),
        ]


def test_a_replacement_is_tried_beside_the_policy_in_force() -> None:
    """It holds no slot, and shows what it would do to the object as it was submitted."""
    current = make_workload_policy(
        defaults={"backoffLimit": 3}, rules={"backoffLimit": {"max": 4}}, name="current"
    )
    better = make_workload_policy(
        defaults={"backoffLimit": 5}, rules={"backoffLimit": {"max": 6}}, name="better"
    )
    better["spec"]["mode"] = "Audit"
    snapshot = compile_ok(current, better)

    decision = review(make_request(make_training()), Phase.MUTATE, snapshot)

    (preview,) = decision.previews
    assert [change.new for change in decision.changes if change.field == "backoffLimit"] == [3]
    assert [(change.field, change.new) for change in preview.changes] == [("backoffLimit", 5)]


def test_two_candidates_do_not_know_of_one_another() -> None:
    first = tried("Audit", make_rule("image", "allContainers", {"set": {"value": "a"}}), name="a")
    second = tried("Audit", make_rule("image", "allContainers", {"set": {"value": "b"}}), name="b")

    decision = review(make_request(make_pod()), Phase.MUTATE, compile_ok(first, second))

    assert [(p.source.policy, [c.new for c in p.changes]) for p in decision.previews] == [
        ("a", ["a"]),
        ("b", ["b"]),
    ]


def test_a_candidate_that_contradicts_itself_is_refused_all_the_same() -> None:
    snapshot = make_snapshot(
        tried("Audit", make_rule("image", "allContainers", {"required": True}, {"blocked": True}))
    )

    assert "can't be both required and blocked" in str(snapshot.problems[0])


def test_an_owner_that_is_only_tried_for_exempts_nobody() -> None:
    """Its pods are judged: nobody has judged the owner."""
    deployment = tried("Warn", IMAGE, kind=DEPLOYMENT)
    pods = make_gvk_policy(IMAGE, kind=POD, name="pods")
    pod = make_pod()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    controller = "system:serviceaccount:kube-system:replicaset-controller"

    answer = submit(compile_ok(deployment, pods), pod, user=controller)

    assert [rule for _, rule in answer.broken] == ["pattern"]


def test_an_update_that_leaves_a_violation_alone_is_not_told_again() -> None:
    snapshot = compile_ok(tried("Warn", IMAGE, kind=DEPLOYMENT))
    old = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [make_container()]}}},
    }
    new = {**old, "spec": {**old["spec"], "replicas": 2}}  # type: ignore[dict-item]

    decision = review(make_request(new, old=old), Phase.VALIDATE, snapshot)

    assert decision.warnings == ()


# -- the doors, one after the other ----------------------------------------------------------------


def told_at_doors(snapshot: Snapshot, document: JsonObject) -> tuple[list[str], list[str]]:
    """What a submitter is told at /mutate, and what at /validate."""
    request = make_request(copy.deepcopy(document))
    mutated = review(request, Phase.MUTATE, snapshot)
    validated = review(request, Phase.VALIDATE, snapshot)
    return list(mutated.warnings), list(validated.warnings)


def told_at_once(snapshot: Snapshot, document: JsonObject) -> list[str]:
    """What the command line says."""
    request = make_request(copy.deepcopy(document))
    return list(review(request, Phase.REVIEW, snapshot).warnings)


def late(text: str) -> str:
    return f"{text}; not enforced yet (policy candidate, tenant)"


COMPLETING = tried(
    "Warn",
    make_rule("runAsNonRoot", "podSpec", {"set": True}),
    make_rule(
        "resourceLimits",
        "allContainers",
        {"default": {"key": "memory", "value": "1Gi"}},
        {"required": {"key": "memory"}},
        {"max": {"key": "memory", "value": "2Gi"}},
    ),
)
COMPLETES = [
    late("runAsNonRoot [podSpec]: set would be applied, true"),
    late("resourceLimits[memory] [allContainers main]: default would be applied, 1Gi"),
]


@pytest.mark.parametrize(
    ("spec", "mutated", "validated"),
    [
        pytest.param({}, COMPLETES, [], id="left-to-the-policy"),
        pytest.param(
            {"securityContext": {"runAsNonRoot": False}},
            [
                late("runAsNonRoot [podSpec]: set would be applied, false -> true"),
                COMPLETES[1],
            ],
            [],
            id="set-over-what-is-submitted",
        ),
        pytest.param(
            {"containers": [make_container(resources={"limits": {"memory": "4Gi"}})]},
            [
                late(
                    "resourceLimits[memory] [allContainers main]: above the maximum, got 4Gi; ≤ 2Gi"
                ),
                COMPLETES[0],
            ],
            [
                late(
                    "resourceLimits[memory] [allContainers main]: above the maximum, got 4Gi; ≤ 2Gi"
                )
            ],
            id="refused-for-what-is-submitted",
        ),
    ],
)
def test_nothing_is_announced_that_the_policy_would_have_mended(
    spec: JsonObject, mutated: list[str], validated: list[str]
) -> None:
    """It has changed nothing when the object comes to /validate, and would have by then."""
    snapshot = compile_ok(COMPLETING)

    assert told_at_doors(snapshot, make_pod(**spec)) == (mutated, validated)
    assert told_at_once(snapshot, make_pod(**spec)) == mutated


def test_what_is_announced_is_what_comes_once_it_is_enforced() -> None:
    enforced = copy.deepcopy(COMPLETING)
    enforced["spec"]["mode"] = "Enforce"

    answer = submit(compile_ok(enforced), make_pod())

    assert answer.allowed
    assert answer.at("/spec/securityContext/runAsNonRoot") is True
    assert answer.at("/spec/containers/0/resources/limits/memory") == "1Gi"


def test_what_is_missing_is_told_when_nobody_has_filled_it_in() -> None:
    rule = make_rule("resourceLimits", "allContainers", {"required": {"key": "memory"}})
    snapshot = compile_ok(tried("Warn", rule))
    lacking = late("resourceLimits[memory] [allContainers main]: a value is required")

    assert told_at_doors(snapshot, make_pod()) == ([], [lacking])
    assert told_at_once(snapshot, make_pod()) == [lacking]


def test_what_a_policy_in_force_fills_in_is_not_missing() -> None:
    rule = make_rule("resourceLimits", "allContainers", {"required": {"key": "memory"}})
    default = {"default": {"key": "memory", "value": "1Gi"}}
    given = make_gvk_policy(make_rule("resourceLimits", "allContainers", default))
    snapshot = compile_ok(given, tried("Warn", rule))

    assert told_at_doors(snapshot, make_pod()) == ([], [])
    assert told_at_once(snapshot, make_pod()) == []


@pytest.mark.parametrize("rule", ["default", "set"])
def test_a_value_of_a_policy_in_force_is_no_fault_of_the_workload(rule: str) -> None:
    """A replacement would give another one in its place."""
    current = make_gvk_policy(make_rule("activeDeadlineSeconds", "podSpec", {rule: 9}))
    better = tried(
        "Warn", make_rule("activeDeadlineSeconds", "podSpec", {"default": 3}, {"max": 5})
    )
    snapshot = compile_ok(current, better)
    change = late("activeDeadlineSeconds [podSpec]: default would be applied, 3")

    assert told_at_doors(snapshot, make_pod()) == ([change], [])
    assert told_at_once(snapshot, make_pod()) == [change]


def test_what_another_webhook_adds_is_judged() -> None:
    """A sidecar that was not there at /mutate would be refused at /validate."""
    snapshot = compile_ok(tried("Warn", IMAGE))
    sidecar = make_container("proxy", image="istio/proxyv2:1")
    pod = make_pod(containers=[make_container(image="nvcr.io/train:1"), sidecar])

    (told,) = review(make_request(pod), Phase.VALIDATE, snapshot).warnings

    assert told.startswith("image [allContainers proxy]: matches no allowed pattern")


def test_a_pod_that_runs_is_judged_as_it_is() -> None:
    """No policy would have changed it."""
    snapshot = compile_ok(tried("Warn", make_rule("runAsNonRoot", "podSpec", {"set": True})))
    pod, old = make_pod(securityContext={"runAsNonRoot": False}), make_pod()

    decisions = [
        review(make_request(copy.deepcopy(pod), old=old), phase, snapshot)
        for phase in (Phase.MUTATE, Phase.VALIDATE, Phase.REVIEW)
    ]

    told = late("runAsNonRoot [podSpec]: the policy sets this value, got false; exactly true")
    assert [decision.warnings for decision in decisions] == [(told,)] * 3


def test_what_a_cluster_holds_is_judged_as_it_stands() -> None:
    decision = judge_existing(make_pod(), compile_ok(COMPLETING))

    assert [(item.field, item.rule) for item in decision.previews[0].violations] == [
        ("resourceLimits[memory]", "required"),
        ("runAsNonRoot", "set"),
    ]


def test_a_value_that_must_not_be_shown_is_not_shown() -> None:
    secret = {"default": {"key": "TOKEN", "value": "hunter2"}}
    snapshot = compile_ok(tried("Warn", make_rule("env", "allContainers", secret)))

    told = told_at_once(snapshot, make_pod())

    assert told == [late("env [allContainers main]: default would be applied, (not shown)")]


def test_a_candidate_that_fails_on_an_object_stops_nobody(worker: JqWorker) -> None:
    """Its expression breaks on the object; the policies in force decide all the same."""
    group = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "Formatter",
        "metadata": {"name": "odd"},
        "spec": {
            "fields": {
                "odd": {
                    "getExpr": '.a | splits("x"; "g")',
                    "setExpr": "{a: $ARGS.named.value}",
                    "argsInfo": {"value": "string"},
                }
            }
        },
    }
    fields = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "FieldGroup",
        "metadata": {"name": "odd-fields"},
        "spec": {"fields": {"odd": {"formatter": "odd", "type": "string"}}},
    }
    kind = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}
    mapping = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {
            "workloadType": kind,
            "specSelectors": {"job": {"query": ".spec", "fieldGroups": ["odd-fields"]}},
        },
    }
    candidate = tried("Warn", make_rule("odd", "job", {"required": True}), kind=kind)
    snapshot = compile_ok(group, fields, mapping, candidate)
    job = {
        "apiVersion": "acme.io/v1",
        "kind": "AcmeJob",
        "metadata": {"name": "j", "namespace": "team-a"},
        "spec": {"a": 7},
    }
    request = make_request(job)

    decision = answer_by_jq(
        worker, job, lambda answers: review(request, Phase.VALIDATE, snapshot, answers)
    )

    assert decision.allowed
    assert "could not be tried" in decision.warnings[0]
    assert [found["error"] for found in record_of(decision)["previews"]]
