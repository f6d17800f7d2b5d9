"""The two webhook configurations of the chart, filled in and kept right by the leader alone."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    JOB,
    POD,
    POLICY_API,
    JsonObject,
    make_gvk_policy,
    make_pod,
    make_rule,
)
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.manual import bind, roles_of_the_manual
from tests.e2e.test_rest import ACME_CRD
from webhook.model.kinds import NATIVE_TYPE_OF
from webhook.model.manifests import dump_yaml

NAME = "gatewright-admission"
OWN = "gatewright"
TEAM = "team-a"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
WORKLOADS, PODS = "workloads.gatewright.io", "pods.gatewright.io"
PROBE, DOCUMENTS = "probe.gatewright.io", "documents.gatewright.io"
FLAGS = (
    f"--own-namespace={OWN}",
    f"--mutating-configuration={NAME}",
    f"--validating-configuration={NAME}",
)
# Repairs are a matter of seconds, also on a machine that does other things too. What comes only
# because something runs out, or is looked at again, takes 15 s.
SOON_S = 10.0
PATIENCE_S = 30.0
# Longer than anything that goes on by itself but the looks at what is served.
QUIET_S = 3.0

ACME = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}
WRITTEN_BY_THE_CONTROL_PLANE = [
    {"group": group, "version": "v1", "kind": kind}
    for group, kind in (
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("", "ServiceAccount"),
        ("", "Service"),
    )
]
# The server, with the rights of the manual, and one that may only read.
ROBOT, READER = "gate", "reader"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(users={ROBOT: (), READER: ()}).start(
        tmp_path_factory.mktemp("cluster")
    ) as cluster:
        crds = subprocess.run(
            [sys.executable, "-m", "webhook", "crds"], check=True, capture_output=True, text=True
        ).stdout
        cluster.kubectl_checked("apply", "--server-side", "-f", "-", stdin=crds)
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        for namespace in (OWN, TEAM):
            cluster.kubectl_checked("create", "namespace", namespace)
        cluster.apply(OUR_DEPLOYMENT)
        roles = roles_of_the_manual()
        bind(cluster, roles["ClusterRole", "gatewright"], ROBOT)
        bind(cluster, roles["ClusterRole", "gatewright-leader"], ROBOT)
        bind(cluster, roles["Role", "gatewright-leader"], ROBOT)
        yield cluster


@pytest.fixture(scope="module")
def gate(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterGate]:
    gate = ClusterGate(
        tmp_path_factory.mktemp("gate"),
        cluster.kubeconfig(ROBOT),
        *FLAGS,
        "--deployment=gatewright",
    )
    try:
        yield gate.start()
    finally:
        gate.stop()


@pytest.fixture(autouse=True)
def registered(cluster: ControlPlane, gate: ClusterGate) -> Iterator[None]:
    """Each test begins with both objects as the chart renders them, filled in, and no policy."""
    cluster.apply(*rendered(gate))
    wait_until(lambda: is_filled_in(cluster, gate), PATIENCE_S, "the registrations")
    yield
    delete_registrations(cluster)
    for kind in ("gvkpolicies", "specmappings"):
        cluster.kubectl_checked("delete", kind, "--all")


OUR_DEPLOYMENT: JsonObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "gatewright", "namespace": OWN},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "gatewright"}},
        "template": {
            "metadata": {"labels": {"app": "gatewright"}},
            "spec": {"containers": [{"name": "server", "image": "gatewright"}]},
        },
    },
}


def rendered(gate: ClusterGate, failure_policy: str = "Fail") -> list[JsonObject]:
    """Both objects as the chart renders them: they match nothing, and name no authority."""
    left_out = {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": [OWN, "kube-system"],
            }
        ]
    }
    own = {"matchLabels": {"kubernetes.io/metadata.name": OWN}}
    probes = {"matchLabels": {"gatewright.io/probe": "true"}}
    selectors: Mapping[str, JsonObject] = {
        WORKLOADS: {"namespaceSelector": left_out},
        PODS: {"namespaceSelector": left_out},
        PROBE: {"namespaceSelector": own, "objectSelector": probes},
        DOCUMENTS: {},
    }

    def entry(name: str, path: str, **more: Any) -> JsonObject:
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"{gate.url}{path}"},
            "failurePolicy": failure_policy,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 5,
            **selectors[name],
            **more,
        }

    mutating = [
        entry(name, "/mutate", reinvocationPolicy="IfNeeded") for name in (WORKLOADS, PODS, PROBE)
    ]
    validating = [entry(name, "/validate") for name in (WORKLOADS, PODS, DOCUMENTS)]
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": NAME},
            "webhooks": entries,
        }
        for kind, entries in (
            ("MutatingWebhookConfiguration", mutating),
            ("ValidatingWebhookConfiguration", validating),
        )
    ]


def delete_registrations(cluster: ControlPlane) -> None:
    for kind in (MUTATING, VALIDATING):
        cluster.kubectl_checked("delete", kind, NAME, "--ignore-not-found")


def entries(cluster: ControlPlane, kind: str) -> dict[str, JsonObject]:
    """The entries of one of the objects, by name; none if it is not there."""
    answer = cluster.request("GET", f"/apis/admissionregistration.k8s.io/v1/{kind}/{NAME}")
    webhooks = answer.json()["webhooks"] if answer.status == 200 else []
    return {entry["name"]: entry for entry in webhooks}


def resources(cluster: ControlPlane, kind: str, entry: str) -> list[str]:
    rules = entries(cluster, kind)[entry].get("rules", [])
    return [resource for rule in rules for resource in rule["resources"]]


def is_filled_in(cluster: ControlPlane, gate: ClusterGate) -> bool:
    """Whether nothing but what is always there is registered, with our authority."""
    bundle = base64.b64encode(gate.ca_pem.encode()).decode()
    found = {kind: entries(cluster, kind) for kind in (MUTATING, VALIDATING)}
    return all(
        [entry["clientConfig"].get("caBundle") for entry in found[kind].values()] == [bundle] * 3
        for kind in found
    ) and "workloadpolicies" in resources(cluster, VALIDATING, DOCUMENTS)


def writes(gate: ClusterGate) -> float:
    """All of them so far, whatever came of them."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in gate.ops("/metrics")[1].splitlines()
        if line.startswith("gatewright_registration_writes_total{")
    )


