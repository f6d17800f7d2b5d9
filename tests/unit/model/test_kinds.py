"""Of what is Kubernetes' own only workloads are registered: a cluster starts without us."""

from __future__ import annotations

import pytest

from tests.builders import POLICY_API, JsonObject, make_snapshot
from webhook.catalog import builtin_documents
from webhook.errors import SpecError
from webhook.model.documents import parse_document
from webhook.model.kinds import GroupVersionKind, why_never_registered


@pytest.mark.parametrize(
    "kind",
    [
        *("v1/Pod", "v1/PodTemplate", "v1/ReplicationController"),
        *("apps/v1/Deployment", "apps/v1/ReplicaSet", "apps/v1/StatefulSet", "apps/v1/DaemonSet"),
        *("batch/v1/Job", "batch/v1/CronJob"),
        *("jobset.x-k8s.io/v1alpha2/JobSet", "sparkoperator.k8s.io/v1beta2/SparkApplication"),
        *("acme.io/v1/AcmeJob", "workload.gatewright.io/v1alpha1/Training"),
        *("notk8s.io/v1/Job", "serving.knative.dev/v1/Service"),
    ],
)
def test_workloads_are_registered_and_kinds_of_others(kind: str) -> None:
    assert why_never_registered(GroupVersionKind.parse(kind)) == ""


@pytest.mark.parametrize(
    "kind",
    [
        *("v1/Binding", "v1/ConfigMap", "v1/Endpoints", "v1/Event", "v1/LimitRange"),
        *("v1/Namespace", "v1/Node", "v1/PersistentVolume", "v1/PersistentVolumeClaim"),
        *("v1/ResourceQuota", "v1/Secret", "v1/Service", "v1/ServiceAccount"),
        "apps/v1/ControllerRevision",
        "autoscaling/v2/HorizontalPodAutoscaler",
        "policy/v1/PodDisruptionBudget",
        "extensions/v1beta1/Ingress",
        "rbac.authorization.k8s.io/v1/ClusterRole",
        "rbac.authorization.k8s.io/v1/RoleBinding",
        "flowcontrol.apiserver.k8s.io/v1/FlowSchema",
        "internal.apiserver.k8s.io/v1alpha1/StorageVersion",
        "scheduling.k8s.io/v1/PriorityClass",
        "certificates.k8s.io/v1/CertificateSigningRequest",
        "storage.k8s.io/v1/CSINode",
        "resource.k8s.io/v1/ResourceClaim",
        "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
        "apiregistration.k8s.io/v1/APIService",
        "authentication.k8s.io/v1/TokenReview",
        "authorization.k8s.io/v1/SubjectAccessReview",
        "coordination.k8s.io/v1/Lease",
        "discovery.k8s.io/v1/EndpointSlice",
        "events.k8s.io/v1/Event",
        "networking.k8s.io/v1/Ingress",
        "node.k8s.io/v1/RuntimeClass",
        "metrics.k8s.io/v1beta1/PodMetrics",
        "snapshot.storage.k8s.io/v1/VolumeSnapshot",
        # What comes next, too.
        *("newapi.k8s.io/v1/Anything", "k8s.io/v1/Anything", "newgroup/v1/Anything"),
        "policy.gatewright.io/v1alpha1/GVKPolicy",
    ],
)
def test_what_the_control_plane_writes_is_not(kind: str) -> None:
    assert why_never_registered(GroupVersionKind.parse(kind)) != ""


def test_all_kinds_with_a_mapping_of_ours_are_registered() -> None:
    kinds = [
        document.spec.workload_type
        for document in builtin_documents()
        if document.kind == "SpecMapping"
    ]

    assert [kind for kind in kinds if why_never_registered(kind)] == []


def mapping(group: str, version: str, kind: str, **more: str) -> JsonObject:
    selector = {"query": ".metadata", "fieldGroups": ["metadata"]}
    return {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": "mapping"},
        "spec": {
            "workloadType": {"group": group, "version": version, "kind": kind},
            "specSelectors": {"metadata": selector},
            **more,
        },
    }


def test_the_author_of_a_mapping_of_such_a_kind_is_told() -> None:
    snapshot = make_snapshot(mapping("rbac.authorization.k8s.io", "v1", "ClusterRole"))

    (told,) = snapshot.problems
    assert told.warning
    assert told.path == "spec.workloadType"
    assert told.problem.startswith(
        "rbac.authorization.k8s.io/v1/ClusterRole is never registered with the API server, because"
    )


@pytest.mark.parametrize(
    ("document", "path"),
    [
        *[
            pytest.param(mapping("acme.io", "v1", "AcmeJob", resource=text), "resource", id=text)
            for text in ("*", "*/*", "pods/binding", "Jobs", "a b", "a" * 64, "-a", "jobs\n")
        ],
        *[
            pytest.param(mapping(*names), "workloadType", id="/".join(names))
            for names in (
                ("*", "v1", "AcmeJob"),
                ("Acme.io", "v1", "AcmeJob"),
                ("acme..io", "v1", "AcmeJob"),
                ("acme.io", "*", "AcmeJob"),
                ("acme.io", "v1", "*"),
                ("acme.io", "v1", "Acme/status"),
            )
        ],
    ],
)
def test_names_that_stand_for_more_than_one_kind_are_refused(
    document: JsonObject, path: str
) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        parse_document(document, "mapping.yaml")

    (error,) = caught.value.exceptions
    assert isinstance(error, SpecError)
    assert error.path == f"spec.{path}"
