"""A cluster full of GPU workloads: its objects, as large as a real API server sends them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

from tests.gpu_documents import make_cluster_policy, make_cluster_strategy, make_settings

JsonObject = dict[str, Any]

PODS_OF_A_WORKLOAD = 5
PODS_OF_A_NAMESPACE = 250
WORKLOADS_OF_A_NAMESPACE = PODS_OF_A_NAMESPACE // PODS_OF_A_WORKLOAD
# A Deployment keeps those of earlier revisions.
_OLD_REPLICA_SETS = 2

STARTED = "2026-01-01T08:00:00Z"
PLURALS = {
    "Deployment": "/apis/apps/v1/deployments",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "Job": "/apis/batch/v1/jobs",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "ResourceQuota": "/api/v1/resourcequotas",
    "GlobalConfiguration": "/apis/rightsizing.kubex.ai/v1alpha1/globalconfigurations",
    "ClusterGpuReactivePolicy": "/apis/rightsizing.kubex.ai/v1alpha1/clustergpureactivepolicies",
    "ClusterAutomationStrategy": "/apis/rightsizing.kubex.ai/v1alpha1/clusterautomationstrategies",
}


def build_documents(prometheus_url: str) -> Iterator[JsonObject]:
    """One policy for workloads with shares of a GPU, one for those with whole ones; all act."""
    yield make_settings(
        prometheus={"url": prometheus_url, "requestTimeout": "10s"},
        # A round comes when something is changed, and not by itself.
        gpuReactiveCheckInterval="1h",
        webhookHealth={"transitionCheckInterval": "1s"},
    )
    for gpus, scheduler in (("shares", "kai"), ("whole", "none")):
        scope = {
            "namespaceSelector": {"operator": "In", "values": ["*"]},
            "labelSelector": {"matchLabels": {"gpus": gpus}},
        }
        yield make_cluster_policy(gpus, scope=scope, automationStrategyRef={"name": gpus})
        yield make_cluster_strategy(
            gpus,
            enablement={
                "overrideScheduler": scheduler,
                "gpu": {"requests": {"upsize": True, "downsize": True}},
            },
        )


def build_namespaces(pods: int) -> Iterator[JsonObject]:
    """With a quota each."""
    for number in range(-(-pods // PODS_OF_A_NAMESPACE)):
        name = _namespace(number)
        labels = {"kubernetes.io/metadata.name": name, "runai/queue": name}
        yield _object("v1", "Namespace", name, labels=labels)
        hard = {"limits.nvidia.com/gpu": "2000", "requests.nvidia.com/gpu": "2000"}
        used = {"limits.nvidia.com/gpu": "300", "requests.nvidia.com/gpu": "300"}
        yield {
            **_object("v1", "ResourceQuota", "gpus", namespace=name),
            "spec": {"hard": hard},
            "status": {"hard": hard, "used": used},
        }


def build_workloads(pods: int) -> Iterator[JsonObject]:
    """So many *pods*, and all that they belong to."""
    for number in range(pods // PODS_OF_A_WORKLOAD):
        yield from _workload(number)


def _workload(number: int) -> Iterator[JsonObject]:
    name = f"inference-server-{number:05}"
    namespace = _namespace(number // WORKLOADS_OF_A_NAMESPACE)
    kind = ("Deployment",) * 8 + ("StatefulSet", "Job")
    kind_name = kind[number % len(kind)]
    has_shares = number % 2 == 0
    labels = {"gpus": "shares" if has_shares else "whole", **_labels(name)}
    api_version = "batch/v1" if kind_name == "Job" else "apps/v1"
    template = _template(name, has_shares, containers=2 if number % 4 == 1 else 1)
    workload = _object(api_version, kind_name, name, namespace=namespace, labels=labels)
    workload["spec"] = {
        "replicas": PODS_OF_A_WORKLOAD,
        "selector": {"matchLabels": {"app.kubernetes.io/instance": name}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "template": template,
    }
    workload["status"] = {"replicas": PODS_OF_A_WORKLOAD, "conditions": _conditions("Available")}
    yield workload
    owner = workload
    if kind_name == "Deployment":
        for revision in range(1 + _OLD_REPLICA_SETS):
            owner = _object(
                *("apps/v1", "ReplicaSet", f"{name}-{revision:010x}"),
                namespace=namespace,
                labels={**_labels(name), "pod-template-hash": f"{revision:010x}"},
                owner=workload,
            )
            owner["spec"] = {"replicas": 0, "template": template}
            yield owner
    for index in range(PODS_OF_A_WORKLOAD):
        suffix = str(index) if kind_name == "StatefulSet" else f"{index:05x}"
        yield _pod(f"{owner['metadata']['name']}-{suffix}", namespace, owner, template)


def _pod(name: str, namespace: str, owner: JsonObject, template: JsonObject) -> JsonObject:
    pod = _object(
        *("v1", "Pod", name),
        namespace=namespace,
        labels=template["metadata"]["labels"],
        annotations=template["metadata"].get("annotations"),
        owner=owner,
    )
    spec = template["spec"]
    pod["spec"] = {**spec, "nodeName": f"gpu-node-{crc32(name.encode()) % 200:03}"}
    pod["status"] = {
        "phase": "Running",
        "startTime": STARTED,
        "hostIP": "10.0.0.1",
        "podIP": "10.1.2.3",
        "podIPs": [{"ip": "10.1.2.3"}],
        "qosClass": "Burstable",
        "conditions": _conditions(
            *("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"),
            "PodScheduled",
        ),
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": f"registry.example.com/ml/server@sha256:{'0123456789abcdef' * 4}",
                "containerID": f"containerd://{'fedcba9876543210' * 4}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "lastState": {},
                "state": {"running": {"startedAt": STARTED}},
            }
            for container in spec["containers"]
        ],
    }
    return pod


def _template(name: str, has_shares: bool, *, containers: int) -> JsonObject:
    """*containers* have GPUs; a proxy beside them has none."""
    metadata: JsonObject = {"labels": _labels(name)}
    if has_shares:
        metadata["annotations"] = {"gpu-fraction": "0.5"}
        metadata["labels"]["kai.scheduler/queue"] = "team"
        containers = 1
    gpus = {} if has_shares else {"nvidia.com/gpu": "1"}
    return {
        "metadata": metadata,
        "spec": {
            "containers": [
                *[_container(f"server-{index}", **gpus) for index in range(containers)],
                _container("proxy"),
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "kai-scheduler" if has_shares else "default-scheduler",
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
            "serviceAccountName": "inference",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            ],
            "volumes": [
                {"name": f"volume-{index}", "configMap": {"name": f"{name}-{index}"}}
                for index in range(4)
            ],
        },
    }


def _container(name: str, **gpus: str) -> JsonObject:
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    return {
        "name": name,
        "image": "registry.example.com/ml/server:2026.01.1",
        "imagePullPolicy": "IfNotPresent",
        "args": [f"--option-{index}=value" for index in range(10)],
        "env": [{"name": f"VARIABLE_{index}", "value": f"value {index}"} for index in range(15)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "limits": {"cpu": "8", "memory": "64Gi", **gpus},
            "requests": {"cpu": "4", "memory": "32Gi", **gpus},
        },
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": f"volume-{index}", "mountPath": f"/etc/volume-{index}", "readOnly": True}
            for index in range(4)
        ],
    }


def _object(
    api_version: str,
    kind: str,
    name: str,
    *,
    namespace: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: JsonObject | None = None,
) -> JsonObject:
    metadata: JsonObject = {
        "name": name,
        "uid": f"uid-{kind}-{namespace}-{name}".lower(),
        "creationTimestamp": STARTED,
        "generation": 1,
        "managedFields": _MANAGED_FIELDS,
    }
    for key, value in (
        ("namespace", namespace),
        ("labels", labels),
        ("annotations", annotations),
    ):
        if value:
            metadata[key] = value
    if owner is not None:
        reference = {key: owner["metadata"][key] for key in ("name", "uid")}
        reference |= {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        metadata["ownerReferences"] = [
            {**reference, "controller": True, "blockOwnerDeletion": True}
        ]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _labels(name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "inference-server",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/managed-by": "Helm",
        "team": "vision",
    }


def _namespace(number: int) -> str:
    return f"team-{number:03}"


def _conditions(*types: str) -> list[JsonObject]:
    return [
        {"type": each, "status": "True", "lastTransitionTime": STARTED, "lastProbeTime": None}
        for each in types
    ]


# A third of what a real API server sends: which client wrote which field. Nobody here reads it.
_MANAGED_FIELDS: list[JsonObject] = [
    {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": STARTED,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            part: {f"f:field{index:02}": {".": {}, "f:value": {}} for index in range(20)}
            for part in ("f:metadata", "f:spec", "f:status")
        },
    }
    for manager in ("kube-controller-manager", "kubelet")
]