def reviews(gate: ClusterGate) -> float:
    """How many were answered so far."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in gate.ops("/metrics")[1].splitlines()
        if line.startswith("gatewright_reviews_total{")
    )


def policy(kind: JsonObject, name: str = "baseline") -> JsonObject:
    rule = make_rule("labels", "metadata", {"required": {"key": "team"}})
    return make_gvk_policy(rule, kind=kind, name=name)


def mapping(kind: JsonObject, name: str, **more: Any) -> JsonObject:
    return {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": name},
        "spec": {
            "workloadType": kind,
            "specSelectors": {"metadata": {"query": ".metadata", "fieldGroups": ["metadata"]}},
            **more,
        },
    }


def is_native(resource: str) -> bool:
    """Whether it is one of our own workload types, which are always registered."""
    return resource in {f"{kind.kind.lower()}s" for kind in NATIVE_TYPE_OF}


def pod(namespace: str = TEAM, metadata: JsonObject | None = None, *, gpus: int = 0) -> JsonObject:
    made = make_pod()
    made["metadata"] = {"name": "pod", "namespace": namespace, **(metadata or {})}
    if gpus:
        made["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return made


def create(cluster: ControlPlane, manifest: JsonObject) -> Any:
    """What the API server says to a dry run."""
    namespace = manifest["metadata"]["namespace"]
    plural = {"Pod": "api/v1", "Deployment": "apis/apps/v1"}[manifest["kind"]]
    path = f"/{plural}/namespaces/{namespace}/{manifest['kind'].lower()}s?dryRun=All"
    return cluster.request("POST", path, manifest)


def sent(cluster: ControlPlane, gate: ClusterGate, manifest: JsonObject) -> float:
    """How many reviews came of creating it."""
    before = reviews(gate)
    answer = create(cluster, manifest)
    assert answer.status in (201, 403), answer.text
    return reviews(gate) - before


def wait_until_in_use(cluster: ControlPlane, gate: ClusterGate, manifest: JsonObject) -> None:
    """The API server hears of a registration a moment after it was written."""
    wait_until(lambda: sent(cluster, gate, manifest) > 0, PATIENCE_S, "the API server to call")


def seconds_until(condition: Callable[[], bool]) -> float:
    started = time.monotonic()
    wait_until(condition, PATIENCE_S, "the registration to be right", interval_s=0.05)
    return time.monotonic() - started


# -- what is registered ----------------------------------------------------------------------------


def test_kinds_come_and_go_with_their_policies(cluster: ControlPlane, gate: ClusterGate) -> None:
    def registered_kinds() -> tuple[list[str], list[str]]:
        return resources(cluster, MUTATING, WORKLOADS), resources(cluster, VALIDATING, WORKLOADS)

    # Native kinds are served here.
    before = registered_kinds()
    assert "deployments" not in before[0]
    assert "trainings" in before[0]

    cluster.apply(policy(DEPLOYMENT))
    assert seconds_until(lambda: "deployments" in registered_kinds()[0]) < SOON_S
    wait_until(lambda: "deployments/scale" in registered_kinds()[1], SOON_S, "the other object")
    assert create(cluster, OUR_DEPLOYMENT | {"metadata": {"name": "a", "namespace": OWN}}).status
    cluster.kubectl_checked("delete", "gvkpolicy", "baseline")
    assert seconds_until(lambda: registered_kinds() == before) < SOON_S


def test_a_kind_that_is_served_later_is_registered_then(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    cluster.apply(mapping(ACME, "acme"), policy(ACME), policy(DEPLOYMENT, "other"))
    # The policies are in force, and the kind is not there.
    seconds_until(lambda: "deployments" in resources(cluster, MUTATING, WORKLOADS))
    assert "acmejobs" not in resources(cluster, MUTATING, WORKLOADS)

    cluster.apply(ACME_CRD)
    try:
        seconds_until(lambda: "acmejobs" in resources(cluster, MUTATING, WORKLOADS))
        seconds_until(lambda: "acmejobs" in resources(cluster, VALIDATING, WORKLOADS))
    finally:
        cluster.kubectl_checked("delete", "crd", "acmejobs.acme.io")
    seconds_until(lambda: "acmejobs" not in resources(cluster, MUTATING, WORKLOADS))


def test_without_a_policy_about_pods_only_those_with_gpus_are_sent(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    wait_until_in_use(cluster, gate, pod(gpus=1))

    assert sent(cluster, gate, pod()) == 0
    assert sent(cluster, gate, pod(TEAM, {"annotations": {"team": "a"}})) == 0
    # By /mutate; nothing is judged.
    assert sent(cluster, gate, pod(gpus=1)) == 1
    assert sent(cluster, gate, pod(TEAM, {"annotations": {"gpu-fraction": "0.5"}})) == 1
    assert sent(cluster, gate, pod(TEAM, {"annotations": {"gpu-memory": "4000"}})) == 1
    first = pod(gpus=1)
    container: JsonObject = first["spec"]["containers"][0]
    first["spec"]["initContainers"] = [{**container, "name": "first"}]
    first["spec"]["containers"] = [{**container, "resources": {}}]
    assert sent(cluster, gate, first) == 1
    assert sent(cluster, gate, pod(OWN, gpus=1)) == 0
    assert sent(cluster, gate, pod("kube-system", gpus=1)) == 0


def test_with_a_policy_about_pods_all_are_sent_that_change_something(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    cluster.apply(policy(POD))
    wait_until_in_use(cluster, gate, pod())
    labelled = {"labels": {"team": "a"}}
    seconds_until(lambda: sent(cluster, gate, pod(TEAM, labelled)) == 2)

    assert create(cluster, pod()).status == 403
    assert sent(cluster, gate, pod(OWN)) == 0
    assert sent(cluster, gate, pod("kube-system")) == 0

    path = f"/api/v1/namespaces/{TEAM}/pods"
    made = cluster.request("POST", path, pod(TEAM, {"finalizers": ["acme.io/hold"], **labelled}))
    assert made.status == 201, made.text
    stored = made.json()

    def update(**metadata: Any) -> float:
        """How many reviews come of it."""
        before = reviews(gate)
        now = cluster.request("GET", f"{path}/pod").json()
        answer = cluster.request(
            "PUT", f"{path}/pod", {**now, "metadata": {**now["metadata"], **metadata}}
        )
        assert answer.status == 200, answer.text
        return reviews(gate) - before

    try:
        assert update(labels={"team": "b"}) == 1
        assert update(annotations={"note": "x"}) == 1
        patch = json.dumps({"spec": {"activeDeadlineSeconds": 600}})
        before = reviews(gate)
        cluster.kubectl_checked("patch", "pod", "pod", f"-n={TEAM}", "-p", patch)
        assert reviews(gate) - before == 1
    finally:
        # Whoever takes a finalizer off needs nobody who answers.
        gone = update(finalizers=[])
        cluster.kubectl_checked("delete", "pod", "pod", f"-n={TEAM}", "--grace-period=0", "--force")
    assert gone == 0
    assert stored["metadata"]["name"] == "pod"


@pytest.mark.parametrize("plural", ["*", "*/*", "foos/status"])
def test_a_plural_that_stands_for_more_is_refused(
    cluster: ControlPlane, gate: ClusterGate, plural: str
) -> None:
    foo = {"group": "foo.example", "version": "v1", "kind": "Foo"}

    def said() -> str:
        document = dump_yaml([mapping(foo, "foo", resource=plural)])
        return cluster.kubectl("apply", "-f", "-", stdin=document).stderr

    seconds_until(lambda: "spec.resource: must be a plural in lower case" in said())


def test_the_probe_is_answered_in_our_own_namespace_and_nowhere_else(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    probe = {"labels": {"gatewright.io/probe": "true"}}
    wait_until_in_use(cluster, gate, pod(OWN, probe))

    answered = create(cluster, pod(OWN, probe)).json()
    assert "gatewright.io/probed" in answered["metadata"]["annotations"]
    assert sent(cluster, gate, pod(OWN)) == 0
    assert sent(cluster, gate, pod(TEAM, probe)) == 0


def test_documents_are_judged_without_any_policy(cluster: ControlPlane, gate: ClusterGate) -> None:
    rule = make_rule("labels", "metadata", {"required": {"key": "team"}})
    wrong = make_gvk_policy({**rule, "field": "lables"})

    def said() -> str:
        return cluster.kubectl("apply", "-f", "-", stdin=dump_yaml([wrong])).stderr

    seconds_until(lambda: f'admission webhook "{DOCUMENTS}" denied the request' in said())


def test_while_no_server_answers_the_system_and_our_own_namespace_start_all_the_same(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    """Otherwise nobody could start the server that everybody waits for."""
    cluster.apply(policy(POD))
    wait_until_in_use(cluster, gate, pod())
    gate.kill()
    try:
        assert create(cluster, pod("kube-system")).status == 201
        assert create(cluster, pod(OWN)).status == 201
        refused = create(cluster, pod(TEAM))
        assert refused.status == 500, refused.text
        assert "failed calling webhook" in refused.text
        # A kind that nobody has a policy for.
        deployment = {**OUR_DEPLOYMENT, "metadata": {"name": "other", "namespace": TEAM}}
        assert create(cluster, deployment).status == 201
        # The way out is not shut either.
        cluster.kubectl_checked("delete", "gvkpolicy", "baseline")
    finally:
        gate.start()
    seconds_until(lambda: create(cluster, pod()).status == 201)


def test_while_no_server_answers_the_api_server_itself_starts_all_the_same(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    """It makes roles and priority levels as it starts, and ends if it can't."""
    cluster.apply(policy(DEPLOYMENT), policy(POD, "pods"))
    for number, kind in enumerate(WRITTEN_BY_THE_CONTROL_PLANE):
        name = f"system-{number}"
        documents = dump_yaml([mapping(kind, name), policy(kind, name)])
        applied = cluster.kubectl("apply", "-f", "-", stdin=documents)
        assert applied.returncode == 0, applied.stderr
        assert "is never registered with the API server" in applied.stderr
    seconds_until(lambda: "deployments" in resources(cluster, VALIDATING, WORKLOADS))
    wait_until_in_use(cluster, gate, pod())
    time.sleep(QUIET_S)
    registered = {*resources(cluster, MUTATING, WORKLOADS), *resources(cluster, MUTATING, PODS)}
    assert {name for name in registered if not is_native(name)} == {"deployments", "pods"}

    gate.kill()
    try:
        # It is made again at the next start.
        cluster.kubectl_checked("delete", "clusterrole", "view")
        cluster.kill("kube-apiserver")
        cluster.revive("kube-apiserver")
        wait_until(
            lambda: cluster.kubectl("get", "clusterrole", "view").returncode == 0,
            PATIENCE_S,
            "the role",
        )
        cluster.kubectl_checked("create", "namespace", "fresh")
        wait_until(
            lambda: cluster.kubectl("get", "serviceaccount", "default", "-n=fresh").returncode == 0,
            PATIENCE_S,
            "the service account of a new namespace",
        )
        # What the policies are about waits for us, as they want it.
        assert create(cluster, pod()).status == 500
    finally:
        gate.start()
    seconds_until(lambda: create(cluster, pod()).status == 403)


