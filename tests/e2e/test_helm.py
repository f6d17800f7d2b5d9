"""
The chart by real Helm 3 and 4 on a real control plane: in, up, back and out again.

Processes stand in for the containers (`Node`); they have the arguments, the variables and the
token that the chart gives them, and the API server reaches them through the chart's own Service.
"""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from tests.builders import JsonObject
from tests.chart.helm import CHART, EXAMPLES, MAJORS, Major
from tests.controlplane.run import ControlPlane
from tests.controlplane.service_proxy import ServiceProxy
from tests.controlplane.wait import wait_until
from tests.e2e.node import Node
from tests.e2e.releases import NAMESPACE, Helm, inventory, webhooks_of

ROLLOUT_S = 90.0
SETTLE_S = 30.0
CRD_SUFFIXES = (".policy.gatewright.io", ".workload.gatewright.io", ".rightsizing.kubex.ai")
SECRET = "gatewright-certificate"

# Short, since nobody calls here by way of many nodes.
QUICK: JsonObject = {"server": {"shutdown": {"delaySeconds": 0.5}}}
SMALL: JsonObject = {**QUICK, "replicaCount": 1, "podDisruptionBudget": {"enabled": False}}

PRIVILEGED: JsonObject = {
    "apiVersion": "workload.gatewright.io/v1alpha1",
    "kind": "Training",
    "metadata": {"name": "forbidden", "namespace": "default"},
    "spec": {"image": "busybox", "security": {"privileged": True}},
}
POLICY: JsonObject = {
    "apiVersion": "policy.gatewright.io/v1alpha1",
    "kind": "GVKPolicy",
    "metadata": {"name": "few-replicas"},
    "spec": {
        "workloadType": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "scope": "tenant",
        "rules": [
            {
                "field": "replicas",
                "specSelector": "workload",
                "enforcements": [{"max": {"value": 3}}],
            }
        ],
    },
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Node]]:
    """A control plane that reaches Services, and a node."""
    # The path of a socket is short.
    with tempfile.TemporaryDirectory(prefix="gate-") as directory:
        path = Path(directory) / "services"
        with ControlPlane(service_proxy=path).start(tmp_path_factory.mktemp("plane")) as plane:
            plane.kubectl_checked("create", "namespace", NAMESPACE)
            with Node(plane, tmp_path_factory.mktemp("node"), NAMESPACE) as node:
                proxy = ServiceProxy(path, node.route).start()
                yield plane, node
                proxy.stop()


@pytest.fixture
def plane(world: tuple[ControlPlane, Node]) -> ControlPlane:
    return world[0]


@pytest.fixture
def node(world: tuple[ControlPlane, Node]) -> Node:
    return world[1]


@pytest.fixture(params=MAJORS, ids=lambda major: f"helm{major}", scope="module")
def major(request: pytest.FixtureRequest) -> Major:
    found: Major = request.param
    return found


@pytest.fixture
def helm(plane: ControlPlane, major: Major) -> Helm:
    return Helm(plane, major)


@pytest.fixture
def clean(plane: ControlPlane) -> Iterator[set[str]]:
    """What the cluster holds before; what a test leaves is taken away after it."""
    if plane.kubectl("get", "namespace", NAMESPACE).returncode != 0:
        plane.kubectl_checked("create", "namespace", NAMESPACE)
    wait_until(
        lambda: f"configmaps/{NAMESPACE}/kube-root-ca.crt" in inventory(plane),
        SETTLE_S,
        "the namespace to be complete",
    )
    yield inventory(plane)
    for kind in ("validatingwebhookconfiguration", "mutatingwebhookconfiguration"):
        plane.kubectl("delete", kind, "-l", "app.kubernetes.io/part-of=gatewright")
    for helm in (Helm(plane, major) for major in MAJORS):
        for release in json.loads(helm.checked("list", "--all-namespaces", "-o", "json")):
            helm.run("uninstall", release["name"], "--no-hooks", namespace=release["namespace"])


