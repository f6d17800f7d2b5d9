"""
The documents that the control plane is given: kubeconfig, users, audit policy, rights,
and the registration of webhooks. All pure: values in, plain data out.
"""

import base64
import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Document = dict[str, Any]
AuditLevel = Literal["Metadata", "Request", "RequestResponse"]
FailurePolicy = Literal["Fail", "Ignore"]

# Groups of workload kinds that the built-in role `edit` does not know.
WORKLOAD_GROUPS = (
    "apps.nvidia.com",
    "batch.volcano.sh",
    "jobset.x-k8s.io",
    "kubeflow.org",
    "leaderworkerset.x-k8s.io",
    "ray.io",
    "serving.knative.dev",
    "slinky.slurm.net",
    "workload.gatewright.io",
)

REGISTRATION_LABEL = "gatewright.io/registration"
REGISTRATION_WEBHOOK = "registration.gatewright.io"
# Nothing listens there: the port is privileged, and its service (tcpmux) is extinct.
UNREACHABLE_URL = "https://127.0.0.1:1/"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody whom the API server knows by a token."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests a webhook is asked about; *group* is `""` for the core group."""

    group: str
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")


@dataclass(frozen=True, slots=True)
class Registration:
    """
    Both webhooks of one server, as the API server is to call them.

    *name* is that of both configurations. A mutating one that sorts before others (such
    as KAI's) is called before them.
    """

    mutate_url: str
    validate_url: str
    ca_pem: str
    rules: tuple[Rule, ...]
    name: str = "gatewright-admission"
    mutating_failure_policy: FailurePolicy = "Ignore"
    validating_failure_policy: FailurePolicy = "Fail"
    timeout_s: int = 5


def default_rules(*, subresources: bool = False) -> tuple[Rule, ...]:
    """
    Rules for the workloads that tests use most.

    With *subresources* also `scale`, and `resize` and `ephemeralcontainers` of Pods.
    """
    rules = (
        Rule("", ("v1",), ("pods",)),
        Rule("apps", ("v1",), ("deployments",)),
        Rule("batch", ("v1",), ("jobs",)),
        Rule("kubeflow.org", ("v1",), ("pytorchjobs",)),
        Rule("workload.gatewright.io", ("v1alpha1",), ("*",)),
    )
    parts = (
        Rule("", ("v1",), ("pods/resize", "pods/ephemeralcontainers")),
        Rule("apps", ("v1",), ("deployments/scale",)),
        Rule("kubeflow.org", ("v1",), ("pytorchjobs/scale",)),
        Rule("workload.gatewright.io", ("v1alpha1",), ("*/scale",)),
    )
    return rules + parts if subresources else rules


def build_kubeconfig(server_url: str, ca_pem: str, user: User) -> Document:
    """Build a kubeconfig that needs no other file."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "gatewright",
                "cluster": {
                    "server": server_url,
                    "certificate-authority-data": _base64(ca_pem),
                },
            }
        ],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [
            {
                "name": user.name,
                "context": {"cluster": "gatewright", "user": user.name, "namespace": "default"},
            }
        ],
        "current-context": user.name,
    }


def build_token_file(users: Sequence[User]) -> str:
    """Build the CSV file of `--token-auth-file`: token, user, uid, groups."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for user in users:
        writer.writerow([user.token, user.name, user.name, ",".join(user.groups)])
    return text.getvalue()


def build_audit_policy(level: AuditLevel, whole: Sequence[str] = ()) -> Document:
    """
    Build an audit policy that records every change at *level*, and all calls of the users
    in *whole*.

    Of others, reads, leases and events are left out: the controllers make hundreds of them,
    and no admission webhook is asked about a read.
    """
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            # A rule without users would be about everybody.
            *([{"level": level, "users": list(whole)}] if whole else []),
            {"level": "None", "verbs": ["get", "list", "watch"]},
            {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
            {"level": "None", "resources": [{"group": "", "resources": ["events"]}]},
            {"level": "None", "resources": [{"group": "events.k8s.io"}]},
            {"level": level},
        ],
    }


def build_egress(socket: str) -> Document:
    """
    Build what has the API server reach Services, those of webhooks among them, through a proxy
    that listens on the Unix socket *socket*. URLs it calls by itself as before.
    """
    transport = {"uds": {"udsName": socket}}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {
                "name": "cluster",
                "connection": {"proxyProtocol": "HTTPConnect", "transport": transport},
            }
        ],
    }


def build_editor_rights(user_name: str) -> list[Document]:
    """
    Build what lets *user_name* edit workloads in all namespaces and nothing else.

    The binding to `edit` covers the built-in kinds; the role adds those of CRDs.
    """
    role_name = f"workload-kinds-{user_name}"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": role_name},
        "rules": [{"apiGroups": list(WORKLOAD_GROUPS), "resources": ["*"], "verbs": ["*"]}],
    }
    return [role, _bind(user_name, "edit"), _bind(user_name, role_name)]


def build_webhook_configurations(
    registration: Registration, nonces: Mapping[str, str]
) -> list[Document]:
    """
    Build the mutating and the validating configuration.

    The API server takes a changed configuration into use a moment after it was written.
    So each has one entry more, which refuses everything with the label
    `REGISTRATION_LABEL` and a value that nobody else uses (*nonces*, by kind): when it
    refuses, the whole configuration is in use.
    """
    common = {
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-system"],
                }
            ]
        },
        "rules": [_rule(rule) for rule in registration.rules],
        "sideEffects": "None",
        "timeoutSeconds": registration.timeout_s,
    }
    ca_bundle = _base64(registration.ca_pem)
    mutating = {
        **common,
        "name": "workloads.gatewright.io",
        "clientConfig": {"url": registration.mutate_url, "caBundle": ca_bundle},
        "failurePolicy": registration.mutating_failure_policy,
        "reinvocationPolicy": "IfNeeded",
    }
    validating = {
        **common,
        "name": "workloads.gatewright.io",
        "clientConfig": {"url": registration.validate_url, "caBundle": ca_bundle},
        "failurePolicy": registration.validating_failure_policy,
    }
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": registration.name},
            "webhooks": [webhook, _registration_webhook(nonces[kind])],
        }
        for kind, webhook in (
            ("MutatingWebhookConfiguration", mutating),
            ("ValidatingWebhookConfiguration", validating),
        )
    ]


def build_registration_probe(nonce: str) -> Document:
    """Build the object that is refused once the configuration with *nonce* is in use."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": nonce, "labels": {REGISTRATION_LABEL: nonce}},
    }


def parse_audit_log(text: str) -> list[Document]:
    """Parse an audit log; a last line that is still being written is left out."""
    lines = text.splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _registration_webhook(nonce: str) -> Document:
    return {
        "name": REGISTRATION_WEBHOOK,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": UNREACHABLE_URL},
        "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": {REGISTRATION_LABEL: nonce}},
        "rules": [_rule(Rule("", ("v1",), ("configmaps",), ("CREATE",)))],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }


def _rule(rule: Rule) -> Document:
    return {
        "apiGroups": [rule.group],
        "apiVersions": list(rule.versions),
        "resources": list(rule.resources),
        "operations": list(rule.operations),
        "scope": "*",
    }


def _bind(user_name: str, role_name: str) -> Document:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{user_name}-{role_name}"},
        "subjects": [{"kind": "User", "name": user_name, "apiGroup": group}],
        "roleRef": {"kind": "ClusterRole", "name": role_name, "apiGroup": group},
    }


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
