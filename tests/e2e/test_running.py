"""Trying policies on what runs, the plugin of kubectl, and what kubectl shows of all of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POD,
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
)
from tests.controlplane.documents import Rule, default_rules
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.gate import PROJECT
from webhook.model.manifests import dump_yaml

PATIENCE_S = 30.0
OWN = Rule("policy.gatewright.io", ("v1alpha1",), ("*",), ("CREATE", "UPDATE", "DELETE"))

GOOD, BAD = "ghcr.io/example/web:1", "docker.io/somebody/web:1"
PULLED = {"pattern": ["ghcr.io/*"]}

# Somebody who may work in one namespace only, and read policies.
DEV = "dev"


def images(kind: JsonObject, name: str, mode: str = "Enforce", **where: str) -> JsonObject:
    policy = make_gvk_policy(
        make_rule("image", "allContainers", PULLED), kind=kind, name=name, **where
    )
    policy["spec"]["mode"] = mode
    return policy


def deployment(name: str, image: str, namespace: str = "team-a") -> JsonObject:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [make_container("web", image=image)]},
            },
        },
    }


def pod(name: str, image: str) -> JsonObject:
    made = make_pod(containers=[make_container("web", image=image)])
    return {**made, "metadata": {"name": name, "namespace": "team-a"}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Runs a good and a bad Deployment with what controllers make of them, and a bad Pod."""
    users: dict[str, tuple[str, ...]] = {DEV: ()}
    with ControlPlane(users=users).start(tmp_path_factory.mktemp("cluster")) as cluster:
        crds = subprocess.run(
            [sys.executable, "-m", "webhook", "crds"], check=True, capture_output=True, text=True
        ).stdout
        cluster.kubectl_checked("apply", "--server-side", "-f", "-", stdin=crds)
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        for name in ("team-a", "team-b"):
            cluster.kubectl_checked("create", "namespace", name)
        cluster.kubectl_checked("label", "namespace", "team-a", "runai/queue=vision")
        cluster.apply(*rights_of_dev())
        cluster.apply(
            deployment("good", GOOD),
            deployment("bad", BAD),
            deployment("bad", BAD, "team-b"),
            pod("bare", BAD),
        )
        wait_until(lambda: len(pods(cluster)) == 4, PATIENCE_S, "the pods of the deployments")
        yield cluster


@pytest.fixture(scope="module")
def gate(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterGate]:
    gate = ClusterGate(tmp_path_factory.mktemp("gate"), cluster.kubeconfig())
    try:
        gate.start()
        cluster.register_webhooks(
            *(f"{gate.url}/mutate", f"{gate.url}/validate", gate.ca_pem),
            rules=(*default_rules(), OWN),
        )
        yield gate
    finally:
        gate.stop()


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    directory.mkdir()
    return directory


def pods(cluster: ControlPlane) -> list[Any]:
    found: list[Any] = json.loads(cluster.kubectl_checked("get", "pods", "-A", "-o", "json"))[
        "items"
    ]
    return found


def rights_of_dev() -> list[JsonObject]:
    api = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "name": DEV, "apiGroup": api}
    read = {"resources": ["*"], "verbs": ["get", "list"]}
    return [
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "policies"},
            "rules": [{"apiGroups": ["policy.gatewright.io"], **read}],
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "policies"},
            "subjects": [subject],
            "roleRef": {"kind": "ClusterRole", "name": "policies", "apiGroup": api},
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "view", "namespace": "team-a"},
            "subjects": [subject],
            "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": api},
        },
    ]


def run(
    cluster: ControlPlane, *args: str | Path, user: str = "admin", stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """`gatewright …`, as somebody with a kubeconfig."""
    return subprocess.run(
        [sys.executable, "-m", "webhook", *map(str, args)],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig(user))},
        cwd=PROJECT,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def write(directory: Path, *documents: Any) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "policies.yaml").write_text(dump_yaml(documents))
    return directory


# -- review --running ------------------------------------------------------------------------------