@pytest.fixture
def no_crds(plane: ControlPlane) -> None:
    """Those that other tests have left are taken away."""
    names = plane.kubectl_checked("get", "crds", "-o", "name").split()
    ours = [name for name in names if name.endswith(CRD_SUFFIXES)]
    if ours:
        plane.kubectl_checked("delete", *ours, timeout_s=90)


def rolled_out(plane: ControlPlane, name: str = "gatewright") -> None:
    """Wait until every replica is as the Deployment says, and the registrations are filled in."""
    plane.kubectl_checked(
        *(
            "rollout",
            "status",
            f"deployment/{name}",
            "-n",
            NAMESPACE,
            f"--timeout={ROLLOUT_S:.0f}s",
        ),
        timeout_s=ROLLOUT_S + 10,
    )
    wait_until(
        lambda: all(
            entry.get("rules") and entry["clientConfig"].get("caBundle")
            for (_, name), entry in webhooks_of(plane).items()
            if name in ("workloads.gatewright.io", "documents.gatewright.io")
        ),
        SETTLE_S,
        "the registrations to be filled in",
    )


def left_behind(plane: ControlPlane, before: set[str]) -> list[str]:
    """What is there and was not, but for CRDs of ours and documents of these."""
    return sorted(
        each
        for each in inventory(plane) - before
        if not (each.startswith("customresourcedefinitions/") and each.endswith(CRD_SUFFIXES))
        and not each.startswith("gvkpolicies/")
    )


