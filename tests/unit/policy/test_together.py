"""Policies that no workload could satisfy, though each of their rules by itself could be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POD,
    PYTORCH_JOB,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_workload_policy,
)

TRAINING = {"group": "workload.gatewright.io", "version": "v1alpha1", "kind": "Training"}


def errors_of(*documents: Any) -> list[str]:
    problems = make_snapshot(*documents).problems
    return [f"{item.document} {item.path}: {item.problem}" for item in problems if not item.warning]


def warnings_of(*documents: Any) -> list[str]:
    return [item.problem for item in make_snapshot(*documents).problems if item.warning]


def compute(**fields: Any) -> JsonObject:
    return {"compute": fields}


def tenant(workload_type: Any = "training", **parts: Any) -> JsonObject:
    return make_workload_policy(workload_type=workload_type, name="broad", **parts)


def project(workload_type: Any = "training", **parts: Any) -> JsonObject:
    return make_workload_policy(
        workload_type=workload_type, name="narrow", scope="project", unit="team-a", **parts
    )


# -- conditions between the values that policies give -----------------------------------------------

PORTION = {"gpuRequestType": "portion", "gpuPortionRequest": 0.5}


@pytest.mark.parametrize(
    ("kind", "wide", "narrow", "wanted"),
    [
        pytest.param(
            "training",
            {"defaults": compute(**PORTION)},
            {"defaults": compute(gpuDevicesRequest=2)},
            "compute.gpuRequestType: default portion: only with one GPU device, and"
            " compute.gpuDevicesRequest is 2",
            id="a-portion-of-two-devices",
        ),
        pytest.param(
            "training",
            {"defaults": compute(cpuCoreLimit=2)},
            {"defaults": compute(cpuCoreRequest=4)},
            "compute.cpuCoreRequest: default 4 is above default 2 of compute.cpuCoreLimit",
            id="a-request-above-its-limit",
        ),
        pytest.param(
            "training",
            {"defaults": {"stdin": False}},
            {"defaults": {"tty": True}},
            "tty: default true contradicts default false of stdin",
            id="a-terminal-without-input",
        ),
        pytest.param(
            "training",
            {"rules": {"stdin": {"blocked": True}}},
            {"defaults": {"tty": True}},
            "tty: default true: needs stdin",
            id="what-it-needs-is-blocked",
        ),
        pytest.param(
            "training",
            {"rules": {"stdin": {"canEdit": False}}},
            {"defaults": {"tty": True}},
            "tty: default true: needs stdin",
            id="what-it-needs-can-be-given-by-nobody",
        ),
        pytest.param(
            "inference",
            {"defaults": {"servingPort": {"authorizedUsers": ["a"]}}},
            {"defaults": {"servingPort": {"authorizedGroups": ["g"]}}},
            "given beside servingPort.authorizedUsers",
            id="users-and-groups",
        ),
        pytest.param(
            "inference",
            {"defaults": {"autoscaling": {"metric": "latency", "metricThreshold": 5}}},
            {"defaults": {"autoscaling": {"minReplicas": 0}}},
            "cannot scale to zero",
            id="a-metric-that-cannot-scale-to-zero",
        ),
    ],
)
def test_values_that_break_a_condition_among_themselves_are_refused(
    kind: str, wide: JsonObject, narrow: JsonObject, wanted: str
) -> None:
    """Whichever document is written last is told, with the path of its own part."""
    (problem,) = errors_of(tenant(kind, **wide), project(kind, **narrow))

    assert problem.startswith("test.yaml#1 spec.")
    assert wanted in problem
    assert "; policy broad, tenant, against policy narrow, project team-a" in problem
    assert errors_of(tenant(kind, **wide)) == errors_of(project(kind, **narrow)) == []


@pytest.mark.parametrize(
    ("kind", "defaults", "wanted"),
    [
        ("training", {"tty": True}, "tty: default true: needs stdin"),
        (
            "training",
            compute(gpuRequestType="portion"),
            "compute.gpuRequestType: default portion: compute.gpuPortionRequest: needed with",
        ),
        (
            "inference",
            {"autoscaling": {"minReplicas": 1, "maxReplicas": 3}},
            "autoscaling.metric: needed to scale between 1 and 3 replicas",
        ),
        (
            "inference",
            {"servingPort": {"authorizationType": "authorizedUsersOrGroups"}},
            "servingPort.authorizedUsers: needed with",
        ),
        ("nimService", {"modelStore": {"pvc": {"claimName": "m"}}}, "a new claim needs a size"),
    ],
)
def test_a_default_that_waits_for_a_value_of_the_submitter_is_advised_about(
    kind: str, defaults: JsonObject, wanted: str
) -> None:
    policy = tenant(kind, defaults=defaults)

    assert errors_of(policy) == []
    (warning,) = warnings_of(policy)
    assert warning.startswith("acts only where the submitter gives what it needs: ")
    assert wanted in warning


def test_values_that_go_together_need_nobody() -> None:
    policies = [
        tenant(defaults={**compute(**PORTION, gpuDevicesRequest=1), "tty": True, "stdin": True}),
        project(defaults=compute(cpuCoreRequest=1, cpuCoreLimit=2)),
    ]

    assert make_snapshot(*policies).problems == ()


# -- bounds that cross ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_rules", "limit_rules", "refused"),
    [
        ({"min": 4, "required": True}, {"max": 2, "required": True}, True),
        ({"min": 4}, {"max": 2, "required": True}, False),
        ({"min": 4, "required": True}, {"max": 2}, False),
        ({"min": 2, "required": True}, {"max": 2, "required": True}, False),
    ],
)
def test_two_required_fields_whose_bounds_cross_are_refused(
    request_rules: JsonObject, limit_rules: JsonObject, refused: bool
) -> None:
    problems = errors_of(
        tenant(rules=compute(cpuCoreRequest=request_rules)),
        project(rules=compute(cpuCoreLimit=limit_rules)),
    )

    assert len(problems) is int(refused)
    for problem in problems:
        assert "min 4 is above max 2 of compute.cpuCoreLimit, and both must be there" in problem


@pytest.mark.parametrize(
    ("key", "request_amount", "limit_amount", "wanted"),
    [
        ("cpu", 4, 2, "resourceRequests[cpu]: set 4 is above set 2 of resourceLimits[cpu]"),
        ("cpu", 2, 4, ""),
        ("cpu", 2, 2, ""),
        ("nvidia.com/gpu", 1, 2, "set 1 differs from set 2 of resourceLimits[nvidia.com/gpu]"),
    ],
)
@pytest.mark.parametrize("selector", ["allContainers", "mainContainer"])
def test_a_set_limit_below_the_set_request_is_refused(
    selector: str, key: str, request_amount: int, limit_amount: int, wanted: str
) -> None:
    policy = make_gvk_policy(
        make_rule("resourceLimits", selector, {"set": {"key": key, "value": limit_amount}}),
        make_rule(
            "resourceRequests", "allContainers", {"set": {"key": key, "value": request_amount}}
        ),
    )

    problems = errors_of(policy)

    assert len(problems) == bool(wanted)
    assert all(wanted in problem for problem in problems)


@pytest.mark.parametrize("source", ["defaults", "sets"])
def test_privileged_without_privilege_escalation_is_refused(source: str) -> None:
    word = source.removesuffix("s")
    policy = make_gvk_policy(
        make_rule("privileged", "allContainers", {word: True}),
        make_rule("allowPrivilegeEscalation", "allContainers", {word: False}),
    )

    (problem,) = errors_of(policy)
    assert f"privileged: {word} true contradicts {word} false of allowPriv" in problem


@pytest.mark.parametrize("source", ["defaults", "sets"])
@pytest.mark.parametrize(
    ("capability", "is_refused"),
    [pytest.param("CAP_SYS_ADMIN", True, id="as-kubernetes-compares"), ("SYS_ADMIN", False)],
)
def test_cap_sys_admin_without_privilege_escalation_is_refused(
    source: str, capability: str, is_refused: bool
) -> None:
    word = source.removesuffix("s")
    rules = [
        make_rule("capabilitiesAdd", "allContainers", {word: [capability]}),
        make_rule("allowPrivilegeEscalation", "allContainers", {word: False}),
    ]
    wanted = f"capabilitiesAdd: {word} CAP_SYS_ADMIN contradicts {word} false of allowPriv"

    together = errors_of(make_gvk_policy(*rules))
    apart = errors_of(*[make_gvk_policy(rule, name=rule["field"].lower()) for rule in rules])

    assert [wanted in problem for problem in together] == [True] * is_refused
    assert [wanted in problem for problem in apart] == [True] * is_refused


# -- selectors that lead to one place -------------------------------------------------------------


def flat(*rules: JsonObject, kind: JsonObject = POD, name: str = "b", **more: Any) -> JsonObject:
    return make_gvk_policy(*rules, kind=kind, name=name, **more)


def limits(selector: str, word: str, value: Any) -> JsonObject:
    body = {"key": "cpu", "value": value}
    return make_rule("resourceLimits", selector, {word: body})


def label(selector: str, word: str, *value: Any) -> JsonObject:
    body = {"key": "a", "value": value[0]} if value else {"key": "a"}
    return make_rule("labels", selector, {word: body})


HOST_PATH = {"name": "v", "hostPath": {"path": "/data"}}
EMPTY_DIR: JsonObject = {"name": "v", "emptyDir": {}}


@pytest.mark.parametrize(
    ("kind", "one", "other", "wanted"),
    [
        pytest.param(
            POD,
            limits("mainContainer", "set", 8),
            limits("allContainers", "max", 2),
            "set 8: above the maximum (≤ 2), where mainContainer and allContainers meet",
            id="a-set-above-the-max-of-all",
        ),
        pytest.param(
            POD,
            limits("allContainers", "default", 8),
            limits("mainContainer", "max", 2),
            "default 8: above the maximum (≤ 2)",
            id="a-default-above-the-max-of-one",
        ),
        pytest.param(
            POD,
            label("metadata", "set", "x"),
            label("podMetadata", "blocked"),
            "labels[a]: set x: blocked by the policy",
            id="two-names-of-one-selector",
        ),
        pytest.param(
            POD,
            label("metadata", "required"),
            label("podMetadata", "blocked"),
            "labels[a]: can't be both required and blocked",
            id="required-and-blocked",
        ),
        pytest.param(
            DEPLOYMENT,
            label("metadata", "set", "x"),
            label("podMetadata", "blocked"),
            "",
            id="two-places",
        ),
        pytest.param(
            POD,
            make_rule("image", "allContainers", {"default": "x"}),
            make_rule("image", "mainContainer", {"options": ["y"]}),
            "image: default x: not an allowed value",
            id="a-default-that-is-no-option",
        ),
        pytest.param(
            POD,
            make_rule("runAsUser", "podSpec", {"default": 0}),
            make_rule("runAsUser", "allContainers", {"min": 1}),
            "",
            id="pod-and-container-are-two-places",
        ),
        pytest.param(
            PYTORCH_JOB,
            make_rule("replicas", "replicaSpecs", {"set": 4}),
            make_rule("replicas", "worker", {"max": 2}),
            "replicas: set 4: above the maximum (≤ 2), where replicaSpecs and worker meet",
            id="every-role-and-one",
        ),
        pytest.param(
            PYTORCH_JOB,
            make_rule("replicas", "master", {"set": 4}),
            make_rule("replicas", "worker", {"max": 2}),
            "",
            id="two-roles",
        ),
        pytest.param(
            POD,
            make_rule("hostPathVolumes", "podSpec", {"required": True}),
            make_rule("volumes", "podSpec", {"blocked": True}),
            "hostPathVolumes: required, but volumes is blocked",
            id="a-part-of-what-is-blocked",
        ),
        pytest.param(
            POD,
            make_rule("volumes", "podSpec", {"set": [HOST_PATH]}),
            make_rule("hostPathVolumes", "podSpec", {"blocked": True}),
            "volumes: set of volumes: hostPathVolumes: blocked by the policy",
            id="a-volume-of-the-kind-that-is-blocked",
        ),
        pytest.param(
            POD,
            make_rule("volumes", "podSpec", {"set": [EMPTY_DIR]}),
            make_rule("hostPathVolumes", "podSpec", {"blocked": True}),
            "",
            id="a-volume-of-another-kind",
        ),
    ],
)
@pytest.mark.parametrize("order", [1, -1], ids=["in-order", "reversed"])
def test_rules_of_two_selectors_are_held_against_one_another_where_they_meet(
    kind: JsonObject, one: JsonObject, other: JsonObject, wanted: str, order: int
) -> None:
    rules = [one, other][::order]

    problems = errors_of(flat(rules[0], kind=kind, name="a"), flat(rules[1], kind=kind, name="b"))

    assert len(problems) == bool(wanted)
    for problem in problems:
        assert problem.startswith("test.yaml#1 spec.rules[0].enforcements[0]")
        assert wanted in problem


def test_a_value_that_another_one_replaces_where_they_meet_contradicts_nothing() -> None:
    """At the main container the set counts; the default of all others is no matter there."""
    documents = [
        flat(limits("allContainers", "default", 8), name="a"),
        flat(
            make_rule(
                "resourceLimits",
                "mainContainer",
                {"set": {"key": "cpu", "value": 2}},
                {"max": {"key": "cpu", "value": 4}},
            ),
            name="b",
            scope="project",
            unit="team-a",
        ),
    ]

    assert errors_of(*documents) == []


def test_a_workload_policy_and_a_gvk_policy_are_held_against_one_another_at_one_place() -> None:
    """By the path in the container: they call the field by two names."""
    tree = make_workload_policy(
        workload_type=DEPLOYMENT, name="tree", rules=compute(cpuCoreLimit={"max": 2})
    )

    (problem,) = errors_of(flat(limits("allContainers", "set", 8), kind=DEPLOYMENT), tree)

    assert "set 8: above the maximum (≤ 2)" in problem


# -- one slot, and the limits of the workload API -----------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        pytest.param(
            compute(cpuCoreLimit={"blocked": True, "defaultFrom": {"field": "cpuCoreRequest"}}),
            "blocked, so that its defaultFrom can't hold",
            id="blocked-with-a-derived-default",
        ),
        pytest.param(
            {"imagePullPolicy": {"pattern": ["nvcr.io/*"]}},
            "no pattern matches a value of the field (Always, Never, IfNotPresent)",
            id="patterns-that-match-no-value-of-an-enum",
        ),
        pytest.param({"imagePullPolicy": {"pattern": ["*Not*"]}}, "", id="one-that-does"),
        pytest.param(
            {"imagePullPolicy": {"options": ["Sometimes"]}},
            "not an allowed value",
            id="options-outside-an-enum",
        ),
        pytest.param(
            {"imagePullPolicy": {"options": ["Always", "x"], "pattern": ["x"]}},
            "no option satisfies the other rules",
            id="options-of-which-the-possible-ones-match-nothing",
        ),
        pytest.param(
            {"parallelism": {"min": 1, "max": 9, "step": 10}}, "", id="the-minimum-is-a-step"
        ),
        pytest.param(
            {"autoDeletionTimeAfterCompletionSeconds": {"max": 9, "step": 10}},
            "",
            id="zero-is-a-step",
        ),
        pytest.param(
            {"storage": {"hostPath": {"attributes": {"mountPropagation": {"options": ["x"]}}}}},
            "not an allowed value",
            id="options-of-an-attribute",
        ),
        pytest.param(
            {"exposedUrls": {"attributes": {"container": {"min": 70000, "required": True}}}},
            "above the maximum",
            id="minimum-of-an-attribute",
        ),
    ],
)
def test_rules_that_leave_no_value_are_refused(rules: JsonObject, wanted: str) -> None:
    problems = errors_of(tenant(rules=rules))

    assert len(problems) == bool(wanted)
    assert all(wanted in problem for problem in problems)


def test_a_step_that_misses_all_values_of_a_field_is_refused() -> None:
    rules = {"slotsPerWorker": {"max": 9, "step": 10}}

    (problem,) = errors_of(tenant("distributed", rules=rules))

    assert "step 10: no step lies between the least and the most value" in problem


# -- items and assets -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        pytest.param(
            {"storage": {"pvc": {"instances": [{"claimName": "c", "path": "/c"}]}}},
            "storage.pvc.claimInfo.size[c]: default: a new claim needs a size",
            id="claim-without-a-size",
        ),
        pytest.param(
            {
                "storage": {
                    "pvc": {
                        "instances": [{"claimName": "c", "path": "/c"}],
                        "attributes": {"claimInfo": {"size": "10Gi"}},
                    }
                }
            },
            "",
            id="claim-whose-size-is-a-default",
        ),
        pytest.param(
            {"tolerations": {"instances": [{"name": "t", "effect": "NoSchedule"}]}},
            "tolerations.key[t]: default: needed unless operator is Exists",
            id="toleration-without-a-key",
        ),
        pytest.param(
            {"tolerations": {"instances": [{"name": "t", "operator": "Exists"}]}},
            "",
            id="toleration-of-everything",
        ),
        pytest.param(
            {
                "tolerations": {
                    "instances": [{"name": "t", "key": "k", "effect": "NoSchedule"}],
                    "attributes": {"seconds": 30},
                }
            },
            "",
            id="attribute-that-is-not-filled-into-it",
        ),
    ],
)
def test_an_item_that_would_be_refused_in_every_workload_is_refused(
    section: JsonObject, wanted: str
) -> None:
    problems = errors_of(tenant(defaults=section))

    assert len(problems) == bool(wanted)
    assert all(wanted in problem for problem in problems)


def data_source(name: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "DataSource",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_claim_without_a_size_is_an_error_of_the_data_source_that_is_imposed() -> None:
    source = data_source("home", pvc={"claimName": "home", "path": "/home"})

    (problem,) = errors_of(source, tenant(imposedAssets=["home"]))

    assert problem.startswith("test.yaml#0 spec.pvc.claimInfo.size: a new claim needs a size")


def test_two_imposed_assets_with_one_key_are_refused_where_they_meet() -> None:
    sources = [
        data_source("one", hostPath={"name": "data", "path": "/one", "mountPath": "/mnt"}),
        data_source("two", hostPath={"name": "data", "path": "/two", "mountPath": "/mnt"}),
    ]

    (problem,) = errors_of(*sources, tenant(imposedAssets=["one"]), project(imposedAssets=["TWO"]))

    assert problem.startswith("test.yaml#3 spec.imposedAssets[0]: storage.hostPath[data]: ")
    assert "the imposed assets one and TWO have one name" in problem


def test_one_asset_may_be_imposed_by_several_policies() -> None:
    source = data_source("one", hostPath={"name": "data", "path": "/one", "mountPath": "/mnt"})

    assert errors_of(source, tenant(imposedAssets=["one"]), project(imposedAssets=["one"])) == []


def test_a_secret_attribute_is_not_told_by_a_contradiction() -> None:
    def git(**section: Any) -> JsonObject:
        return {"storage": {"git": {"attributes": section}}}

    (problem,) = errors_of(
        tenant(defaults=git(passwordSecret="hunter2")),
        project(rules=git(passwordSecret={"options": ["hunter3"]})),
    )

    assert "default (not shown): not an allowed value; policy broad" in problem
    assert "hunter" not in problem


# -- policies that are only tried -----------------------------------------------------------------


@pytest.mark.parametrize("modes", [("Enforce", "Audit"), ("Warn", "Enforce")])
def test_a_policy_that_is_only_tried_stands_beside_the_one_in_force(
    modes: tuple[str, str],
) -> None:
    one, other = (
        tenant(rules=compute(gpuDevicesRequest={"max": 4}), mode=modes[0]),
        project(defaults=compute(gpuDevicesRequest=8), mode=modes[1]),
    )

    assert errors_of(one, other) == []
