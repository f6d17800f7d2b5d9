"""Valid by default: a test names only what it is about."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonpatch
import orjson

from webhook.admission.review import review
from webhook.model.decision import Decision, Violation
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import Manifest
from webhook.model.pointer import to_pointer
from webhook.model.request import AdmissionRequest, Operation, Phase
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.snapshot import Snapshot

JsonObject = dict[str, Any]

POLICY_API = "policy.gatewright.io/v1alpha1"
POD = {"version": "v1", "kind": "Pod"}
DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
JOB = {"group": "batch", "version": "v1", "kind": "Job"}
PYTORCH_JOB = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}

# What Kubernetes itself adds to every Pod before it asks a webhook.
TOKEN_VOLUME: JsonObject = {
    "name": "kube-api-access-x7k2p",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    },
}
TOKEN_MOUNT: JsonObject = {
    "name": "kube-api-access-x7k2p",
    "readOnly": True,
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
}
NOT_READY: JsonObject = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}


def make_rule(field_name: str, selector: str, *enforcements: JsonObject, **more: Any) -> JsonObject:
    return {
        "field": field_name,
        "specSelector": selector,
        "enforcements": list(enforcements),
        **more,
    }


def make_gvk_policy(
    *rules: JsonObject,
    kind: JsonObject = POD,
    name: str = "baseline",
    scope: str = "tenant",
    unit: str = "",
) -> JsonObject:
    spec: JsonObject = {"workloadType": dict(kind), "scope": scope, "rules": list(rules)}
    if unit:
        spec[scope] = unit
    return {
        "apiVersion": POLICY_API,
        "kind": "GVKPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def make_workload_policy(
    *,
    defaults: JsonObject | None = None,
    rules: JsonObject | None = None,
    workload_type: Any = "training",
    name: str = "guardrails",
    scope: str = "tenant",
    unit: str = "",
    **more: Any,
) -> JsonObject:
    spec: JsonObject = {
        "workloadType": workload_type,
        "scope": scope,
        "defaults": defaults,
        "rules": rules,
        **more,
    }
    if unit:
        spec[scope] = unit
    return {
        "apiVersion": POLICY_API,
        "kind": "WorkloadPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def make_snapshot(
    *documents: Any, settings: EngineSettings | None = None, previous: Snapshot | None = None
) -> Snapshot:
    """What *documents* compile to, problems and all."""
    manifests = tuple(
        [Manifest("test.yaml", index, 1, value) for index, value in enumerate(documents)]
    )
    files = [SourceFile("test.yaml", manifests)]
    return build_snapshot(files, settings or EngineSettings(), previous=previous)


def make_pod(**spec: Any) -> JsonObject:
    """A pod as its author types it; `make_stored_pod` is what an API server sends."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"containers": [make_container()], **spec},
    }


def make_container(name: str = "main", **more: Any) -> JsonObject:
    return {"name": name, "image": "ghcr.io/example/train:1", **more}


def make_pytorch_job(*, workers: int = 2, container: JsonObject | None = None) -> JsonObject:
    def role(replicas: int) -> JsonObject:
        template = {"spec": {"containers": [copy.deepcopy(container or make_container("pytorch"))]}}
        return {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}

    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "resnet", "namespace": "team-a"},
        "spec": {"pytorchReplicaSpecs": {"Master": role(1), "Worker": role(workers)}},
    }


def make_training(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "workload.gatewright.io/v1alpha1",
        "kind": "Training",
        "metadata": {"name": "bert", "namespace": "team-a"},
        "spec": spec,
    }


def as_stored(pod: JsonObject) -> JsonObject:
    """*pod* as a real API server sends it to a webhook: with its own defaults in place."""
    stored = copy.deepcopy(pod)
    stored["metadata"]["creationTimestamp"] = None
    spec = stored["spec"]
    spec |= {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    } | spec
    for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", "IfNotPresent")
    stored["status"] = {}
    return stored


def make_request(
    document: JsonObject | None,
    *,
    old: JsonObject | None = None,
    operation: Operation | None = None,
    user: str = "alice",
    **more: Any,
) -> AdmissionRequest:
    if operation is None:
        operation = Operation.CREATE if old is None else Operation.UPDATE
    shown = document or old or {}
    return AdmissionRequest(
        uid="3b1f5b0e-7d6b-4d0f-8a34-6a8b7c4c2d11",
        kind=more.pop("kind", GroupVersionKind.of(shown)),
        operation=operation,
        object=document,
        old_object=old,
        namespace=more.pop("namespace", "team-a"),
        user=user,
        **more,
    )


@dataclass(frozen=True)
class Answer:
    """What became of one submission that went through both doors."""

    decision: Decision
    document: JsonObject
    patch: list[JsonObject] = field(default_factory=list)

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    @property
    def broken(self) -> list[tuple[str, str]]:
        """Pointer and rule of each violation."""
        return [(to_pointer(item.path), item.rule) for item in self.decision.violations]

    @property
    def violation(self) -> Violation:
        """The only one."""
        (violation,) = self.decision.violations
        return violation

    def at(self, pointer: str) -> Any:
        """The value at *pointer* after mutation."""
        return jsonpatch.JsonPointer(pointer).resolve(self.document)

    @property
    def paths(self) -> list[str]:
        """Where the patch writes."""
        return [operation["path"] for operation in self.patch]


def submit(
    snapshot: Snapshot,
    document: JsonObject,
    *,
    old: JsonObject | None = None,
    decide: Callable[[AdmissionRequest, Phase, Snapshot], Decision] = review,
    **more: Any,
) -> Answer:
    """
    Send *document* through both doors as an API server would.

    The patch is applied by a strict library to what was sent. That must give the object that
    the engine judged, and mutating it again must change nothing.
    """
    sent = copy.deepcopy(document)
    request = make_request(copy.deepcopy(document), old=copy.deepcopy(old), **more)
    decision = decide(request, Phase.MUTATE, snapshot)
    # As it goes over the wire: operations share parts of the edited object.
    patch = orjson.loads(orjson.dumps(decision.patch))
    if not decision.allowed:
        assert patch == []
        return Answer(decision, sent)
    patched = jsonpatch.apply_patch(sent, patch)
    assert patched == request.object
    again = make_request(copy.deepcopy(patched), old=copy.deepcopy(old), **more)
    assert decide(again, Phase.MUTATE, snapshot).patch == []
    final = make_request(copy.deepcopy(patched), old=copy.deepcopy(old), **more)
    judged = decide(final, Phase.VALIDATE, snapshot)
    assert judged.patch == []
    verdict = decision if judged.allowed else judged
    return Answer(verdict, patched, patch)