def assert_all_gone(plane: ControlPlane, before: set[str]) -> None:
    """Nothing of ours is left, and Pods and workloads can be made."""
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment"}
    pod = {"containers": [{"name": "main", "image": "busybox"}]}
    labels = {"app": "free"}
    document = {
        **deployment,
        "metadata": {"name": "free", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    # An API server learns a moment later that a registration has gone.
    wait_until(
        lambda: plane.request("POST", path, document).status in (201, 409),
        10.0,
        "a Deployment to be taken",
    )
    wait_until(
        lambda: plane.kubectl_checked("get", "pods", "-l", "app=free", "-o", "name"),
        10.0,
        "a Pod to be made",
    )
    plane.kubectl_checked("delete", "deployment", "free")
    wait_until(
        lambda: not plane.kubectl_checked("get", "pods", "-l", "app=free", "-o", "name"),
        SETTLE_S,
        "it to be gone",
    )
    # Owners go first: the garbage collector takes what is theirs.
    wait_until(lambda: not left_behind(plane, before), SETTLE_S, "everything to be gone")


def submit(plane: ControlPlane, document: JsonObject) -> Any:
    return plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.dump(document))


def serving_certificate(plane: ControlPlane) -> x509.Certificate:
    told = plane.kubectl_checked("get", "secret", SECRET, "-n", NAMESPACE, "-o", "json")
    return x509.load_pem_x509_certificate(base64.b64decode(json.loads(told)["data"]["tls.crt"]))


# --- a life ---


def test_a_release_is_installed_refuses_upgrades_rotates_rolls_back_and_goes(
    plane: ControlPlane, node: Node, helm: Helm, clean: set[str]
) -> None:
    # A certificate that is replaced every half a minute.
    short = {**QUICK, "certificates": {"own": {"lifetime": "45s", "caLifetime": "1h"}}}
    helm.install(values=short)
    # B18: what has no servers yet matches nothing.
    assert not any(entry.get("rules") for entry in webhooks_of(plane).values())
    rolled_out(plane)

    # Refused, by the policy that is shipped and by one of our own.
    first = serving_certificate(plane).serial_number
    assert "security.privileged" in submit(plane, PRIVILEGED).stderr
    assert helm.checked("test", "gatewright", "--timeout", "60s").count("Succeeded") == 4
    assert "refused, as it must be" in node.log_of("selftest")
    plane.apply(POLICY)

    # Rotated: every call meanwhile is answered.
    def rotated() -> bool:
        assert "security.privileged" in submit(plane, PRIVILEGED).stderr
        return serving_certificate(plane).serial_number != first

    wait_until(rotated, ROLLOUT_S, "another certificate")
    for _ in range(5):
        assert "security.privileged" in submit(plane, PRIVILEGED).stderr

    # Upgraded: replaced one after the other, and the registrations are not taken back.
    more = {**QUICK, "registrations": {"timeoutSeconds": 7}}
    helm.checked("upgrade", "gatewright", str(CHART), values=more)
    entry = webhooks_of(plane)["Validating", "workloads.gatewright.io"]
    assert entry["timeoutSeconds"] == 7
    assert entry["rules"]
    assert entry["clientConfig"]["caBundle"]
    rolled_out(plane)

    # Back to the first revision, and with it a registration that somebody has deleted.
    plane.kubectl_checked("delete", "validatingwebhookconfiguration", "gatewright-admission")
    helm.checked("rollback", "gatewright", "1")
    rolled_out(plane)
    assert webhooks_of(plane)["Validating", "workloads.gatewright.io"]["timeoutSeconds"] == 5
    assert "security.privileged" in submit(plane, PRIVILEGED).stderr

    helm.checked("uninstall", "gatewright")
    assert_all_gone(plane, clean)
    # Documents are kept with their CRDs.
    assert plane.kubectl_checked("get", "gvkpolicy", "few-replicas", "-o", "name").strip()


def test_without_its_servers_a_cluster_starts_and_they_come_back(
    plane: ControlPlane, clean: set[str]
) -> None:
    """B18: the validating webhook is at Fail, and a policy is about Pods."""
    rule = {"field": "hostNetwork", "specSelector": "podSpec"}
    pods = {"version": "v1", "kind": "Pod"}
    rules = [{**rule, "enforcements": [{"options": [False]}]}]
    of_pods = {"workloadType": pods, "scope": "tenant", "rules": rules}
    helm = Helm(plane, 4)
    helm.install(values=SMALL)
    rolled_out(plane)
    plane.apply({**POLICY, "metadata": {"name": "of-pods"}, "spec": of_pods})
    for entry in ("pods.gatewright.io", "documents.gatewright.io"):
        wait_until(partial(is_registered, plane, entry), SETTLE_S, f"{entry} to be registered")
    plane.kubectl_checked("scale", "deployment/gatewright", "--replicas=0", "-n", NAMESPACE)
    wait_until(lambda: not plane_pods(plane), SETTLE_S, "the servers to be gone")

    def may_start(namespace: str) -> bool:
        spec = {"containers": [{"name": "main", "image": "busybox"}], "hostNetwork": True}
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        return plane.request("POST", path, pod).status == 201

    # The account without which no Pod is made comes a moment after its namespace.
    wait_until(lambda: may_start("kube-system"), SETTLE_S, "a Pod in kube-system")
    assert may_start(NAMESPACE)
    assert not may_start("default")
    # A policy can't be corrected meanwhile, and can be deleted.
    policies = "/apis/policy.gatewright.io/v1alpha1/gvkpolicies"
    wait_until(
        lambda: plane.request("POST", f"{policies}?dryRun=All", POLICY).status == 500,
        SETTLE_S,
        "the API server to ask for them",
    )
    assert plane.request("DELETE", f"{policies}/of-pods?dryRun=All").status == 200
    plane.kubectl_checked("scale", "deployment/gatewright", "--replicas=1", "-n", NAMESPACE)
    rolled_out(plane)
    refused = submit(plane, PRIVILEGED)
    assert "security.privileged" in refused.stderr
    plane.kubectl_checked("delete", "gvkpolicy", "of-pods")


def is_registered(plane: ControlPlane, entry: str) -> bool:
    return bool(webhooks_of(plane)["Validating", entry].get("rules"))


def plane_pods(plane: ControlPlane) -> list[str]:
    return plane.kubectl_checked("get", "pods", "-n", NAMESPACE, "-o", "name").split()


# --- B34: ways out ---


def test_one_that_is_uninstalled_at_once_leaves_nothing(
    plane: ControlPlane, helm: Helm, clean: set[str]
) -> None:
    helm.install()
    helm.checked("uninstall", "gatewright")

    assert_all_gone(plane, clean)


def test_one_whose_pods_were_killed_leaves_nothing(
    plane: ControlPlane, helm: Helm, clean: set[str]
) -> None:
    helm.install(values=SMALL)
    rolled_out(plane)
    plane.kubectl_checked("delete", "pods", "--all", "-n", NAMESPACE, "--force", "--grace-period=0")
    helm.checked("uninstall", "gatewright")

    assert_all_gone(plane, clean)


def test_one_that_is_uninstalled_without_hooks_leaves_nothing(
    plane: ControlPlane, helm: Helm, clean: set[str]
) -> None:
    helm.install(values=SMALL)
    rolled_out(plane)
    helm.checked("uninstall", "gatewright", "--no-hooks")

    assert_all_gone(plane, clean)


def test_one_whose_install_failed_leaves_nothing(
    plane: ControlPlane, helm: Helm, clean: set[str]
) -> None:
    """The Secret that is to be mounted is not there, so no Pod ever starts."""
    mine = {"certificates": {"mode": "existingSecret", "existingSecret": {"name": "missing"}}}
    done = helm.run("install", "gatewright", str(CHART), "--wait", "--timeout", "3s", values=mine)
    assert done.returncode != 0
    helm.checked("uninstall", "gatewright")

    assert_all_gone(plane, clean)


def test_one_whose_namespace_was_deleted_leaves_nothing(
    plane: ControlPlane, helm: Helm, clean: set[str]
) -> None:
    plane.kubectl_checked("delete", "namespace", NAMESPACE, timeout_s=60)
    helm.install("gatewright", "--create-namespace", values=SMALL)
    rolled_out(plane)
    plane.kubectl_checked("delete", "namespace", NAMESPACE, timeout_s=60)

    assert_all_gone(plane, {each for each in clean if f"/{NAMESPACE}" not in each})


def test_what_is_kept_is_taken_over_by_a_release_of_another_name(
    plane: ControlPlane, helm: Helm, clean: set[str]
) -> None:
    helm.install(values=SMALL)
    plane.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
    plane.apply(POLICY)
    helm.checked("uninstall", "gatewright")
    told = helm.install("gate", values=SMALL)
    rolled_out(plane, "gate-gatewright")

    assert "gvkpolicies.policy.gatewright.io" in told  # NOTES: left as they are
    assert "security.privileged" in submit(plane, PRIVILEGED).stderr
    assert plane.kubectl_checked("get", "gvkpolicy", "few-replicas", "-o", "name").strip()
    helm.checked("uninstall", "gate")
    assert_all_gone(plane, clean)


def test_crds_go_as_well_if_that_is_asked_for(
    plane: ControlPlane, helm: Helm, no_crds: None, clean: set[str]
) -> None:
    helm.install(values={"crds": {"keep": False}})
    helm.checked("uninstall", "gatewright")

    wait_until(lambda: inventory(plane) <= clean, SETTLE_S, "everything to be gone")


def test_an_upgrade_deletes_no_crds_that_are_not_kept(
    plane: ControlPlane, helm: Helm, no_crds: None, clean: set[str]
) -> None:
    helm.install(values={"crds": {"keep": False}})
    without = {"crds": {"rightsizing": False}, "reconciler": {"enabled": False}}
    done = helm.run("upgrade", "gatewright", str(CHART), values=without)

    assert done.returncode != 0
    assert "would delete CRDs that are not kept, with all documents of theirs: auto" in done.stderr
    helm.checked("upgrade", "gatewright", str(CHART), values={"crds": {"keep": True}})
    helm.checked("upgrade", "gatewright", str(CHART), values=without)
    assert "strategies.rightsizing" in plane.kubectl_checked("get", "crds", "-o", "name")


# --- where there is one already ---


def test_a_second_one_is_refused_and_the_first_goes_on(
    plane: ControlPlane, helm: Helm, clean: set[str]
) -> None:
    helm.install()
    same_name = helm.run("install", "gatewright", str(CHART))
    same_namespace = helm.run("install", "other", str(CHART))
    another_namespace = helm.run("install", "gatewright", str(CHART), namespace="default")

    assert "still in use" in same_name.stderr
    for done in (same_namespace, another_namespace):
        assert done.returncode != 0
        assert (
            "Gatewright is in this cluster already, as release gatewright in namespace"
            f" {NAMESPACE}, and a cluster takes one" in done.stderr
        )
    assert json.loads(helm.checked("list", "--all-namespaces", "-o", "json"))[1:] == []
    assert webhooks_of(plane)


# --- CRDs that are there ---


@pytest.fixture
def older_chart(tmp_path: Path) -> Path:
    """The chart before this one: CRDs in `crds/`, which Helm doesn't own, and nothing else."""
    chart = tmp_path / "gatewright"
    shutil.copytree(CHART / "files" / "crds", chart / "crds")
    (chart / "templates").mkdir()
    (chart / "values.yaml").write_text("{}\n")
    (chart / "Chart.yaml").write_text(
        yaml.dump({"apiVersion": "v2", "name": "gatewright", "version": "0.0.9"})
    )
    return chart


def change_description(chart: Path, name: str, text: str) -> None:
    path = chart / "crds" / f"{name}.yaml"
    crd = yaml.safe_load(path.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["description"] = text
    path.write_text(yaml.safe_dump(crd))


def test_the_chart_before_is_upgraded_to_this_one(
    plane: ControlPlane, helm: Helm, no_crds: None, clean: set[str], older_chart: Path
) -> None:
    helm.install(chart=older_chart)
    told = helm.checked("upgrade", "gatewright", str(CHART), values=SMALL)
    rolled_out(plane)

    assert "specmappings.policy.gatewright.io" in told
    assert "security.privileged" in submit(plane, PRIVILEGED).stderr
    helm.checked("uninstall", "gatewright")
    assert_all_gone(plane, clean)


def test_crds_of_another_version_that_nobody_owns_are_taken_over_when_that_is_said(
    plane: ControlPlane, helm: Helm, no_crds: None, clean: set[str], older_chart: Path
) -> None:
    name = "gvkpolicies.policy.gatewright.io"
    change_description(older_chart, name, "as it was")
    helm.install(chart=older_chart)
    refused = helm.run("upgrade", "gatewright", str(CHART))
    assert refused.returncode != 0
    assert name in refused.stderr
    assert "--take-ownership --set crds.adopt=true" in refused.stderr

    force = ("--force-conflicts",) if helm.major == 4 else ()
    adopt = ("--take-ownership", *force, "--set", "crds.adopt=true")
    helm.checked("upgrade", "gatewright", str(CHART), *adopt)
    assert "as it was" not in plane.kubectl_checked("get", "crd", name, "-o", "yaml")
    # From then on they are the release's.
    helm.checked("upgrade", "gatewright", str(CHART))


def test_crds_are_upgraded_with_the_release(
    plane: ControlPlane, helm: Helm, no_crds: None, clean: set[str], tmp_path: Path
) -> None:
    older = tmp_path / "chart"
    shutil.copytree(CHART, older)
    name = "gvkpolicies.policy.gatewright.io"
    (older / "crds").symlink_to(older / "files" / "crds")
    change_description(older, name, "as it was")
    (older / "crds").unlink()
    helm.install(chart=older)
    assert "as it was" in plane.kubectl_checked("get", "crd", name, "-o", "yaml")
    helm.checked("upgrade", "gatewright", str(CHART))

    assert "as it was" not in plane.kubectl_checked("get", "crd", name, "-o", "yaml")


def test_crds_of_others_are_left_as_they_are(
    plane: ControlPlane, helm: Helm, no_crds: None, clean: set[str]
) -> None:
    (path,) = (CHART / "files" / "rightsizing-crds").glob("policyevaluations.*")
    theirs = yaml.safe_load(path.read_text())
    theirs["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "somebody"}
    plane.apply(theirs)
    told = helm.install()
    assert "policyevaluations.rightsizing.kubex.ai" in told

    # Ours alone are taken over where that is said.
    force = ("--force-conflicts",) if helm.major == 4 else ()
    adopt = ("--take-ownership", *force, "--set", "crds.adopt=true")
    told = helm.checked("upgrade", "gatewright", str(CHART), *adopt)
    assert "policyevaluations.rightsizing.kubex.ai" in told
    labels = plane.kubectl_checked("get", "-f", str(path), "-o", "jsonpath={.metadata.labels}")
    assert json.loads(labels) == theirs["metadata"]["labels"]


def test_the_reconciler_needs_the_kinds_that_it_is_about(
    plane: ControlPlane, helm: Helm, no_crds: None, clean: set[str]
) -> None:
    done = helm.run("install", "gatewright", str(CHART), values={"crds": {"rightsizing": False}})

    assert done.returncode != 0
    assert "reconciler.enabled needs the CRDs of rightsizing.kubex.ai" in done.stderr


def test_what_is_for_another_product_needs_its_kinds(
    plane: ControlPlane, helm: Helm, clean: set[str]
) -> None:
    values = {
        "certificates": {"mode": "certManager"},
        "monitoring": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    }
    done = helm.run("install", "gatewright", str(CHART), values=values)

    assert done.returncode != 0
    assert "\n- monitoring.serviceMonitor.enabled needs the CRDs of the Prometheus" in done.stderr
    assert "\n- monitoring.prometheusRule.enabled needs the CRDs of the Prometheus" in done.stderr
    assert "\n- certificates.mode certManager needs the CRDs of cert-manager" in done.stderr

    theirs = [
        minimal_crd("monitoring.coreos.com", "ServiceMonitor"),
        minimal_crd("monitoring.coreos.com", "PrometheusRule"),
        minimal_crd("cert-manager.io", "Certificate"),
        minimal_crd("cert-manager.io", "Issuer"),
    ]
    names = [f"crd/{each['metadata']['name']}" for each in theirs]
    try:
        plane.apply(*theirs)
        plane.kubectl_checked("wait", "--for=condition=Established", "--timeout=20s", *names)
        helm.install("gatewright", "--dry-run=server", values=values)
    finally:
        plane.kubectl("delete", "--wait", *names)


def minimal_crd(group: str, kind: str) -> JsonObject:
    """A CRD that takes any object of *kind*, as another product would bring it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def test_a_release_fits_into_its_secret(plane: ControlPlane, helm: Helm, clean: set[str]) -> None:
    """A Secret holds 1 MiB, and this one all of the chart beside what was rendered of it."""
    helm.install()
    name = "sh.helm.release.v1.gatewright.v1"
    told = json.loads(plane.kubectl_checked("get", "secret", name, "-n", NAMESPACE, "-o", "json"))

    assert len(base64.b64decode(told["data"]["release"])) < 2**20 / 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_taken_by_the_api_server(
    plane: ControlPlane, clean: set[str], path: Path
) -> None:
    """But for kinds of products that are not here; the Pod of `helm test` needs its account."""
    foreign = ("monitoring.coreos.com", "cert-manager.io")
    rendered = Helm(plane, 4).checked(
        "template", "gatewright", str(CHART), "--skip-tests", "--values", str(path)
    )
    documents = [
        each
        for each in yaml.safe_load_all(rendered)
        if each and not each["apiVersion"].startswith(foreign)
    ]
    assert documents
    plane.kubectl_checked(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump_all(documents),
    )