# -- kept right ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "is_named"),
    [
        pytest.param({"op": "remove", "path": "/rules"}, False, id="rules-removed"),
        pytest.param(
            {"op": "replace", "path": "/rules/0/resources", "value": ["x"]}, True, id="rules"
        ),
        pytest.param({"op": "remove", "path": "/matchConditions"}, False, id="conditions"),
        pytest.param(
            {"op": "remove", "path": "/clientConfig/caBundle"}, False, id="bundle-removed"
        ),
        pytest.param(
            {"op": "replace", "path": "/clientConfig/caBundle", "value": ""},
            False,
            id="bundle-emptied",
        ),
        pytest.param(
            {"op": "replace", "path": "/clientConfig/caBundle", "value": "cnViYmlzaA=="},
            True,
            id="bundle-of-rubbish",
        ),
    ],
)
def test_what_an_operator_breaks_is_put_right_in_seconds_by_one_write(
    cluster: ControlPlane, gate: ClusterGate, patch: JsonObject, is_named: bool
) -> None:
    wait_until(lambda: is_quiet(gate), PATIENCE_S, "no more writes")
    written, right = writes(gate), entries(cluster, VALIDATING)
    place = list(right).index(DOCUMENTS)
    broken = [{**patch, "path": f"/webhooks/{place}{patch['path']}"}]

    cluster.kubectl_checked(
        "patch", VALIDATING, NAME, "--type=json", "-p", json.dumps(broken), "--field-manager=oops"
    )

    assert seconds_until(lambda: entries(cluster, VALIDATING) == right) < SOON_S
    time.sleep(QUIET_S)
    assert writes(gate) - written == 1
    # Of what was taken away, the API server does not note who did.
    told = gate.log_text.splitlines()[-1]
    assert "put right" in told
    assert ('"oops"' in told) is is_named


