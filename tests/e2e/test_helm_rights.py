"""
The rights that the chart gives, against the calls that a real API server saw in its audit log.

One replica with everything switched on is made to do all that it can: every call is allowed, and
every right is used, or listed here with the reason why it isn't.
"""

from __future__ import annotations

import json
import ssl
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.acme import FORMATTER, JOB_GROUP, MAPPING, POLICY, VOLUME_GROUP
from tests.api.rest import ACME, FIELD_GROUPS, FORMATTERS, MAPPINGS, POLICIES, TRAININGS
from tests.builders import JsonObject
from tests.chart.test_rights import mapped_kinds
from tests.controlplane.prometheus import Prometheus
from tests.controlplane.run import ControlPlane
from tests.controlplane.service_proxy import ServiceProxy
from tests.controlplane.wait import wait_until
from tests.e2e.node import Node
from tests.e2e.reconciler import ReconcilerProcess
from tests.e2e.releases import NAMESPACE, Helm
from tests.e2e.report_crds import POLICY_REPORT_CRDS
from tests.e2e.test_gpu_reconcile import PATIENCE_S, Place
from tests.e2e.test_helm import POLICY as REPLICAS
from tests.e2e.test_helm import rolled_out, serving_certificate
from tests.gpu import make_gpu_container, whole_gpus
from tests.gpu_documents import make_cluster_policy
from webhook.model.kinds import NATIVE_KINDS

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gatewright"
TEAM, GPU_TEAM = "team-a", "team-gpu"

EVERYWHERE: JsonObject = {"operator": "In", "values": ["*"]}
DATA_SOURCE: JsonObject = {
    "apiVersion": "policy.gatewright.io/v1alpha1",
    "kind": "DataSource",
    "metadata": {"name": "scratch"},
    "spec": {"emptyDirVolume": {"path": "/scratch"}},
}
VALUES: JsonObject = {
    "replicaCount": 1,
    "podDisruptionBudget": {"enabled": False},
    "certificates": {"own": {"lifetime": "30s", "caLifetime": "1h"}},
    "server": {"shutdown": {"delaySeconds": 0.5}, "reports": {"scanPeriod": "2s"}},
}


