"""What the control plane is given."""

import base64
import csv
from typing import Any

import pytest
import yaml

from tests.controlplane.documents import (
    REGISTRATION_LABEL,
    Registration,
    Rule,
    User,
    build_audit_policy,
    build_editor_rights,
    build_kubeconfig,
    build_registration_probe,
    build_token_file,
    build_webhook_configurations,
    default_rules,
    parse_audit_log,
)

ALICE = User("alice", "s3cret")
NONCES = {"MutatingWebhookConfiguration": "m-1", "ValidatingWebhookConfiguration": "v-1"}
REGISTRATION = Registration(
    "https://127.0.0.1:8443/mutate",
    "https://127.0.0.1:8443/validate",
    "-----BEGIN CERTIFICATE-----\n",
    default_rules(),
)


def build_webhooks(registration: Registration = REGISTRATION) -> tuple[Any, Any]:
    """The mutating and the validating webhook proper."""
    mutating, validating = build_webhook_configurations(registration, NONCES)
    return mutating["webhooks"][0], validating["webhooks"][0]


def test_a_kubeconfig_needs_no_other_file() -> None:
    config = build_kubeconfig("https://127.0.0.1:6443", "PEM", ALICE)

    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert config["users"][0]["user"] == {"token": "s3cret"}


def test_a_kubeconfig_is_its_users() -> None:
    config = build_kubeconfig("https://127.0.0.1:6443", "PEM", ALICE)

    context = next(c for c in config["contexts"] if c["name"] == config["current-context"])
    assert context["context"] == {"cluster": "gatewright", "user": "alice", "namespace": "default"}


def test_a_kubeconfig_survives_yaml() -> None:
    config = build_kubeconfig("https://127.0.0.1:6443", "PEM", ALICE)

    assert yaml.safe_load(yaml.safe_dump(config)) == config


def test_several_groups_are_one_column_of_the_token_file() -> None:
    users = [User("root", "t1", ("system:masters", "ops")), User("system:someone", "t2")]

    rows = list(csv.reader(build_token_file(users).splitlines()))

    assert rows == [
        ["t1", "root", "root", "system:masters,ops"],
        ["t2", "system:someone", "system:someone", ""],
    ]


def test_an_editor_gets_the_built_in_role_and_the_kinds_of_crds() -> None:
    role, *bindings = build_editor_rights("alice")

    assert "kubeflow.org" in role["rules"][0]["apiGroups"]
    assert [binding["roleRef"]["name"] for binding in bindings] == [
        "edit",
        role["metadata"]["name"],
    ]
    assert {subject["name"] for binding in bindings for subject in binding["subjects"]} == {"alice"}


def test_an_editor_may_not_write_policies() -> None:
    """They concern the whole cluster."""
    role = build_editor_rights("alice")[0]

    assert "policy.gatewright.io" not in role["rules"][0]["apiGroups"]
    assert "*" not in role["rules"][0]["apiGroups"]


def test_webhooks_are_called_at_their_own_url_with_the_ca() -> None:
    mutating, validating = build_webhooks()

    assert mutating["clientConfig"]["url"] == "https://127.0.0.1:8443/mutate"
    assert validating["clientConfig"]["url"] == "https://127.0.0.1:8443/validate"
    for webhook in (mutating, validating):
        ca = base64.b64decode(webhook["clientConfig"]["caBundle"])
        assert ca == b"-----BEGIN CERTIFICATE-----\n"


def test_webhooks_have_no_side_effects_and_little_time() -> None:
    for webhook in build_webhooks():
        assert webhook["sideEffects"] == "None"
        assert webhook["timeoutSeconds"] == 5
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["admissionReviewVersions"] == ["v1"]


def test_a_later_mutation_brings_the_mutating_webhook_back() -> None:
    mutating, validating = build_webhooks()

    assert mutating["reinvocationPolicy"] == "IfNeeded"
    assert "reinvocationPolicy" not in validating  # Kubernetes knows it for mutation only


def test_the_namespace_of_the_control_plane_is_left_out() -> None:
    for webhook in build_webhooks():
        assert webhook["namespaceSelector"]["matchExpressions"] == [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
        ]


def test_an_unreachable_server_stops_writing_unless_told_otherwise() -> None:
    mutating, validating = build_webhooks()

    assert (mutating["failurePolicy"], validating["failurePolicy"]) == ("Ignore", "Fail")


def test_failure_policies_can_be_chosen() -> None:
    chosen = Registration(
        "https://m",
        "https://v",
        "PEM",
        (),
        mutating_failure_policy="Fail",
        validating_failure_policy="Ignore",
    )

    mutating, validating = build_webhooks(chosen)

    assert (mutating["failurePolicy"], validating["failurePolicy"]) == ("Fail", "Ignore")


def test_rules_are_written_as_kubernetes_reads_them() -> None:
    rules = (Rule("ray.io", ("v1", "v1alpha1"), ("rayjobs",), ("CREATE",)),)

    mutating, _ = build_webhooks(Registration("https://m", "https://v", "PEM", rules))

    assert mutating["rules"] == [
        {
            "apiGroups": ["ray.io"],
            "apiVersions": ["v1", "v1alpha1"],
            "resources": ["rayjobs"],
            "operations": ["CREATE"],
            "scope": "*",
        }
    ]


def test_subresources_are_asked_for() -> None:
    plain = {resource for rule in default_rules() for resource in rule.resources}
    with_parts = {
        resource for rule in default_rules(subresources=True) for resource in rule.resources
    }

    assert plain == {"pods", "deployments", "jobs", "pytorchjobs", "*"}
    assert with_parts - plain == {
        "pods/resize",
        "pods/ephemeralcontainers",
        "deployments/scale",
        "pytorchjobs/scale",
        "*/scale",
    }


def test_each_configuration_refuses_its_own_probe_only() -> None:
    """Otherwise the one that is in use first would vouch for the other."""
    selectors = [
        configuration["webhooks"][1]["objectSelector"]["matchLabels"]
        for configuration in build_webhook_configurations(REGISTRATION, NONCES)
    ]

    assert selectors == [{REGISTRATION_LABEL: "m-1"}, {REGISTRATION_LABEL: "v-1"}]
    assert build_registration_probe("m-1")["metadata"]["labels"] == selectors[0]


def test_the_audit_log_leaves_out_reads_and_records_the_rest() -> None:
    policy = build_audit_policy("RequestResponse")

    assert policy["rules"][0] == {"level": "None", "verbs": ["get", "list", "watch"]}
    assert policy["rules"][-1] == {"level": "RequestResponse"}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", [], id="empty"),
        pytest.param('{"a":1}\n{"a":2}\n', [{"a": 1}, {"a": 2}], id="whole-lines"),
        pytest.param('{"a":1}\n{"a":', [{"a": 1}], id="a-line-being-written"),
    ],
)
def test_an_audit_log_is_read_up_to_its_last_whole_line(
    text: str, want: list[dict[str, int]]
) -> None:
    assert parse_audit_log(text) == want
