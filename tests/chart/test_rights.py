"""
The rights of the chart: none that is not needed.

What is used is seen in tests/e2e/test_helm_rights.py, on a real API server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import Values, of_kind, render, render_example, the_one

pytestmark = pytest.mark.slow

MAPPINGS = Path(__file__).parents[2] / "webhook" / "catalog" / "mappings"


def rules_of(values: Values | None = None) -> list[dict[str, Any]]:
    manifests = render(values) if values else render_example(None)
    return [rule for kind in ("ClusterRole", "Role") for rule in the_one(manifests, kind)["rules"]]


def mapped_kinds() -> set[tuple[str, str]]:
    """Group and plural of every kind that is mapped out of the box."""
    found = set()
    for path in MAPPINGS.glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            kind = document["spec"]["workloadType"]
            plural = document["spec"].get("resource") or f"{kind['kind'].lower()}s"
            found.add((kind.get("group", ""), plural))
    return found


def test_no_right_is_on_everything() -> None:
    for rule in rules_of():
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_what_protects_the_cluster_is_only_changed_by_name() -> None:
    """Webhook configurations and Secrets: ours, and no others."""
    for rule in rules_of():
        if rule["apiGroups"] == ["admissionregistration.k8s.io"]:
            assert rule["resourceNames"] == ["gatewright-admission"]
            assert set(rule["verbs"]) <= {"get", "list", "watch", "patch"}
        if rule["resources"] == ["secrets"] and rule["verbs"] != ["create"]:
            assert rule["resourceNames"] == ["gate-gatewright-certificate"]


def test_secrets_leases_and_pods_are_only_made_in_the_own_namespace() -> None:
    rules = the_one(render_example(None), "ClusterRole")["rules"]

    assert [rule for rule in rules if {"secrets", "leases"} & set(rule["resources"])] == []
    assert [
        rule for rule in rules if "pods" in rule["resources"] and "create" in rule["verbs"]
    ] == []


@pytest.mark.parametrize(
    ("values", "verbs"),
    [
        pytest.param({"reconciler": {"enabled": False}}, {"list"}, id="to-report-what-runs"),
        pytest.param(
            {"server": {"reports": {"enabled": False}}}, {"list", "watch"}, id="to-resize-it"
        ),
    ],
)
def test_every_mapped_kind_may_be_looked_at(values: Values, verbs: set[str]) -> None:
    allowed = {
        (group, plural)
        for rule in the_one(render(values), "ClusterRole")["rules"]
        if verbs <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }

    assert mapped_kinds() - allowed == set()


def test_no_kind_is_looked_at_without_need() -> None:
    values = {"reconciler": {"enabled": False}, "server": {"reports": {"enabled": False}}}
    rules = the_one(render(values), "ClusterRole")["rules"]

    assert {
        plural for rule in rules for plural in rule["resources"] if "list" in rule["verbs"]
    } == {
        *("workloadpolicies", "gvkpolicies", "specmappings", "fieldgroups", "formatters"),
        *("datasources", "gpurecommendations", "automationstrategies"),
        *("clusterautomationstrategies", "namespaces", "queues", "resourcequotas", "limitranges"),
        *("replicasets", "jobs", "mutatingwebhookconfigurations"),
        "validatingwebhookconfigurations",
    }


@pytest.mark.parametrize(
    ("values", "resource"),
    [
        pytest.param({"api": {"enabled": False}}, "subjectaccessreviews", id="rest-api"),
        pytest.param({"server": {"events": False}}, "events", id="events"),
        pytest.param({"server": {"reports": {"enabled": False}}}, "policyreports", id="reports"),
        pytest.param({"server": {"writeStatus": False}}, "gvkpolicies/status", id="status"),
        pytest.param({"reconciler": {"enabled": False}}, "pods/eviction", id="reconciler"),
    ],
)
def test_what_is_switched_off_has_no_rights(values: Values, resource: str) -> None:
    def resources(rules: list[dict[str, Any]]) -> set[str]:
        return {each for rule in rules for each in rule["resources"]}

    assert resource in resources(rules_of())
    assert resource not in resources(rules_of(values))


def test_rules_of_the_user_are_added() -> None:
    extra = {"apiGroups": ["acme.io"], "resources": ["acmejobs"], "verbs": ["list", "watch"]}

    assert extra in the_one(render({"rbac": {"extraRules": [extra]}}), "ClusterRole")["rules"]


def test_the_test_may_only_submit_what_must_be_refused() -> None:
    (role,) = [
        each
        for each in of_kind(render_example(None), "Role")
        if each["metadata"]["name"].endswith("-test")
    ]

    assert role["metadata"]["namespace"] == "default"
    assert role["rules"] == [
        {"apiGroups": ["workload.gatewright.io"], "resources": ["trainings"], "verbs": ["create"]}
    ]