@dataclass(frozen=True)
class Right:
    """*name* is the one object that it is about; ``""``: any."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str = ""


@dataclass
class World:
    plane: ControlPlane
    node: Node
    prometheus: Prometheus


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="gate-") as directory:
        path = Path(directory) / "services"
        plane = ControlPlane(service_proxy=path, audit="Metadata", audit_whole=[ACCOUNT])
        with (
            plane.start(tmp_path_factory.mktemp("plane")),
            Prometheus(tmp_path_factory.mktemp("prometheus")).start() as prometheus,
            Node(plane, tmp_path_factory.mktemp("node"), NAMESPACE) as node,
        ):
            proxy = ServiceProxy(path, node.route).start()
            for namespace in (TEAM, GPU_TEAM):
                plane.kubectl_checked("create", "namespace", namespace)
            yield World(plane, node, prometheus)
            proxy.stop()


def granted(plane: ControlPlane) -> set[Right]:
    """What the account may, by the roles that the chart has made."""
    found = set()
    for kind, place in (("clusterrole", ""), ("role", NAMESPACE)):
        told = plane.kubectl_checked("get", kind, "gatewright", "-n", NAMESPACE, "-o", "json")
        found |= {
            Right(verb, group, resource, place, name)
            for rule in json.loads(told)["rules"]
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
        }
    return found


def calls(plane: ControlPlane) -> list[JsonObject]:
    return [event for event in plane.audit_events() if event["user"]["username"] == ACCOUNT]


def used(events: list[JsonObject]) -> set[Right]:
    """Each call as the right that it needs; what everybody may is left out."""
    found = set()
    for event in events:
        thing = event.get("objectRef")
        if thing is None or "resource" not in thing:
            continue  # Discovery.
        resource = "/".join(filter(None, (thing["resource"], thing.get("subresource"))))
        found.add(
            Right(
                event["verb"],
                thing.get("apiGroup", ""),
                resource,
                thing.get("namespace", ""),
                thing.get("name", ""),
            )
        )
    return found


def covers(right: Right, call: Right) -> bool:
    same = (right.verb, right.group, right.resource) == (call.verb, call.group, call.resource)
    return same and right.namespace in ("", call.namespace) and right.name in ("", call.name)


# --- making it do all that it can ---


def call_api(world: World, method: str, path: str, body: Any = None) -> Any:
    """The REST API of the replica, as the administrator."""
    (pod,) = [pod for pod in world.node.pods if not pod.ends_by_itself]
    secret = world.plane.kubectl_checked(
        *("get", "secret", "gatewright-certificate", "-n", NAMESPACE),
        *("-o", 'go-template={{index .data "ca.crt" | base64decode}}'),
    )
    request = urllib.request.Request(
        f"https://localhost:{pod.containers[0].ports['https']}{path}",
        None if body is None else json.dumps(body).encode(),
        {
            "Authorization": f"Bearer {world.plane.token('admin')}",
            "Content-Type": "application/json",
        },
        method=method,
    )
    tls = ssl.create_default_context(cadata=secret)
    with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def use_the_api(world: World) -> None:
    """Each of the five kinds is made, read, changed and taken away."""
    call_api(world, "POST", FORMATTERS, FORMATTER)
    call_api(world, "GET", f"{FORMATTERS}/{FORMATTER['name']}")
    call_api(world, "PATCH", f"{FORMATTERS}/{FORMATTER['name']}", {"description": "changed"})
    for group in (JOB_GROUP, VOLUME_GROUP):
        call_api(world, "POST", FIELD_GROUPS, group)
        call_api(world, "GET", f"{FIELD_GROUPS}/{group['name']}")
        call_api(world, "PATCH", f"{FIELD_GROUPS}/{group['name']}", {"description": "changed"})
    call_api(world, "POST", MAPPINGS, MAPPING)
    call_api(world, "PATCH", MAPPINGS, {"workloadType": ACME, "description": "changed"})
    policy = call_api(world, "POST", POLICIES, POLICY)
    call_api(world, "GET", f"{POLICIES}/{policy['id']}")
    call_api(world, "PATCH", f"{POLICIES}/{policy['id']}", {"description": "changed"})
    native: JsonObject = {"meta": {"scope": "tenant"}, "policy": {"defaults": {"image": "a"}}}
    call_api(world, "PUT", TRAININGS, native)
    call_api(world, "PATCH", TRAININGS, {**native, "policy": {"defaults": {"image": "b"}}})
    call_api(world, "GET", f"{TRAININGS}?scope=tenant")
    # What is taken away at once may never get one.
    wait_until(lambda: all_have_a_status(world.plane), 30.0, "statuses")
    call_api(world, "DELETE", f"{TRAININGS}?scope=tenant")
    call_api(world, "DELETE", f"{POLICIES}/{policy['id']}")
    call_api(world, "DELETE", MAPPINGS, {"workloadType": ACME})
    for group in (VOLUME_GROUP, JOB_GROUP):
        call_api(world, "DELETE", f"{FIELD_GROUPS}/{group['name']}")
    call_api(world, "DELETE", f"{FORMATTERS}/{FORMATTER['name']}")


def all_have_a_status(plane: ControlPlane) -> bool:
    kinds = "workloadpolicies,gvkpolicies,specmappings,fieldgroups,formatters"
    told = json.loads(plane.kubectl_checked("get", kinds, "-o", "json"))
    return all("status" in document for document in told["items"])


def deployment(name: str, replicas: int, *containers: JsonObject) -> JsonObject:
    labels = {"app": name}
    pod = {"containers": list(containers) or [{"name": "main", "image": "busybox"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": TEAM, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def report_of(plane: ControlPlane) -> JsonObject | None:
    told = plane.kubectl_checked("get", "policyreports", "-n", TEAM, "-o", "json")
    items: list[JsonObject] = json.loads(told)["items"]
    return items[0] if items else None


def be_denied_and_report(world: World) -> None:
    """Events, once made and once counted up; a report made, changed and taken away."""
    plane = world.plane
    plane.apply(deployment("large", 5))
    plane.apply(REPLICAS, DATA_SOURCE)
    denied = deployment("larger", 9)

    def is_denied(query: str = "") -> bool:
        path = f"/apis/apps/v1/namespaces/{TEAM}/deployments{query}"
        return "few-replicas" in plane.request("POST", path, denied).text

    # Nothing is told of a dry run.
    wait_until(lambda: is_denied("?dryRun=All"), PATIENCE_S, "the policy to be in force")
    assert is_denied()
    assert is_denied()
    wait_until(lambda: report_of(plane), PATIENCE_S, "a report")
    before = report_of(plane)
    plane.kubectl_checked("scale", "deployment/large", "--replicas=4", "-n", TEAM)
    wait_until(lambda: report_of(plane) != before, PATIENCE_S, "it to follow")
    plane.kubectl_checked("scale", "deployment/large", "--replicas=1", "-n", TEAM)
    wait_until(lambda: report_of(plane) is None, PATIENCE_S, "it to go")
    is_denied()


def resize(world: World, directory: Path) -> None:
    """A pod under load is evicted, and its recommendation goes with the policy."""
    plane = world.plane
    kinds = [f"{kind.kind}.{NATIVE}" for kind in NATIVE_KINDS.values()]
    every = {"workloadTypes": ["StrimziPodSet", *kinds], "namespaceSelector": EVERYWHERE}
    plane.apply(make_cluster_policy(scope=every))
    # Not started: the chart's own is at work.
    unused = ReconcilerProcess(directory, plane.kubeconfig())
    place = Place(plane, world.prometheus, unused, GPU_TEAM)
    place.configure()
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 95}, memory={"main": 30})
    place.apply_policy()
    second = place.replaced(first)
    assert whole_gpus(second) == {"main": ("2", "2")}
    plane.kubectl_checked("delete", "gpureactivepolicies", "--all", "-n", GPU_TEAM)
    place.until(lambda: place.recommendation() is None, "the recommendation to go")


# --- the comparison ---

NATIVE = "workload.gatewright.io"
BUILT_IN = {"", "apps", "batch", NATIVE}

# Rights that are not used here, by group, resources and verbs, with the reason why they are needed.
# Used or not by who comes first.
RARELY = "the REST API reads again what somebody else has changed in between"
UNUSED: list[tuple[str, str, set[str], str]] = [
    (
        "policy.gatewright.io",
        "workloadpolicies gvkpolicies specmappings fieldgroups formatters",
        {"get"},
        RARELY,
    ),
    (
        "openreports.io",
        "reports clusterreports",
        {"list", "create", "update", "delete"},
        "the other API for reports, used where it is installed",
    ),
    (
        "wgpolicyk8s.io",
        "clusterpolicyreports",
        {"create", "update", "delete"},
        "about workloads in no namespace: a mapping of the user's own can be for such a kind",
    ),
    *[
        (group, plural, {"list", "watch"}, "a kind of another product, looked at where it is")
        for group, plural in mapped_kinds()
        if group not in BUILT_IN
    ],
    *[
        (group, plural, {"watch"}, "a kind of another product, which is asked for and not here")
        for group, plural in (
            ("scheduling.run.ai", "queues"),
            ("argoproj.io", "rollouts"),
            ("argoproj.io", "analysisruns"),
            ("kubeai.org", "models"),
            ("core.strimzi.io", "strimzipodsets"),
            ("autoscaling.k8s.io", "verticalpodautoscalers"),
        )
    ],
]


@pytest.fixture(scope="module")
def events(world: World, tmp_path_factory: pytest.TempPathFactory) -> list[JsonObject]:
    """All calls from when the account had its rights until before they were taken away."""
    plane = world.plane
    plane.apply(*POLICY_REPORT_CRDS)
    # Helm knows of no namespace to own what is in none: the server says so.
    Helm(plane, 4).install("gatewright", "--create-namespace", values=VALUES)
    rolled_out(plane)
    since = len(calls(plane))
    first = serving_certificate(plane).serial_number
    use_the_api(world)
    be_denied_and_report(world)
    resize(world, tmp_path_factory.mktemp("unused"))
    wait_until(lambda: serving_certificate(plane).serial_number != first, PATIENCE_S, "a rotation")
    # An Event that goes on is counted up after half a minute.
    wait_until(
        lambda: any(
            call.verb == "patch" and call.resource == "events" for call in used(calls(plane))
        ),
        PATIENCE_S,
        "an Event to be counted up",
    )
    found = calls(plane)
    # Before that, Kubernetes may not have known all rights yet.
    return [{**event, "early": number < since} for number, event in enumerate(found)]


def test_every_call_is_allowed(events: list[JsonObject]) -> None:
    refused = [
        (event["verb"], event["requestURI"], event["responseStatus"].get("reason"))
        for event in events
        if not event["early"] and event["annotations"]["authorization.k8s.io/decision"] != "allow"
    ]

    assert refused == []


def test_every_right_is_used_or_needed_for_a_reason(world: World, events: list[JsonObject]) -> None:
    made = used(events)
    unused = [
        right for right in granted(world.plane) if not any(covers(right, call) for call in made)
    ]
    reasonless = {
        f"{right.verb} {right.resource}.{right.group}"
        for right in unused
        if not any(
            right.group == group and right.resource in resource.split() and right.verb in verbs
            for group, resource, verbs, _ in UNUSED
        )
    }

    assert sorted(reasonless) == [], "\n".join(sorted(reasonless))


def test_every_reason_is_still_needed(world: World, events: list[JsonObject]) -> None:
    made = used(events)
    held = granted(world.plane)
    needless = [
        f"{verb} {resource}.{group}"
        for group, resources, verbs, reason in UNUSED
        for resource in resources.split()
        for verb in verbs
        if reason != RARELY
        and not any(
            (right.verb, right.group, right.resource) == (verb, group, resource)
            and not any(covers(right, call) for call in made)
            for right in held
        )
    ]

    assert needless == []