def is_quiet(gate: ClusterGate) -> bool:
    before = writes(gate)
    time.sleep(QUIET_S)
    return writes(gate) == before


def test_the_chart_applied_again_and_again_takes_nothing_from_us(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    """As GitOps does. What it renders stays true, so it is in sync."""
    wait_until(lambda: is_quiet(gate), PATIENCE_S, "no more writes")
    written = writes(gate)
    before = [entries(cluster, kind) for kind in (MUTATING, VALIDATING)]

    for _ in range(10):
        cluster.kubectl_checked(
            *("apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller"),
            *("-f", "-"),
            stdin=dump_yaml(rendered(gate)),
        )
        assert [entries(cluster, kind) for kind in (MUTATING, VALIDATING)] == before

    time.sleep(QUIET_S)
    assert writes(gate) == written


def test_an_upgrade_that_changes_the_charts_part_leaves_ours(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    cluster.apply(*rendered(gate, "Ignore"))

    found = entries(cluster, VALIDATING)
    assert {entry["failurePolicy"] for entry in found.values()} == {"Ignore"}
    assert is_filled_in(cluster, gate)


# -- taken away ------------------------------------------------------------------------------------


def test_what_is_deleted_is_not_brought_back_and_filled_in_when_it_is_made_again(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    delete_registrations(cluster)
    wait_until(
        lambda: (
            gate.metric("gatewright_registration_present", configuration="mutating")
            + gate.metric("gatewright_registration_present", configuration="validating")
            == 0
        ),
        SOON_S,
        "the metric to say so",
    )
    # Something to write about.
    cluster.apply(policy(DEPLOYMENT))
    time.sleep(QUIET_S)
    assert (entries(cluster, MUTATING), entries(cluster, VALIDATING)) == ({}, {})
    assert "the registration is not there" in gate.log_text

    cluster.kubectl_checked("create", "-f", "-", stdin=dump_yaml(rendered(gate)))

    assert seconds_until(lambda: is_filled_in(cluster, gate)) < SOON_S
    assert "deployments" in resources(cluster, MUTATING, WORKLOADS)
    assert gate.metric("gatewright_registration_present", configuration="mutating") == 1


# -- who leads -------------------------------------------------------------------------------------


def lease(cluster: ControlPlane) -> JsonObject:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/gatewright-server"
    found: JsonObject = cluster.request("GET", path).json()
    return found


def test_the_lease_goes_with_our_deployment(cluster: ControlPlane, gate: ClusterGate) -> None:
    path = f"/apis/apps/v1/namespaces/{OWN}/deployments/gatewright"
    uid = cluster.request("GET", path).json()["metadata"]["uid"]

    assert lease(cluster)["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "gatewright",
            "uid": uid,
            "blockOwnerDeletion": False,
        }
    ]


def test_a_follower_serves_and_writes_nothing_until_the_leader_ends(
    cluster: ControlPlane, gate: ClusterGate, tmp_path: Path
) -> None:
    # One authority for both, as with a Secret.
    (tmp_path / "certificates").symlink_to(gate.directory / "certificates")
    follower = ClusterGate(tmp_path, cluster.kubeconfig(ROBOT), *FLAGS)
    try:
        follower.start()
        cluster.apply(policy(DEPLOYMENT))
        seconds_until(lambda: "deployments" in resources(cluster, MUTATING, WORKLOADS))
        time.sleep(QUIET_S)
        assert [one.metric("gatewright_leader") for one in (gate, follower)] == [1, 0]
        assert writes(follower) == 0
        assert follower.metric("gatewright_status_writes_total", outcome="written") == 0

        # The follower is a server like any other.
        cluster.apply(*rendered(follower))
        wait_until_in_use(cluster, follower, pod(gpus=1))
        gate.stop()
        # Given up, not run out.
        assert seconds_until(lambda: follower.metric("gatewright_leader") == 1) < SOON_S
        cluster.apply(policy(JOB, "jobs"))
        seconds_until(lambda: "jobs" in resources(cluster, MUTATING, WORKLOADS))
        seconds_until(
            lambda: follower.metric("gatewright_status_writes_total", outcome="written") > 0
        )
    finally:
        follower.stop()
        gate.start()
    seconds_until(lambda: gate.metric("gatewright_leader") == 1)


def test_a_server_that_ends_brings_nothing_back(cluster: ControlPlane, gate: ClusterGate) -> None:
    """As after `helm uninstall`: it goes on for a while, and so do the events."""
    cluster.apply(policy(DEPLOYMENT))
    delete_registrations(cluster)
    gate.stop()
    try:
        assert (entries(cluster, MUTATING), entries(cluster, VALIDATING)) == ({}, {})
        assert create(cluster, pod()).status == 201
    finally:
        gate.start()
    time.sleep(QUIET_S)
    assert (entries(cluster, MUTATING), entries(cluster, VALIDATING)) == ({}, {})


def test_two_releases_of_one_namespace_fill_in_their_own(
    cluster: ControlPlane, gate: ClusterGate, tmp_path: Path
) -> None:
    other = rendered(gate)
    for each in other:
        each["metadata"]["name"] = "gatewright-second"
    cluster.apply(*other)
    (tmp_path / "certificates").symlink_to(gate.directory / "certificates")
    second = ClusterGate(
        tmp_path,
        cluster.kubeconfig("admin"),
        f"--own-namespace={OWN}",
        *(f"--{kind}-configuration=gatewright-second" for kind in ("mutating", "validating")),
        "--deployment=second",
    )
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    try:
        second.start()
        seconds_until(
            lambda: bool(
                cluster.request("GET", f"{path}/gatewright-second")
                .json()["webhooks"][0]["clientConfig"]
                .get("caBundle")
            )
        )
        assert [one.metric("gatewright_leader") for one in (gate, second)] == [1, 1]
    finally:
        second.stop()
        for kind in (MUTATING, VALIDATING):
            cluster.kubectl_checked("delete", kind, "gatewright-second")


def test_without_the_right_to_the_lease_it_serves_and_says_so_once(
    cluster: ControlPlane, gate: ClusterGate, tmp_path: Path
) -> None:
    rights = roles_of_the_manual()["ClusterRole", "gatewright"]
    bind(cluster, {**rights, "metadata": {"name": "reader"}}, READER)
    server = ClusterGate(tmp_path, cluster.kubeconfig(READER), *FLAGS, "--deployment=gatewright")
    try:
        server.start()
        wait_until(
            lambda: server.metric("gatewright_lease_failures_total") >= 2, PATIENCE_S, "two tries"
        )
        assert server.ops("/readyz")[0] == 200
        assert server.metric("gatewright_leader") == 0
        assert server.log_text.count("the lease can't be read or written") == 1
        assert server.log_text.count("our Deployment can't be read") == 1
    finally:
        server.stop()
