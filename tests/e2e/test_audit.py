"""What auditors see in a cluster: Events, the audit log, the denial's data, policy reports."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.builders import DEPLOYMENT, JsonObject, make_container, make_gvk_policy, make_rule
from tests.controlplane.cluster import ALICE
from tests.controlplane.documents import Rule
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.report_crds import OPEN_REPORT_CRDS, POLICY_REPORT_CRDS

CANARY = "hunter2-canary"
PATIENCE_S = 30.0
# A count is written every half a minute.
COUNT_PATIENCE_S = 60.0
# A new kind is seen by the garbage collector within half a minute.
COLLECTOR_PATIENCE_S = 90.0
OWNER = "gatewright-installation"
PODS = 600

GUARD = make_gvk_policy(
    make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}),
    make_rule("env", "allContainers", {"blocked": True}),
    make_rule("imagePullPolicy", "allContainers", {"set": "Always"}),
    kind=DEPLOYMENT,
    name="deployments",
)
PODS_GUARD = make_gvk_policy(
    make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}), name="pods"
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(audit="Metadata").start(tmp_path_factory.mktemp("plane")) as plane:
        crds = subprocess.run(
            [sys.executable, "-m", "webhook", "crds"], check=True, capture_output=True, text=True
        ).stdout
        plane.kubectl_checked("apply", "--server-side", "-f", "-", stdin=crds)
        plane.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        for namespace in ("gatewright", "team-a", "team-b", "crowd"):
            plane.kubectl_checked("create", "namespace", namespace)
        plane.apply(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": OWNER},
                "webhooks": [],
            }
        )
        yield plane


@pytest.fixture(scope="module")
def gate(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterGate]:
    plane.apply(GUARD)
    gate = ClusterGate(
        tmp_path_factory.mktemp("gate"),
        plane.kubeconfig(),
        *("--scan-period", "2s"),
        *("--own-namespace", "gatewright", "--validating-configuration", OWNER),
    )
    try:
        gate.start()
        plane.register_webhooks(
            f"{gate.url}/mutate",
            f"{gate.url}/validate",
            gate.ca_pem,
            rules=(Rule("apps", ("v1",), ("deployments",)),),
        )
        yield gate
    finally:
        gate.stop()


@pytest.fixture(scope="module", autouse=True)
def denied_thrice(plane: ControlPlane, gate: ClusterGate) -> None:
    """At the start: the count is written half a minute later, and others need not wait for it."""
    for _ in range(3):
        create(plane, bad("again", "team-b"))


def deployment(name: str, namespace: str = "team-a", **container: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [make_container(**container)]},
            },
        },
    }


def create(plane: ControlPlane, document: JsonObject, query: str = "") -> JsonObject:
    """What the API server answers alice."""
    path = f"/apis/apps/v1/namespaces/{document['metadata']['namespace']}/deployments{query}"
    answer: JsonObject = plane.request("POST", path, document, user=ALICE).json()
    return answer


def bad(name: str, namespace: str = "team-a") -> JsonObject:
    secret = [{"name": "API_TOKEN", "value": CANARY}]
    return deployment(name, namespace, image="docker.io/busybox", env=secret)


def events(plane: ControlPlane, namespace: str) -> list[JsonObject]:
    found = json.loads(
        plane.kubectl_checked("get", "events.events.k8s.io", "-n", namespace, "-o", "json")
    )
    return [event for event in found["items"] if event["reason"] == "AdmissionDenied"]


# --- Events ---


def test_a_denial_is_an_event_in_its_namespace(plane: ControlPlane, gate: ClusterGate) -> None:
    answer = create(plane, bad("web"))

    wait_until(lambda: bool(events(plane, "team-a")), PATIENCE_S, "the event")
    [event] = events(plane, "team-a")
    assert answer["code"] == 403
    assert (event["type"], event["regarding"]["kind"]) == ("Warning", "Namespace")
    assert event["regarding"]["name"] == event["regarding"]["namespace"] == "team-a"
    assert event["note"].startswith("alice may not create Deployment web: ")
    assert "got docker.io/busybox; like ghcr.io/* (policy deployments, tenant)" in event["note"]
    assert CANARY not in json.dumps(event)
    # As people look at it.
    shown = plane.kubectl_checked("get", "events", "-n", "team-a")
    assert "AdmissionDenied" in shown
    assert "namespace/team-a" in shown


def test_a_dry_run_is_no_event(plane: ControlPlane, gate: ClusterGate) -> None:
    answer = create(plane, bad("dry", "team-b"), "?dryRun=All")
    create(plane, bad("wet", "team-b"))

    wait_until(
        lambda: "Deployment wet:" in json.dumps(events(plane, "team-b")), PATIENCE_S, "the event"
    )
    assert answer["code"] == 403
    assert "Deployment dry:" not in json.dumps(events(plane, "team-b"))


# --- what the caller and the audit log get ---


def test_the_denial_has_data_for_machines(plane: ControlPlane, gate: ClusterGate) -> None:
    causes = create(plane, bad("data"))["details"]["causes"]

    assert [(cause["reason"], cause["field"]) for cause in causes] == [
        ("FieldValueForbidden", "spec.template.spec.containers[0].env"),
        ("FieldValueNotSupported", "spec.template.spec.containers[0].image"),
    ]
    assert CANARY not in json.dumps(causes)


def test_kubectl_shows_the_data_when_it_is_asked_to(plane: ControlPlane, gate: ClusterGate) -> None:
    done = plane.kubectl("create", "-v=8", "-f", "-", stdin=json.dumps(bad("loud")), user=ALICE)

    assert done.returncode == 1
    assert '"causes":[{"reason":"FieldValueForbidden"' in done.stderr
    assert "matches no allowed pattern, got docker.io/busybox" in done.stderr


def test_the_audit_log_says_what_was_refused_and_what_was_changed(
    plane: ControlPlane, gate: ClusterGate
) -> None:
    create(plane, bad("refused"))
    create(plane, deployment("changed", image="ghcr.io/example/web:1"))

    by_name = {
        event["objectRef"].get("name") or event["requestObject"]["metadata"]["name"]: event
        for event in plane.audit_events()
        if event["objectRef"].get("resource") == "deployments"
        and event["user"]["username"] == ALICE
        and "name" in event["objectRef"]
    }
    refused = by_name["refused"]
    decision = json.loads(refused["annotations"]["workloads.gatewright.io/decision"])
    assert refused["responseStatus"]["code"] == 403
    assert [item["rule"] for item in decision["violations"]] == ["blocked", "pattern"]
    decision = json.loads(by_name["changed"]["annotations"]["workloads.gatewright.io/decision"])
    assert [(item["field"], item["new"]) for item in decision["changes"]] == [
        ("imagePullPolicy", "Always")
    ]
    assert CANARY not in json.dumps(list(by_name.values()))


# --- reports ---


def report(plane: ControlPlane, plural: str, namespace: str) -> JsonObject | None:
    done = plane.kubectl("get", plural, "gatewright", "-n", namespace, "-o", "json")
    return None if done.returncode else json.loads(done.stdout)


def test_what_runs_and_breaks_a_rule_is_reported_once_there_is_a_crd(
    plane: ControlPlane, gate: ClusterGate
) -> None:
    """600 pods were there before their policy."""

    def make(number: int) -> int:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number:03}", "namespace": "crowd"},
            "spec": {"containers": [make_container(image="docker.io/busybox")]},
        }
        return plane.request("POST", "/api/v1/namespaces/crowd/pods", pod).status

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(make, range(PODS))) == {201}
    plane.apply(PODS_GUARD)
    time.sleep(5.0)
    assert gate.metric("gatewright_scans_total", outcome="done") == 0

    plane.apply(*POLICY_REPORT_CRDS)
    wait_until(
        lambda: gate.metric("gatewright_open_violations", result="fail") == PODS,
        PATIENCE_S,
        "the first look",
    )
    found = report(plane, "policyreports", "crowd")
    assert found is not None
    assert len(found["results"]) == 500
    assert found["summary"]["fail"] == PODS
    assert found["metadata"]["annotations"]["policy.gatewright.io/omitted-results"] == "100"
    first = found["results"][0]
    assert (first["policy"], first["rule"], first["result"]) == ("pods", "image.pattern", "fail")
    [subject] = first["resources"]
    assert (subject["kind"], subject["namespace"], subject["name"]) == ("Pod", "crowd", "pod-000")
    assert subject["uid"]
    assert "500" not in plane.kubectl_checked("get", "policyreports", "-n", "team-a")


def test_nothing_is_written_while_nothing_changes(plane: ControlPlane, gate: ClusterGate) -> None:
    before = report(plane, "policyreports", "crowd")
    scans = gate.metric("gatewright_scans_total", outcome="done")

    wait_until(
        lambda: gate.metric("gatewright_scans_total", outcome="done") >= scans + 2,
        PATIENCE_S,
        "two more looks",
    )

    assert report(plane, "policyreports", "crowd") == before
    assert gate.metric("gatewright_report_writes_total", outcome="failed") == 0


def test_a_policy_that_is_only_tried_warns(plane: ControlPlane, gate: ClusterGate) -> None:
    tried = {**PODS_GUARD, "spec": {**PODS_GUARD["spec"], "mode": "Audit"}}
    plane.apply(tried)

    wait_until(
        lambda: gate.metric("gatewright_open_violations", result="warn") == PODS,
        PATIENCE_S,
        "the look by the new policy",
    )

    found = report(plane, "policyreports", "crowd")
    assert found is not None
    assert {result["result"] for result in found["results"]} == {"warn"}
    assert found["summary"]["fail"] == 0


def test_reports_move_to_the_newer_api_when_that_is_installed(
    plane: ControlPlane, gate: ClusterGate
) -> None:
    plane.apply(*OPEN_REPORT_CRDS)

    wait_until(
        lambda: report(plane, "reports.openreports.io", "crowd") is not None,
        PATIENCE_S,
        "the report in the newer API",
    )
    wait_until(
        lambda: report(plane, "policyreports", "crowd") is None, PATIENCE_S, "the old one to go"
    )


def test_denials_that_come_again_are_counted(
    plane: ControlPlane, gate: ClusterGate, denied_thrice: None
) -> None:
    def counts() -> list[int]:
        return [
            event.get("series", {}).get("count", 1)
            for event in events(plane, "team-b")
            if "Deployment again:" in event["note"]
        ]

    wait_until(lambda: counts() == [3], COUNT_PATIENCE_S, "the count")
    assert "(x3 over" in plane.kubectl_checked("events", "-n", "team-b")


def test_reports_go_with_the_installation(plane: ControlPlane, gate: ClusterGate) -> None:
    """As after `helm uninstall`: their owner is an object of the chart."""
    gate.stop()
    assert report(plane, "reports.openreports.io", "crowd") is not None

    plane.kubectl_checked("delete", "validatingwebhookconfiguration", OWNER)

    wait_until(
        lambda: report(plane, "reports.openreports.io", "crowd") is None,
        COLLECTOR_PATIENCE_S,
        "the garbage collector",
    )


def test_nothing_hidden_reached_log_events_or_reports(
    plane: ControlPlane, gate: ClusterGate
) -> None:
    told = [gate.log_text, gate.ops("/metrics")[1]]
    told += [json.dumps(events(plane, namespace)) for namespace in ("team-a", "team-b")]

    assert "(not shown)" in "".join(told)
    assert CANARY not in "".join(told)
