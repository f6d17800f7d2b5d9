"""What is kept of a look at a cluster: bounded, and the same for the same cluster."""

from __future__ import annotations

from typing import Any

from tests.builders import (
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
)
from webhook.admission.existing import judge_existing
from webhook.reports.findings import (
    MAX_RESULTS,
    Findings,
    Result,
    Subject,
    Verdict,
    results_of,
)

CANARY = "hunter2-canary"


def policy(mode: str = "Enforce", name: str = "baseline") -> dict[str, Any]:
    document = make_gvk_policy(
        make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}),
        make_rule("args", "allContainers", {"options": ["--fast"]}),
        name=name,
    )
    document["spec"]["mode"] = mode
    return document


def results(pod: dict[str, Any], *policies: dict[str, Any]) -> list[Result]:
    return list(results_of(Subject.of(pod), judge_existing(pod, make_snapshot(*policies))))


def bad_pod(**container: Any) -> dict[str, Any]:
    pod = make_pod(containers=[make_container(**{"image": "docker.io/busybox", **container})])
    pod["metadata"]["uid"] = "1-2-3"
    return pod


def result(
    name: str = "train", namespace: str = "team-a", verdict: Verdict = Verdict.FAIL
) -> Result:
    subject = Subject("v1", "Pod", namespace, name, "1")
    return Result(verdict, subject, "baseline", "image.pattern", f"{name} is wrong")


def test_a_violation_names_object_policy_rule_and_what_would_be_right() -> None:
    [found] = results(bad_pod(), policy())

    assert found.verdict is Verdict.FAIL
    assert found.subject == Subject("v1", "Pod", "team-a", "train", "1-2-3")
    assert (found.policy, found.rule) == ("baseline", "image.pattern")
    assert "got docker.io/busybox; like ghcr.io/* (policy baseline, tenant)" in found.message
    assert dict(found.properties) == {
        "mode": "Enforce",
        "path": "/spec/containers/0/image",
        "scope": "tenant",
    }


def test_a_policy_that_is_only_tried_warns_and_says_its_mode() -> None:
    found = results(bad_pod(), policy("Warn", "warning"), policy("Audit", "auditing"))

    assert [(one.verdict, one.policy, dict(one.properties)["mode"]) for one in found] == [
        (Verdict.WARN, "auditing", "Audit"),
        (Verdict.WARN, "warning", "Warn"),
    ]


def test_hidden_values_are_not_told() -> None:
    found = results(bad_pod(args=[f"--token={CANARY}"]), policy(), policy("Warn", "tried"))

    assert len(found) == 4
    assert CANARY not in str(found)


def test_what_is_right_has_no_result() -> None:
    assert results(make_pod(), policy()) == []


def test_all_are_counted_and_five_hundred_of_a_namespace_kept() -> None:
    findings = Findings()

    for number in range(600):
        findings.add(result(f"train-{number}"))
    findings.add(result("other", namespace="team-b"))

    found = findings.by_namespace["team-a"]
    assert [one.subject.name for one in found.results] == [f"train-{n}" for n in range(MAX_RESULTS)]
    assert found.counts == {Verdict.FAIL: 600}
    assert len(findings.by_namespace["team-b"].results) == 1


def test_what_is_enforced_pushes_out_what_is_only_tried() -> None:
    findings = Findings()

    for number in range(MAX_RESULTS):
        findings.add(result(f"tried-{number}", verdict=Verdict.WARN))
    for number in range(3):
        findings.add(result(f"refused-{number}"))

    kept = findings.by_namespace["team-a"].results
    assert len(kept) == MAX_RESULTS
    assert [one.subject.name for one in kept[:3]] == [f"refused-{n}" for n in range(3)]
    assert findings.counts == {Verdict.WARN: MAX_RESULTS, Verdict.FAIL: 3}


def test_all_reports_together_are_bounded_too() -> None:
    """Many small reports fill etcd as one large one does."""
    findings = Findings(max_results=50)

    for number in range(200):
        findings.add(result(namespace=f"team-{number}"))

    assert sum(len(found.results) for found in findings.by_namespace.values()) == 50
    assert findings.counts == {Verdict.FAIL: 200}
