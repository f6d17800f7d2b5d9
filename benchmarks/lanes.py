"""The lanes of `benchmarks.api_server`: what is asked in each namespace, and who creates there."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks import work
from benchmarks.link import JSON, Answer, Link
from benchmarks.server import Server
from benchmarks.work import Document
from tests.builders import make_snapshot
from tests.controlplane import ControlPlane
from webhook.registrations.wanted import PODS, WORKLOADS, Configuration, Filling, build_fillings

POLICIES = Path(__file__).with_name("cel_policies.yaml")
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods?dryRun=All",
    "PyTorchJob": "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs?dryRun=All",
}


@dataclass(frozen=True, slots=True)
class Lane:
    """A namespace of that name. *refusals*: what an answer that refuses says, one of these."""

    name: str
    refusals: tuple[bytes, ...] = ()
    judges_last: bool = False

    @property
    def has_policies(self) -> bool:
        return bool(self.refusals)

    def refuses(self, answer: Answer) -> bool:
        return answer.status >= 400 and any(said in answer.body for said in self.refusals)


PLAIN = Lane("plain")
FLOOR = Lane("floor")
GATE = Lane("gate", (b".gatewright.io",), judges_last=True)
MUTATE = Lane("mutate", (b".gatewright.io",))
# The second: that a privileged container of a Pod may not escalate its privileges, as is set, the
# API server refuses by itself before it asks what judges.
CEL = Lane(
    "cel",
    (b"ValidatingAdmissionPolicy", b"cannot set `allowPrivilegeEscalation` to false"),
    judges_last=True,
)
LANES = (PLAIN, FLOOR, GATE, MUTATE, CEL)


class Caller:
    """Creates in one namespace, over one connection."""

    def __init__(self, plane: ControlPlane, lane: Lane) -> None:
        port = int(plane.server_url.rpartition(":")[2])
        self.lane = lane
        self._link = Link(port, plane.ca_pem)
        self._headers = {"Authorization": f"Bearer {plane.token('admin')}", **JSON}

    def create(self, workload: Document) -> Answer:
        return self.send(workload["kind"], self.body(workload))

    def body(self, workload: Document) -> bytes:
        metadata = {**workload["metadata"], "namespace": self.lane.name}
        return json.dumps({**workload, "metadata": metadata}).encode()

    def send(self, kind: str, body: bytes) -> Answer:
        return self._link.post(PATHS[kind].format(self.lane.name), body, self._headers)

    def close(self) -> None:
        self._link.close()


Callers = Mapping[Lane, Caller]


def build_namespaces() -> list[Document]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": lane.name, "labels": {"lane": lane.name}},
        }
        for lane in LANES
    ]


def load_cel_policies() -> list[Document]:
    found: list[Document] = yaml.safe_load(POLICIES.read_text())["items"]
    return found


def build_registrations(
    name: str, server: Server, path: str, mutated: Sequence[Lane], judged: Sequence[Lane]
) -> list[Document]:
    """
    Both registrations, of the chart's entries and with what the leader fills in.

    *path* is what stands before `/mutate` and `/validate`.
    """
    fillings = build_fillings(make_snapshot(*work.policies()), served={})
    mutating, validating = fillings[Configuration.MUTATING], fillings[Configuration.VALIDATING]
    return [
        _registration(
            "MutatingWebhookConfiguration",
            name,
            [
                _entry(server, entry, mutating[entry], f"{path}/mutate", mutated)
                | {"failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded"}
                for entry in (WORKLOADS, PODS)
            ],
        ),
        _registration(
            "ValidatingWebhookConfiguration",
            name,
            [
                _entry(server, entry, validating[entry], f"{path}/validate", judged)
                | {"failurePolicy": "Fail"}
                for entry in (WORKLOADS, PODS)
            ],
        ),
    ]


def _registration(kind: str, name: str, entries: list[Document]) -> Document:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": entries,
    }


def _entry(
    server: Server, name: str, filling: Filling, path: str, lanes: Sequence[Lane]
) -> Document:
    bundle = base64.b64encode(server.ca.read_bytes()).decode()
    names = [lane.name for lane in lanes]
    conditions = filling.conditions.items()
    return {
        "name": name,
        "clientConfig": {"url": f"https://127.0.0.1:{server.port}{path}", "caBundle": bundle},
        "namespaceSelector": {
            "matchExpressions": [{"key": "lane", "operator": "In", "values": names}]
        },
        "rules": [dict(rule) for rule in filling.rules],
        "matchConditions": [{"name": key, "expression": cel} for key, cel in conditions],
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }
