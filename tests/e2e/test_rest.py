"""The REST API on a real cluster: tokens and rights are the cluster's, and so are the documents."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from tests.api.acme import FORMATTER, JOB_GROUP, MAPPING, POLICY, VOLUME_GROUP, make_job
from tests.api.rest import ACME, FIELD_GROUPS, FORMATTERS, MAPPINGS, POLICIES, TRAININGS
from tests.builders import make_pod, make_rule
from tests.controlplane.documents import Rule, default_rules
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.test_serve import serving, write
from webhook.model.manifests import dump_yaml

NAMESPACE = "team-a"
# Those of the platform team have an account each.
ACCOUNTS = "platform"
KINDS = "formatters,fieldgroups,specmappings,gvkpolicies,workloadpolicies"
PATIENCE_S = 30.0
# Of the only policy there is: whether it is in force.
READY = 'jsonpath={.items[0].status.conditions[?(@.type=="Ready")].status}'

GROUP = "policy.gatewright.io"
RULES = (
    *default_rules(),
    Rule(GROUP, ("v1alpha1",), ("*",), ("CREATE", "UPDATE", "DELETE")),
    Rule("acme.io", ("v1",), ("acmejobs",), ("CREATE", "UPDATE")),
)
ACME_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "acmejobs.acme.io"},
    "spec": {
        "group": "acme.io",
        "scope": "Namespaced",
        "names": {"kind": "AcmeJob", "plural": "acmejobs", "singular": "acmejob"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def make_role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def make_binding(role: str, account: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{account}-{role}"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role,
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": ACCOUNTS}],
    }


WRITER = make_role(
    "gatewright-writer",
    {
        "apiGroups": [GROUP],
        "resources": KINDS.split(","),
        "verbs": ["get", "list", "create", "update", "patch", "delete"],
    },
)
VIEWER = make_role(
    "gatewright-viewer",
    {"apiGroups": [GROUP], "resources": KINDS.split(","), "verbs": ["get", "list"]},
    {"nonResourceURLs": ["/api/v1/decisions", "/api/openapi.json"], "verbs": ["get"]},
    {"nonResourceURLs": ["/api/v1/review", "/api/v1/policies/effective"], "verbs": ["post"]},
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane().start(tmp_path_factory.mktemp("cluster")) as cluster:
        crds = subprocess.run(
            [sys.executable, "-m", "webhook", "crds"], check=True, capture_output=True, text=True
        ).stdout
        cluster.kubectl_checked("apply", "--server-side", "-f", "-", stdin=crds)
        cluster.kubectl_checked("apply", "-f", "-", stdin=dump_yaml([ACME_CRD]))
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        for namespace in (NAMESPACE, ACCOUNTS):
            cluster.kubectl_checked("create", "namespace", namespace)
        cluster.kubectl_checked("apply", "-f", "-", stdin=dump_yaml([WRITER, VIEWER]))
        yield cluster


@pytest.fixture(scope="module")
def gate(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterGate]:
    gate = ClusterGate(tmp_path_factory.mktemp("gate"), cluster.kubeconfig())
    try:
        gate.start()
        cluster.register_webhooks(
            f"{gate.url}/mutate", f"{gate.url}/validate", gate.ca_pem, rules=RULES
        )
        yield gate
    finally:
        gate.stop()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Any


class Client:
    """Calls the API with one token; None: with none."""

    def __init__(self, gate: ClusterGate, token: str | None) -> None:
        self._url = gate.url
        self._tls = ssl.create_default_context(cadata=gate.ca_pem)
        self._token = token

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        if self._token is not None:
            named["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            named["Content-Type"] = "application/json"
        request = urllib.request.Request(self._url + path, data, named, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30) as answer:
                text = answer.read()
                return Answer(
                    answer.status, dict(answer.headers), json.loads(text) if text else None
                )
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), json.loads(error.read()))

    def must(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.call(method, path, body)
        assert answer.status in (200, 201, 204), answer
        return answer.body


def account(cluster: ControlPlane, gate: ClusterGate, name: str, *roles: str) -> Client:
    """A client with the token of a new ServiceAccount that has *roles*."""
    cluster.kubectl_checked("create", "serviceaccount", name, "-n", ACCOUNTS)
    bindings = [make_binding(role, name) for role in roles]
    if bindings:
        cluster.kubectl_checked("apply", "-f", "-", stdin=dump_yaml(bindings))
    token = cluster.kubectl_checked("create", "token", name, "-n", ACCOUNTS).strip()
    return Client(gate, token)


@pytest.fixture(scope="module")
def writer(cluster: ControlPlane, gate: ClusterGate) -> Client:
    return account(cluster, gate, "writer", "gatewright-writer", "gatewright-viewer")


@pytest.fixture(autouse=True)
def clean(cluster: ControlPlane, gate: ClusterGate) -> Iterator[None]:
    """Each test begins without documents, and with a gate that knows it."""
    yield
    for kind in ("gvkpolicies", "workloadpolicies", "specmappings", "fieldgroups", "formatters"):
        cluster.kubectl_checked("delete", kind, "--all", timeout_s=60)
        resource = f"{kind}.{GROUP}"
        wait_until(
            lambda resource=resource: (  # type: ignore[misc]  # mypy#15459
                gate.metric("gatewright_watch_objects", resource=resource) == 0
            ),
            PATIENCE_S,
            "the documents to be gone",
        )


def submit(cluster: ControlPlane, **spec: Any) -> subprocess.CompletedProcess[str]:
    text = dump_yaml([make_job(**spec)])
    return cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=text)


def register_by_rest(client: Client) -> dict[str, Any]:
    client.must("POST", FORMATTERS, FORMATTER)
    for group in (JOB_GROUP, VOLUME_GROUP):
        client.must("POST", FIELD_GROUPS, group)
    client.must("POST", MAPPINGS, MAPPING)
    policy: dict[str, Any] = client.must("POST", POLICIES, POLICY)
    return policy


async def test_without_a_cluster_a_token_file_turns_the_api_on(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('hunter2,adam,1,"gatewright:admins"\n')
    write(tmp_path)
    policy = {
        "workloadType": {"version": "v1", "kind": "Pod"},
        "scope": "tenant",
        "rules": [make_rule("hostNetwork", "podSpec", {"options": [False]})],
    }
    async with serving(tmp_path, f"--api-tokens={tokens}") as server:
        url = f"https://localhost:{server.port}{POLICIES}"
        async with ClientSession(headers={"Authorization": "Bearer hunter2"}) as session:
            before = await server.ask(object=make_pod(hostNetwork=True))
            async with session.post(url, json=policy, ssl=server.trust) as answer:
                created = answer.status
            after = await server.ask(object=make_pod(hostNetwork=True))
        assert f"REST API: https://127.0.0.1:{server.port}/api/openapi.json" in server.said

    assert created == 201
    assert before["allowed"]
    # At once, and not when the directory is looked at the next time.
    assert not after["allowed"]
    assert len(list((tmp_path / "policies").glob("api-gvkpolicy-*.yaml"))) == 1


def test_rest_and_kubectl_lead_to_the_same_refusal_and_so_does_review_offline(
    cluster: ControlPlane, gate: ClusterGate, writer: Client, tmp_path: Path
) -> None:
    policy = register_by_rest(writer)
    stored = yaml.safe_load(cluster.kubectl_checked("get", KINDS, "-o", "yaml"))
    by_rest = submit(cluster, parallelism=9)
    completed = submit(cluster)
    trial = writer.must("POST", f"/api/v1/review?namespace={NAMESPACE}", make_job(parallelism=9))
    decisions = writer.must("GET", "/api/v1/decisions?outcome=denied&kind=AcmeJob")

    # What is in use stays; what nobody uses any more goes.
    assert writer.call("DELETE", f"{FIELD_GROUPS}/acmeJobSpec").status == 409
    assert writer.call("DELETE", MAPPINGS, {"workloadType": ACME}).status == 409
    writer.must("DELETE", f"{POLICIES}/{policy['id']}")
    writer.must("DELETE", MAPPINGS, {"workloadType": ACME})
    for path in (f"{FIELD_GROUPS}/acmeJobSpec", f"{FIELD_GROUPS}/acmeVolumes"):
        writer.must("DELETE", path)
    writer.must("DELETE", f"{FORMATTERS}/podSpecVolumes")
    free = submit(cluster, parallelism=9)

    # The same documents, by kubectl.
    documents = [
        {**item, "metadata": {"name": item["metadata"]["name"]}} for item in stored["items"]
    ]
    for item in documents:
        item.pop("status", None)
    cluster.kubectl_checked("apply", "-f", "-", stdin=dump_yaml(documents))
    wait_until(
        lambda: gate.metric("gatewright_documents", kind="GVKPolicy") == 1,
        PATIENCE_S,
        "the policy to be in force",
    )
    by_kubectl = submit(cluster, parallelism=9)

    # And offline, from what kubectl shows.
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "all.yaml").write_text(dump_yaml([stored]))
    (tmp_path / "job.yaml").write_text(dump_yaml([make_job(parallelism=9)]))
    offline = subprocess.run(
        [
            *(sys.executable, "-m", "webhook", "review", "--policies", str(tmp_path / "policies")),
            *("-o", "json", str(tmp_path / "job.yaml")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    (reviewed,) = json.loads(offline.stdout)

    assert len(stored["items"]) == 5
    assert by_rest.returncode != 0
    assert "parallelism [acmeJobSpec]: above the maximum, got 9; ≤ 8" in by_rest.stderr
    assert by_kubectl.stderr == by_rest.stderr
    assert free.returncode == 0, free.stderr
    spec = json.loads(completed.stdout)["spec"]
    assert spec["parallelism"] == 1
    assert spec["template"]["spec"]["volumes"] == [
        {"name": "ca", "configMap": {"name": "ca-bundle"}}
    ]
    assert trial[0]["violations"] == reviewed["violations"]
    assert [one["field"] for one in reviewed["violations"]] == ["parallelism"]
    assert decisions["decisions"][0]["name"] == "sort"


def test_tokens_are_those_of_the_cluster(cluster: ControlPlane, gate: ClusterGate) -> None:
    known = account(cluster, gate, "passing", "gatewright-viewer")
    for client, challenge in (
        (Client(gate, None), 'Bearer realm="gatewright"'),
        (Client(gate, "wrong"), 'Bearer realm="gatewright", error="invalid_token"'),
    ):
        answer = client.call("GET", FORMATTERS)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, challenge)
        assert answer.body.keys() == {"code", "message", "details"}
    assert known.call("GET", FORMATTERS).status == 200

    # Its token ends with the account.
    cluster.kubectl_checked("delete", "serviceaccount", "passing", "-n", ACCOUNTS)
    wait_until(
        lambda: known.call("GET", FORMATTERS).status == 401, PATIENCE_S, "the token to be refused"
    )


def test_rights_are_those_of_rbac(cluster: ControlPlane, gate: ClusterGate) -> None:
    nobody = account(cluster, gate, "nobody")
    viewer = account(cluster, gate, "viewer", "gatewright-viewer")
    name = f"system:serviceaccount:{ACCOUNTS}"
    body = {"meta": {"scope": "tenant"}, "policy": {"defaults": {"image": "a"}}}

    refused = nobody.call("GET", FORMATTERS)
    assert (refused.status, refused.body["details"]) == (
        403,
        f"{name}:nobody may not list formatters.{GROUP}",
    )
    assert nobody.call("GET", "/api/v1/decisions").body["details"] == (
        f"{name}:nobody may not get the path /api/v1/decisions"
    )
    for path in (FORMATTERS, FIELD_GROUPS, MAPPINGS, POLICIES, "/api/v1/decisions"):
        assert viewer.call("GET", path).status == 200
    for path in (TRAININGS, f"{TRAININGS}?validateOnly=true"):
        denied = viewer.call("PUT", path, body)
        assert (denied.status, denied.body["details"]) == (
            403,
            f"{name}:viewer may not create workloadpolicies.{GROUP}",
        )

    # Given, a right counts at once: no refusal is remembered. Taken, it ends at once for writes.
    binding = dump_yaml([make_binding("gatewright-writer", "viewer")])
    cluster.kubectl_checked("apply", "-f", "-", stdin=binding)
    wait_until(
        lambda: viewer.call("PUT", TRAININGS, body).status in (200, 201),
        PATIENCE_S,
        "the right to be known",
    )
    cluster.kubectl_checked("delete", "-f", "-", stdin=binding)
    wait_until(
        lambda: viewer.call("PUT", TRAININGS, body).status == 403,
        PATIENCE_S,
        "the right to be gone",
    )


def test_a_right_on_one_document_is_a_right_on_that_one_alone(
    cluster: ControlPlane, gate: ClusterGate, writer: Client
) -> None:
    for name in ("mine", "others"):
        writer.must("POST", FIELD_GROUPS, {"name": name, "fields": {"a": {"type": "string"}}})
    role = make_role(
        "one-group",
        {
            "apiGroups": [GROUP],
            "resources": ["fieldgroups"],
            "resourceNames": ["mine"],
            "verbs": ["get", "patch"],
        },
    )
    cluster.kubectl_checked("apply", "-f", "-", stdin=dump_yaml([role]))
    owner = account(cluster, gate, "owner", "one-group")
    wait_until(
        lambda: owner.call("GET", f"{FIELD_GROUPS}/mine").status == 200,
        PATIENCE_S,
        "the right to be known",
    )

    statuses = [
        owner.call("PATCH", f"{FIELD_GROUPS}/mine", {"description": "x"}).status,
        owner.call("DELETE", f"{FIELD_GROUPS}/mine").status,
        owner.call("PATCH", f"{FIELD_GROUPS}/others", {"description": "x"}).status,
        owner.call("GET", FIELD_GROUPS).status,
    ]

    assert statuses == [200, 403, 403, 403]


def test_neither_rest_nor_kubectl_overwrites_what_the_other_has_changed(
    cluster: ControlPlane, writer: Client, tmp_path: Path
) -> None:
    path = f"{FIELD_GROUPS}/acmeJobSpec"
    created = writer.must("POST", FIELD_GROUPS, JOB_GROUP)
    read_by_kubectl = tmp_path / "group.yaml"
    read_by_kubectl.write_text(
        cluster.kubectl_checked("get", "fieldgroup", "acmejobspec", "-o", "yaml")
    )
    patch = json.dumps({"spec": {"description": "by kubectl"}})
    cluster.kubectl_checked("patch", "fieldgroup", "acmejobspec", "--type=merge", "-p", patch)

    late = writer.call(
        "PATCH", path, {"description": "by REST"}, If_Match=f'"{created["resourceVersion"]}"'
    )
    # Without a version, what others changed is kept.
    merged = writer.call("PATCH", path, {"fields": {"more": {"type": "string"}}})
    replaced = cluster.kubectl("replace", "-f", str(read_by_kubectl))

    assert (late.status, "meanwhile" in late.body["details"]) == (409, True)
    assert merged.status == 200
    assert merged.body["description"] == "by kubectl"
    assert {"parallelism", "more"} <= merged.body["fields"].keys()
    assert replaced.returncode != 0
    assert "Conflict" in replaced.stderr
    # A status that is written meanwhile changes nothing that anybody has read.
    again = writer.call(
        "PATCH", path, {"description": "again", "resourceVersion": merged.body["resourceVersion"]}
    )
    assert again.status == 200, again


def test_ids_are_the_uids_of_the_documents(cluster: ControlPlane, writer: Client) -> None:
    policy = register_by_rest(writer)
    shown = cluster.kubectl_checked("get", "gvkpolicies", "-o", "jsonpath={.items[*].metadata.uid}")

    assert policy["id"] == shown


def test_answers_say_when_a_document_was_made_and_last_changed(
    cluster: ControlPlane, writer: Client
) -> None:
    path = f"{POLICIES}/{register_by_rest(writer)['id']}"
    wait_until(
        lambda: cluster.kubectl_checked("get", "gvkpolicies", "-o", READY), 30.0, "its status"
    )
    made = writer.must("GET", path)
    # Times are whole seconds.
    time.sleep(1.1)
    status = json.dumps({"status": {"observedGeneration": 77}})
    name = made["name"]
    cluster.kubectl_checked(
        *("patch", "gvkpolicy", name, "--subresource=status", "--type=merge", "-p", status)
    )
    same = writer.must("GET", path)
    changed = writer.must("PATCH", path, {"description": "new"})
    filters = [
        f"createdAt<={made['createdAt']}",
        f"createdAt>={made['createdAt']}",
        "createdAt<=2020",
    ]
    found = [
        [one["id"] for one in writer.must("GET", f"{POLICIES}?filterBy={condition}")["policies"]]
        for condition in filters
    ]

    assert made["createdAt"].endswith("Z")
    assert made["createdAt"] <= made["updatedAt"] == same["updatedAt"] < changed["updatedAt"]
    assert changed["createdAt"] == made["createdAt"]
    assert found == [[made["id"]], [made["id"]], []]


def test_a_kind_in_another_case_is_refused_naming_the_one_that_is_served(writer: Client) -> None:
    writer.must("POST", FIELD_GROUPS, JOB_GROUP)
    mapping = {
        "workloadType": {**ACME, "kind": "acmejob"},
        "specSelectors": {"job": {"query": ".spec", "fieldGroups": ["acmeJobSpec"]}},
    }
    answer = writer.call("POST", MAPPINGS, mapping)

    assert answer.status == 400
    assert answer.body["details"] == (
        "workloadType.kind: AcmeJob is served, not acmejob: kinds are told apart by case"
    )


def test_a_mapping_for_a_version_that_is_not_served_is_refused(writer: Client) -> None:
    writer.must("POST", FIELD_GROUPS, JOB_GROUP)
    kind = {**ACME, "version": "v2"}
    mapping = {
        "workloadType": kind,
        "specSelectors": {"job": {"query": ".spec", "fieldGroups": ["acmeJobSpec"]}},
    }
    wrong = writer.call("POST", MAPPINGS, mapping)
    # Its CRD may come later.
    later = writer.call("POST", MAPPINGS, {**mapping, "workloadType": {**kind, "kind": "Other"}})

    assert wrong.status == 400
    assert wrong.body["details"] == ("workloadType.version: AcmeJob is not served as v2, but as v1")
    assert later.status == 201, later


def test_what_kubectl_admits_with_a_warning_rest_refuses(
    cluster: ControlPlane, writer: Client
) -> None:
    mapping = {
        "workloadType": ACME,
        "specSelectors": {"job": {"query": ".spec", "fieldGroups": ["nothing"]}},
    }
    document = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "SpecMapping",
        "metadata": {"name": "early"},
        "spec": mapping,
    }
    by_rest = writer.call("POST", MAPPINGS, mapping)
    by_kubectl = cluster.kubectl("apply", "-f", "-", stdin=dump_yaml([document]))

    assert by_rest.status == 400
    assert "no field group 'nothing'" in by_rest.body["details"]
    assert by_kubectl.returncode == 0, by_kubectl.stderr
    assert "no field group 'nothing'" in by_kubectl.stderr


def test_a_mapping_of_a_kind_that_is_not_served_waits_for_it_and_says_so(
    cluster: ControlPlane, writer: Client
) -> None:
    writer.must("POST", FIELD_GROUPS, JOB_GROUP)

    def make(group: str, version: str) -> dict[str, Any]:
        kind = {"group": group, "version": version, "kind": "AcmeJob"}
        selectors = {"job": {"query": ".spec", "fieldGroups": ["acmeJobSpec"]}}
        return {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "SpecMapping",
            "metadata": {"name": group},
            "spec": {"workloadType": kind, "specSelectors": selectors},
        }

    def ready(name: str) -> list[str]:
        path = '{.status.conditions[?(@.type=="Ready")]}'
        shown = cluster.kubectl_checked("get", "specmapping", name, "-o", f"jsonpath={path}")
        condition = json.loads(shown or "{}")
        return [condition.get("status", ""), condition.get("reason", "")]

    other = cluster.kubectl("apply", "-f", "-", stdin=dump_yaml([make("acme.io", "v2")]))
    early = cluster.kubectl("apply", "-f", "-", stdin=dump_yaml([make("late.io", "v1")]))

    assert (other.returncode, early.returncode) == (0, 0)
    later = "; nothing is judged by this mapping until it is"
    assert f"acme.io/v2 AcmeJob is not served here (served: v1){later}" in other.stderr
    assert f"late.io/v1 AcmeJob is not served here (nothing of late.io is){later}" in early.stderr
    for name in ("acme.io", "late.io"):
        wait_until(
            lambda name=name: ready(name) == ["False", "KindNotServed"],  # type: ignore[misc]  # mypy#15459
            PATIENCE_S,
            "the status to say so",
        )

    crd = json.loads(json.dumps(ACME_CRD).replace("acme.io", "late.io"))
    cluster.kubectl_checked("apply", "-f", "-", stdin=dump_yaml([crd]))
    wait_until(lambda: ready("late.io") == ["True", "Compiled"], PATIENCE_S, "it to be served")
    again = cluster.kubectl("apply", "-f", "-", stdin=dump_yaml([make("late.io", "v1")]))
    cluster.kubectl_checked("delete", "crd", crd["metadata"]["name"])
    wait_until(lambda: ready("late.io") == ["False", "KindNotServed"], PATIENCE_S, "it to be gone")

    assert again.stderr == ""
    assert ready("acme.io") == ["False", "KindNotServed"]


def test_a_trial_answers_as_the_write_would_and_writes_nothing(
    cluster: ControlPlane, writer: Client
) -> None:
    trial = f"{TRAININGS}?validateOnly=true"
    body: dict[str, Any] = {"meta": {"scope": "tenant"}, "policy": {"defaults": {"image": "a"}}}
    absent = writer.call("PUT", trial, body)
    asks_for_one = writer.call("PUT", trial, body, If_Match="*")
    before = cluster.kubectl_checked("get", "workloadpolicies", "-o", "name")
    made = writer.must("PUT", TRAININGS, body)
    changed = {**body, "policy": {"defaults": {"image": "b"}}}
    stale = [writer.call("PUT", path, changed, If_Match='"1"') for path in (trial, TRAININGS)]
    there = writer.call("PUT", trial, changed, If_Match=f'"{made["meta"]["resourceVersion"]}"')
    after = writer.must("GET", f"{TRAININGS}?scope=tenant")

    assert (absent.status, asks_for_one.status, before) == (200, 412, "")
    assert [answer.status for answer in stale] == [409, 409]
    assert stale[0].body == stale[1].body
    assert (there.status, there.body["policy"]) == (200, changed["policy"])
    assert after["policy"] == body["policy"]
