"""Which workloads a policy concerns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_rounds import make_policy
from webhook.model.rightsizing.policies import (
    GlobalSettings,
    LabelRequirement,
    ReactivePolicy,
    WorkloadScope,
)
from webhook.reactive.decisions.scopes import ScopedWorkload, concerns, objection

PROTECTED = GlobalSettings().protected_namespaces


def make_workload(namespace: str = "default", kind: str = "Deployment", **labels: str) -> Any:
    return ScopedWorkload(namespace, kind, "llm", labels)


def own(**scope: Any) -> ReactivePolicy:
    return make_policy(scope=WorkloadScope(**scope))


def wide(*namespaces: str, excluded: bool = False) -> ReactivePolicy:
    scope = WorkloadScope(namespaces=namespaces, namespaces_excluded=excluded)
    return make_policy(kind="ClusterGpuReactivePolicy", scope=scope)


@pytest.mark.parametrize(
    ("namespace", "want"), [("default", True), ("default-2", False), ("other", False)]
)
def test_a_namespaced_policy_concerns_its_own_namespace(namespace: str, want: bool) -> None:
    assert concerns(own(), make_workload(namespace), PROTECTED) is want


@pytest.mark.parametrize(
    ("globs", "excluded", "namespace", "want"),
    [
        (["*"], False, "team-a", True),
        (["team-*"], False, "team-a", True),
        (["team-*"], False, "my-team-a", False),
        (["team-a", "lab"], False, "lab", True),
        (["*-a"], False, "team-b", False),
        (["team-?"], False, "team-a", False),
        (["team-*"], True, "team-a", False),
        (["team-*"], True, "lab", True),
        (["*"], True, "lab", False),
    ],
)
def test_a_cluster_policy_concerns_the_namespaces_that_its_globs_say(
    globs: list[str], excluded: bool, namespace: str, want: bool
) -> None:
    assert concerns(wide(*globs, excluded=excluded), make_workload(namespace), ()) is want


@pytest.mark.parametrize("namespace", ["kube-system", "openshift-monitoring", "gmp-public"])
def test_nobody_concerns_a_protected_namespace(namespace: str) -> None:
    workload = make_workload(namespace)

    assert concerns(wide("*"), workload, ())
    assert not concerns(wide("*"), workload, PROTECTED)
    assert objection(wide("*"), workload, PROTECTED).startswith(f"namespace {namespace} is prot")


@pytest.mark.parametrize(
    ("kind", "want"), [("StatefulSet", True), ("StrimziPodSet", False), ("Pod", False)]
)
def test_by_default_a_policy_concerns_the_usual_kinds(kind: str, want: bool) -> None:
    assert concerns(own(), make_workload(kind=kind), PROTECTED) is want


def test_a_policy_may_name_other_kinds() -> None:
    policy = own(workload_types=("StrimziPodSet",))

    assert concerns(policy, make_workload(kind="StrimziPodSet"), PROTECTED)
    assert not concerns(policy, make_workload(), PROTECTED)


@pytest.mark.parametrize(
    ("requirement", "labels", "want"),
    [
        (LabelRequirement("app", "In", ("llm", "chat")), {"app": "chat"}, True),
        (LabelRequirement("app", "In", ("llm",)), {"app": "chat"}, False),
        (LabelRequirement("app", "In", ("llm",)), {}, False),
        (LabelRequirement("app", "NotIn", ("llm",)), {"app": "chat"}, True),
        (LabelRequirement("app", "NotIn", ("llm",)), {"app": "llm"}, False),
        (LabelRequirement("app", "NotIn", ("llm",)), {}, True),
        (LabelRequirement("app", "Exists"), {"app": ""}, True),
        (LabelRequirement("app", "Exists"), {"tier": "app"}, False),
        (LabelRequirement("app", "DoesNotExist"), {"tier": "app"}, True),
        (LabelRequirement("app", "DoesNotExist"), {"app": ""}, False),
        (LabelRequirement("app", "Gt", ("1",)), {"app": "2"}, False),
    ],
)
def test_labels_are_matched_as_kubernetes_does(
    requirement: LabelRequirement, labels: dict[str, str], want: bool
) -> None:
    assert concerns(own(labels=(requirement,)), make_workload(**labels), PROTECTED) is want


def test_all_requirements_must_be_met() -> None:
    both = (LabelRequirement("app", "Exists"), LabelRequirement("tier", "In", ("gpu",)))

    assert concerns(own(labels=both), make_workload(app="llm", tier="gpu"), PROTECTED)
    assert not concerns(own(labels=both), make_workload(app="llm"), PROTECTED)


@pytest.mark.parametrize(
    ("policy", "workload", "want"),
    [
        (own(), make_workload("other"), "GpuReactivePolicy default/gpu is of another namespace"),
        (
            wide("team-*"),
            make_workload("lab"),
            "ClusterGpuReactivePolicy gpu does not concern namespace lab",
        ),
        (
            own(),
            make_workload(kind="Pod"),
            "GpuReactivePolicy default/gpu does not concern kind Pod",
        ),
        (
            own(labels=(LabelRequirement("app", "In", ("llm", "chat")),)),
            make_workload(),
            "GpuReactivePolicy default/gpu wants label app In llm, chat",
        ),
        (own(), make_workload(), ""),
    ],
)
def test_it_is_said_why_a_policy_does_not_concern_a_workload(
    policy: ReactivePolicy, workload: ScopedWorkload, want: str
) -> None:
    assert objection(policy, workload, PROTECTED) == want
