"""What is registered: kinds with a mapping and a policy that are served, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POD,
    POLICY_API,
    PYTORCH_JOB,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_workload_policy,
)
from webhook.clients.discovery import ServedResource
from webhook.model.object_metadata import BOOKKEEPING
from webhook.registrations.conditions import ANY, CHANGES, HAS_GPUS
from webhook.registrations.wanted import (
    DOCUMENTS,
    PODS,
    PROBE,
    WORKLOADS,
    Configuration,
    Filling,
    Served,
    build_fillings,
    needed_versions,
)

MUTATING, VALIDATING = Configuration.MUTATING, Configuration.VALIDATING

REPLICA_SET = {"group": "apps", "version": "v1", "kind": "ReplicaSet"}
LEASE = {"group": "coordination.k8s.io", "version": "v1", "kind": "Lease"}
ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"}
ACME = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}

SERVED: Served = {
    "v1": {"Pod": ServedResource("pods", True, frozenset({"ephemeralcontainers", "resize"}))},
    "apps/v1": {
        "Deployment": ServedResource("deployments", True, frozenset({"scale", "status"})),
        "ReplicaSet": ServedResource("replicasets", True, frozenset({"status"})),
    },
    "kubeflow.org/v1": {"PyTorchJob": ServedResource("pytorchjobs", True, frozenset({"status"}))},
    "workload.gatewright.io/v1alpha1": {},
    "rightsizing.kubex.ai/v1alpha1": {},
}
REACTIVE: Served = {
    "rightsizing.kubex.ai/v1alpha1": {
        "GpuReactivePolicy": ServedResource("gpureactivepolicies", True)
    }
}


def policy(kind: JsonObject, name: str = "baseline", **more: Any) -> JsonObject:
    rule = make_rule("labels", "metadata", {"required": {"key": "team"}})
    return make_gvk_policy(rule, kind=kind, name=name, **more)


def mapping(kind: JsonObject, **more: Any) -> JsonObject:
    return {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {
            "workloadType": kind,
            "specSelectors": {"metadata": {"query": ".metadata", "fieldGroups": ["metadata"]}},
            **more,
        },
    }


def filling(
    configuration: Configuration, entry: str, *documents: JsonObject, served: Served = SERVED
) -> Filling:
    snapshot = make_snapshot(*documents)
    assert [problem for problem in snapshot.problems if not problem.warning] == []
    return build_fillings(snapshot, served)[configuration][entry]


def registered(found: Filling) -> Mapping[str, tuple[str, str]]:
    """By resource with its group version the operations and the scope; one rule for each."""
    rows: dict[str, tuple[str, str]] = {}
    for rule in found.rules:
        for resource in rule["resources"]:
            version = "/".join(filter(None, (*rule["apiGroups"], *rule["apiVersions"])))
            name = f"{version} {resource}"
            assert name not in rows
            rows[name] = (" ".join(rule["operations"]), rule["scope"])
    return rows


WRITES = ("CREATE UPDATE", "Namespaced")
UPDATES = ("UPDATE", "Namespaced")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("documents", "served", "mutating", "validating"),
    [
        pytest.param([], SERVED, {}, {}, id="no-policy"),
        pytest.param(
            [policy(DEPLOYMENT)],
            SERVED,
            {"apps/v1 deployments": WRITES},
            {"apps/v1 deployments": WRITES, "apps/v1 deployments/scale": UPDATES},
            id="one-that-can-be-scaled",
        ),
        pytest.param(
            [policy(DEPLOYMENT), policy(PYTORCH_JOB, "jobs")],
            SERVED,
            {"apps/v1 deployments": WRITES, "kubeflow.org/v1 pytorchjobs": WRITES},
            {
                "apps/v1 deployments": WRITES,
                "apps/v1 deployments/scale": UPDATES,
                "kubeflow.org/v1 pytorchjobs": WRITES,
            },
            id="two-groups-and-scale-only-where-it-is-served",
        ),
        pytest.param(
            [policy(REPLICA_SET)],
            SERVED,
            {"apps/v1 replicasets": WRITES},
            {"apps/v1 replicasets": WRITES},
            id="mapped-scale-that-is-not-served",
        ),
        pytest.param(
            [policy(PYTORCH_JOB)],
            {**SERVED, "kubeflow.org/v1": {}},
            {},
            {},
            id="not-served",
        ),
        pytest.param(
            [policy(PYTORCH_JOB)],
            {**SERVED, "kubeflow.org/v1": {"TFJob": ServedResource("tfjobs", True)}},
            {},
            {},
            id="another-kind-of-the-group-is-served",
        ),
        pytest.param(
            [policy(ACME), mapping(ACME)],
            {**SERVED, "acme.io/v1": {"AcmeJob": ServedResource("acmes", False)}},
            {"acme.io/v1 acmes": ("CREATE UPDATE", "Cluster")},
            {"acme.io/v1 acmes": ("CREATE UPDATE", "Cluster")},
            id="plural-and-scope-by-discovery",
        ),
        pytest.param(
            [policy(ACME), mapping(ACME, resource="acmeses")],
            SERVED,
            {"acme.io/v1 acmeses": ("CREATE UPDATE", "*")},
            {"acme.io/v1 acmeses": ("CREATE UPDATE", "*")},
            id="plural-by-the-mapping-where-nothing-is-known",
        ),
        pytest.param([mapping(ACME)], SERVED, {}, {}, id="a-mapping-alone"),
        pytest.param(
            [policy(LEASE), mapping(LEASE)],
            {**SERVED, "coordination.k8s.io/v1": {"Lease": ServedResource("leases", True)}},
            {},
            {},
            id="never-leases",
        ),
        pytest.param(
            [policy(ROLE), mapping(ROLE)],
            {
                **SERVED,
                "rbac.authorization.k8s.io/v1": {"ClusterRole": ServedResource("roles", False)},
            },
            {},
            {},
            id="never-what-the-control-plane-writes",
        ),
        pytest.param(
            [policy(ACME), mapping(ACME)],
            {**SERVED, "acme.io/v1": {"AcmeJob": ServedResource("*", True)}},
            {},
            {},
            id="never-a-plural-that-means-more",
        ),
        pytest.param([policy(POD)], SERVED, {}, {}, id="pods-have-an-entry-of-their-own"),
        pytest.param(
            [],
            {
                **SERVED,
                "workload.gatewright.io/v1alpha1": {
                    "Training": ServedResource("trainings", True, frozenset({"status"}))
                },
            },
            {"workload.gatewright.io/v1alpha1 trainings": WRITES},
            {"workload.gatewright.io/v1alpha1 trainings": WRITES},
            id="native-kinds-as-far-as-they-are-served",
        ),
    ],
)
def test_workloads_are_those_with_a_mapping_a_policy_and_an_api(
    documents: list[JsonObject],
    served: Served,
    mutating: Mapping[str, Any],
    validating: Mapping[str, Any],
) -> None:
    found = filling(MUTATING, WORKLOADS, *documents, served=served)
    assert registered(found) == mutating
    found = filling(VALIDATING, WORKLOADS, *documents, served=served)
    assert registered(found) == validating


@pytest.mark.parametrize("mode", ["Enforce", "Warn", "Audit"])
def test_a_policy_that_is_only_tried_is_asked_about_as_well(mode: str) -> None:
    tried = policy(DEPLOYMENT)
    tried["spec"]["mode"] = mode

    assert registered(filling(MUTATING, WORKLOADS, tried)) == {"apps/v1 deployments": WRITES}


def test_a_policy_of_one_project_is_asked_about_everywhere() -> None:
    """Which namespaces it is about, may change with their labels."""
    found = filling(MUTATING, WORKLOADS, policy(DEPLOYMENT, scope="project", unit="team-a"))

    assert registered(found) == {"apps/v1 deployments": WRITES}


def test_a_policy_of_several_native_kinds_registers_those_that_are_served() -> None:
    served = {
        **SERVED,
        "workload.gatewright.io/v1alpha1": {"Workspace": ServedResource("workspaces", True)},
    }
    native = make_workload_policy(
        rules={"imagePullPolicy": {"required": True}}, workload_type=["training", "workspace"]
    )

    found = filling(VALIDATING, WORKLOADS, native, served=served)

    assert registered(found) == {"workload.gatewright.io/v1alpha1 workspaces": WRITES}


@pytest.mark.parametrize(
    ("documents", "served", "mutating", "condition", "validating"),
    [
        pytest.param([], SERVED, {}, HAS_GPUS, {}, id="nothing"),
        pytest.param(
            [],
            {**SERVED, **REACTIVE},
            {"v1 pods": ("CREATE", "Namespaced")},
            HAS_GPUS,
            {},
            id="gpu-recommendations-can-exist",
        ),
        pytest.param(
            [policy(POD)],
            SERVED,
            {"v1 pods": ("CREATE", "Namespaced")},
            ANY,
            {"v1 pods": WRITES, "v1 pods/ephemeralcontainers": UPDATES, "v1 pods/resize": UPDATES},
            id="a-policy-of-pods",
        ),
        pytest.param(
            [policy(POD)],
            {**SERVED, "v1": {"Pod": ServedResource("pods", True)}},
            {"v1 pods": ("CREATE", "Namespaced")},
            ANY,
            {"v1 pods": WRITES},
            id="without-subresources",
        ),
        pytest.param(
            [policy(DEPLOYMENT)], SERVED, {}, HAS_GPUS, {}, id="a-policy-of-something-else"
        ),
    ],
)
def test_pods_are_all_where_a_policy_is_about_them_and_else_those_with_gpus(
    documents: list[JsonObject],
    served: Served,
    mutating: Mapping[str, Any],
    condition: str,
    validating: Mapping[str, Any],
) -> None:
    pods = filling(MUTATING, PODS, *documents, served=served)
    assert registered(pods) == mutating
    assert list(pods.conditions.values()) == [condition]
    assert registered(filling(VALIDATING, PODS, *documents, served=served)) == validating


def test_documents_and_the_probe_are_always_registered() -> None:
    documents = registered(filling(VALIDATING, DOCUMENTS))

    assert registered(filling(MUTATING, PROBE)) == {"v1 pods": ("CREATE", "Namespaced")}
    # What others refer to is not deleted unseen; all else can go while nobody answers. And what
    # the reconciler writes as it works (GpuRecommendations) is not there at all.
    own, gpu = "policy.gatewright.io/v1alpha1", "rightsizing.kubex.ai/v1alpha1"
    referable = ("CREATE UPDATE DELETE", "Cluster")
    assert documents == {
        f"{own} workloadpolicies": ("CREATE UPDATE", "Cluster"),
        f"{own} gvkpolicies": ("CREATE UPDATE", "Cluster"),
        f"{own} formatters": referable,
        f"{own} fieldgroups": referable,
        f"{own} specmappings": referable,
        f"{own} datasources": referable,
        f"{gpu} gpureactivepolicies": ("CREATE UPDATE", "*"),
        f"{gpu} clustergpureactivepolicies": ("CREATE UPDATE", "*"),
        f"{gpu} automationstrategies": ("CREATE UPDATE", "*"),
        f"{gpu} clusterautomationstrategies": ("CREATE UPDATE", "*"),
        f"{gpu} globalconfigurations": ("CREATE UPDATE", "*"),
        f"{gpu} policyevaluations": ("CREATE UPDATE", "*"),
    }


def test_documents_are_the_same_whatever_is_in_force() -> None:
    assert filling(VALIDATING, DOCUMENTS) == filling(VALIDATING, DOCUMENTS, policy(POD))


def test_equal_input_gives_equal_rules_whatever_its_order() -> None:
    documents = [policy(DEPLOYMENT), policy(PYTORCH_JOB, "jobs"), policy(POD, "pods")]

    assert build_fillings(make_snapshot(*documents), SERVED) == build_fillings(
        make_snapshot(*reversed(documents)), SERVED
    )


def test_what_was_not_confirmed_can_be_left_out() -> None:
    snapshot = make_snapshot(
        policy(ACME, "acme"), mapping(ACME), policy(DEPLOYMENT), policy(POD, "pods")
    )

    found = build_fillings(snapshot, SERVED, only_confirmed=True)

    assert registered(found[MUTATING][WORKLOADS]) == {"apps/v1 deployments": WRITES}
    assert registered(found[MUTATING][PODS]) == {"v1 pods": ("CREATE", "Namespaced")}


def test_only_what_is_needed_is_asked_of_discovery() -> None:
    needed = needed_versions(make_snapshot(policy(PYTORCH_JOB)))

    assert needed == {
        "kubeflow.org/v1",
        "rightsizing.kubex.ai/v1alpha1",
        "v1",
        "workload.gatewright.io/v1alpha1",
    }


def test_every_update_that_the_engine_would_look_at_is_sent() -> None:
    """The condition leaves nothing out but what the engine calls bookkeeping as well."""
    assert all(f"'{part}'" in CHANGES for part in BOOKKEEPING)
    assert filling(VALIDATING, WORKLOADS).conditions == filling(VALIDATING, PODS).conditions
    assert list(filling(MUTATING, WORKLOADS).conditions.values()) == [CHANGES]