def test_what_runs_is_judged_by_a_directory(cluster: ControlPlane, policies: Path) -> None:
    write(policies, images(DEPLOYMENT, "deployments"), images(POD, "pods"))

    done = run(cluster, "review", "--running", "--policies", policies, "-o", "json")

    told = {each["source"]: each["allowed"] for each in json.loads(done.stdout)}
    assert done.returncode == 1, done.stderr
    # Neither the ReplicaSets nor the Pods that are made for a Deployment.
    assert told == {
        "cluster:apps/v1/Deployment team-a/bad": False,
        "cluster:apps/v1/Deployment team-a/good": True,
        "cluster:apps/v1/Deployment team-b/bad": False,
        "cluster:v1/Pod team-a/bare": False,
    }


def test_pods_are_judged_where_their_owners_are_not(cluster: ControlPlane, policies: Path) -> None:
    write(policies, images(POD, "pods"))

    done = run(cluster, "review", "--running", "--policies", policies)

    assert done.returncode == 1
    assert done.stdout.count("denied\n") == 3
    assert done.stdout.endswith("4 reviewed: 1 allowed, 3 denied, 0 failed\n")
    assert "good" not in done.stdout


def test_one_namespace_and_what_a_project_says(cluster: ControlPlane, policies: Path) -> None:
    """The project of a namespace is read from its label in the cluster."""
    write(policies, images(DEPLOYMENT, "deployments", scope="project", unit="vision"))
    flags = ("review", "--running", "--policies", policies)

    everywhere, elsewhere = run(cluster, *flags), run(cluster, *flags, "-n", "team-b")

    assert everywhere.returncode == 1
    assert everywhere.stdout.startswith("cluster:apps/v1/Deployment team-a/bad: denied\n")
    assert "team-b" not in everywhere.stdout
    assert elsewhere.returncode == 0


def test_what_may_not_be_listed_is_told(cluster: ControlPlane, policies: Path) -> None:
    write(policies, images(DEPLOYMENT, "deployments"))
    flags = ("review", "--running", "--policies", policies)

    everywhere = run(cluster, *flags, user=DEV)
    at_home = run(cluster, *flags, "-n", "team-a", user=DEV)

    assert everywhere.returncode == 2
    assert "deployments.apps can't be listed, and are not judged" in everywhere.stderr
    assert "--namespace" in everywhere.stderr
    assert "bad: denied" in at_home.stdout


def leaving_out(*namespaces: str) -> JsonObject:
    """A registration as the chart makes it, as far as it says where anybody is asked."""
    key = "kubernetes.io/metadata.name"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "left-out"},
        "webhooks": [
            {
                "name": "workloads.gatewright.io",
                "clientConfig": {"service": {"namespace": "gatewright", "name": "gatewright"}},
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": key, "operator": "NotIn", "values": list(namespaces)}
                    ]
                },
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def test_where_nobody_is_asked_at_admission_nothing_is_judged(
    cluster: ControlPlane, policies: Path, tmp_path: Path
) -> None:
    write(policies, images(DEPLOYMENT, "deployments"))
    review = ("review", "--running", "--policies", policies)
    everywhere = run(cluster, *review)
    cluster.apply(deployment("bad", BAD, "kube-system"))
    try:
        without_registration = run(cluster, *review)
        by_flag = run(cluster, *review, "--excluded-namespaces", "team-a,team-c")
        cluster.apply(leaving_out("kube-system", "team-b"))
        registered = run(cluster, *review)
        compared = run(cluster, "diff", "--running", write(tmp_path / "none"), policies)
        asked_for = run(cluster, *review, "-n", "team-b")
    finally:
        cluster.kubectl_checked("delete", "deployment", "bad", "-n", "kube-system")
        cluster.kubectl("delete", "validatingwebhookconfiguration", "left-out")

    assert without_registration.stdout == everywhere.stdout
    assert "team-b/bad: denied" in by_flag.stdout
    assert "team-a" not in by_flag.stdout
    assert [line for line in registered.stdout.splitlines() if line.endswith("denied")] == [
        "cluster:apps/v1/Deployment team-a/bad: denied"
    ]
    assert compared.stdout.endswith("2 judged: 1 decided differently\n"), compared.stderr
    assert (asked_for.returncode, asked_for.stdout[:10]) == (0, "0 reviewed")
    assert "namespace team-b is left out: nothing is judged there" in asked_for.stderr


# -- diff ------------------------------------------------------------------------------------------


def test_a_change_of_policies_is_tried_on_what_runs(cluster: ControlPlane, tmp_path: Path) -> None:
    old = write(tmp_path / "old", images(DEPLOYMENT, "as-is", scope="project", unit="vision"))
    new = write(tmp_path / "new", images(DEPLOYMENT, "for-all"))

    done = run(cluster, "diff", old, new, "--running", "-o", "json")
    same = run(cluster, "diff", old, old, "--running")

    (element,) = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert list(element) == ["source", "kind", "namespace", "name", "before", "after"]
    assert element["source"] == "cluster:apps/v1/Deployment team-b/bad"
    assert (element["before"]["allowed"], element["after"]["allowed"]) == (True, False)
    assert (same.returncode, same.stdout) == (0, "2 judged: 0 decided differently\n")


# -- the plugin ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the executable that an installation puts on the PATH."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["kubectl-gatewright"].partition(":")
    directory = tmp_path_factory.mktemp("bin")
    file = directory / "kubectl-gatewright"
    file.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(PROJECT)!r})\n"
        f"from {module} import {function}\nsys.exit({function}())\n"
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return directory


def kubectl(
    cluster: ControlPlane, path: Path, *args: str, user: str = "admin", stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [cluster.kubectl_path, *args],
        env={
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(path),
            "KUBECONFIG": str(cluster.kubeconfig(user)),
        },
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def in_force(cluster: ControlPlane, gate: ClusterGate) -> Iterator[Any]:
    """Puts a policy into the cluster; returns when the server enforces it."""

    def apply(policy: JsonObject) -> None:
        cluster.apply(policy)
        wait_until(
            lambda: (
                cluster.kubectl(
                    *("get", "gvkpolicy", policy["metadata"]["name"]),
                    *("-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}"),
                ).stdout
                == "True"
            ),
            PATIENCE_S,
            "the policy",
        )

    yield apply
    cluster.kubectl_checked("delete", "gvkpolicies", "--all", timeout_s=60)
    wait_until(
        lambda: (
            cluster.kubectl(
                *("create", "--dry-run=server", "-f", "-"), stdin=dump_yaml([pod("free", BAD)])
            ).stderr
            == ""
        ),
        PATIENCE_S,
        "pods to be free",
    )


def test_kubectl_asks_the_cluster_for_its_policies(
    cluster: ControlPlane, in_force: Any, plugin_path: Path, tmp_path: Path
) -> None:
    in_force(images(POD, "pods", scope="project", unit="vision"))
    file = tmp_path / "pod.yaml"
    file.write_text(dump_yaml([pod("new", BAD)]))

    by_file = kubectl(cluster, plugin_path, "gatewright", "review", "-f", str(file), user=DEV)
    piped = kubectl(
        *(cluster, plugin_path, "gatewright", "review", "-n", "team-b", "-f", "-"),
        stdin=file.read_text(),
    )
    running = kubectl(cluster, plugin_path, "gatewright", "review", "--running", "-n", "team-a")

    assert by_file.returncode == 1, by_file.stderr
    assert "new: denied\n" in by_file.stdout
    assert "(policy pods, project vision)" in by_file.stdout
    assert piped.returncode == 0, piped.stderr
    assert running.returncode == 1
    assert "cluster:v1/Pod team-a/bare: denied" in running.stdout


def test_the_namespace_and_the_context_are_those_of_the_kubeconfig(
    cluster: ControlPlane, in_force: Any, plugin_path: Path, tmp_path: Path
) -> None:
    in_force(images(POD, "pods", scope="project", unit="vision"))
    config = tmp_path / "config"
    config.write_text(cluster.kubeconfig().read_text())
    for context, namespace in (("at-home", "team-a"), ("abroad", "team-b")):
        cluster.kubectl_checked(
            *("config", "set-context", context, f"--kubeconfig={config}"),
            *("--cluster", current(cluster, "cluster"), "--user", current(cluster, "user")),
            *("--namespace", namespace),
        )
    document = pod("new", BAD)
    del document["metadata"]["namespace"]
    review = ("gatewright", "review", "-f", "-", "--kubeconfig", str(config), "--context")

    at_home, abroad = (
        kubectl(cluster, plugin_path, *review, name, stdin=dump_yaml([document]))
        for name in ("at-home", "abroad")
    )

    assert at_home.stdout.startswith("stdin#0 Pod team-a/new: denied"), at_home.stderr
    assert abroad.stdout.startswith("stdin#0 Pod team-b/new: allowed"), abroad.stderr


def current(cluster: ControlPlane, what: str) -> str:
    return cluster.kubectl_checked(
        "config", "view", "--minify", "-o", f"jsonpath={{.contexts[0].context.{what}}}"
    )


def test_who_may_not_read_policies_is_told_so(cluster: ControlPlane, plugin_path: Path) -> None:
    done = kubectl(
        *(cluster, plugin_path, "gatewright", "review", "-f", "-"),
        user="alice",
        stdin=dump_yaml([pod("new", BAD)]),
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "policy.gatewright.io can't be read from the cluster" in done.stderr
    assert "alice" in done.stderr


def test_what_is_in_force_in_a_cluster_is_explained(cluster: ControlPlane, in_force: Any) -> None:
    in_force(images(POD, "of-vision", scope="project", unit="vision"))
    in_force(images(POD, "next", "Audit"))

    done = run(cluster, "explain", "--kubernetes", "--workload-type", "v1/Pod", "-n", "team-a")

    assert (done.returncode, done.stderr) == (0, "")
    title, tried, *rules = done.stdout.splitlines()
    assert title == "v1/Pod in project vision"
    assert tried == "only tried, mode Audit: policy next, tenant"
    assert rules == [
        "image [allContainers]",
        '  pattern ["ghcr.io/*"] (policy of-vision, project vision)',
    ]


# -- what kubectl shows ----------------------------------------------------------------------------


def test_a_denial_is_read_at_a_glance(cluster: ControlPlane, in_force: Any, tmp_path: Path) -> None:
    policy = images(POD, "pods")
    policy["spec"]["rules"].append(make_rule("hostNetwork", "podSpec", {"blocked": True}))
    in_force(policy)
    bad = pod("worse", BAD)
    bad["spec"]["hostNetwork"] = True
    (tmp_path / "pods.yaml").write_text(dump_yaml([bad]))

    done = cluster.kubectl("apply", "-f", str(tmp_path / "pods.yaml"))

    first, *reasons = done.stderr.splitlines()
    assert done.returncode == 1
    assert first.startswith("Error from server (Forbidden): error when creating")
    assert first.endswith("denied the request: Pod worse breaks 2 rules:")
    assert reasons == [
        "hostNetwork [podSpec]: blocked by the policy, got true; no value (policy pods, tenant)",
        "image [allContainers web]: matches no allowed pattern, got docker.io/somebody/web:1;"
        " like ghcr.io/* (policy pods, tenant)",
    ]


@pytest.mark.parametrize(
    ("mode", "warned"), [pytest.param("Warn", True, id="warn"), pytest.param("Audit", False)]
)
def test_a_policy_that_is_only_tried_admits_and_warns_or_records(
    cluster: ControlPlane, in_force: Any, gate: ClusterGate, mode: str, warned: bool
) -> None:
    policy = images(POD, "tried", mode)
    policy["spec"]["rules"].append(make_rule("runAsNonRoot", "podSpec", {"set": True}))
    in_force(policy)
    name = f"tried-{mode.lower()}"

    done = cluster.kubectl("apply", "-f", "-", stdin=dump_yaml([pod(name, BAD)]))
    cluster.kubectl_checked("delete", "pod", name, "-n", "team-a", "--grace-period=0", "--force")

    told = done.stderr
    (record, *_) = [each for each in gate.decisions() if each["name"] == name]
    (preview, _) = record["previews"]
    assert done.returncode == 0, done.stderr
    assert (
        f"Warning: image [allContainers web]: matches no allowed pattern, got {BAD};" in told
    ) is warned
    assert ("Warning: runAsNonRoot [podSpec]: set would be applied, true;" in told) is warned
    assert told.count("runAsNonRoot") == warned, "it would not be refused for what is set"
    assert (record["outcome"], preview["mode"], preview["policy"]) == ("allowed", mode, "tried")
