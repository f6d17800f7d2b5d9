"""Which policies can stand side by side, and what their author is told where they can't."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.model.settings import EngineSettings

TRAINING = {"group": "workload.gatewright.io", "version": "v1alpha1", "kind": "Training"}
PROD = EngineSettings(cluster_name="prod")

# Scope and unit of two policies that have a branch in common, or none.
D1, D2, P1, P2 = ("department", "d1"), ("department", "d2"), ("project", "p1"), ("project", "p2")
TENANT, SYSTEM = ("tenant", ""), ("system", "")
HERE, CLUSTER_PROD, CLUSTER_TEST = ("cluster", ""), ("cluster", "prod"), ("cluster", "test")


def make_namespace(name: str, **labels: str) -> JsonObject:
    keys = {"project": "runai/queue", "department": "gatewright.io/department"}
    metadata = {"name": name, "labels": {keys[key]: value for key, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def make_queue(name: str, parent: str) -> JsonObject:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parentQueue": parent},
    }


P1_IN_D1 = make_namespace("ns-1", project="p1", department="d1")
P2_IN_D2 = make_namespace("ns-2", project="p2", department="d2")


def policy(name: str, where: tuple[str, str], *, created: str = "", **parts: Any) -> JsonObject:
    scope, unit = where
    document = make_workload_policy(name=name, scope=scope, unit=unit, **parts)
    if created:
        document["metadata"]["creationTimestamp"] = created
    return document


def devices(**rule: Any) -> JsonObject:
    return {"compute": {"gpuDevicesRequest": rule}}


def problems_of(*documents: Any, settings: EngineSettings | None = None) -> list[str]:
    snapshot = make_snapshot(*documents, settings=settings)
    return [f"{item.document} {item.path}: {item.problem}" for item in snapshot.problems]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other", "surroundings"),
    [
        pytest.param(D1, P1, [P1_IN_D1], id="project-of-the-department-by-labels"),
        pytest.param(D1, P1, [make_queue("p1", "d1")], id="by-its-queue"),
        pytest.param(
            D1,
            P1,
            [make_queue("p1", "d1"), make_namespace("ns-1", project="p1")],
            id="by-the-queue-of-its-namespace",
        ),
        pytest.param(
            D1,
            P1,
            [P2_IN_D2, make_namespace("other", project="p1", department="d2"), P1_IN_D1],
            id="by-one-of-its-namespaces",
        ),
        pytest.param(
            D1,
            ("project", "ns-1"),
            [make_namespace("ns-1", department="d1")],
            id="namespace-as-project",
        ),
        pytest.param(TENANT, P1, [], id="tenant-above-all"),
        pytest.param(HERE, D1, [], id="this-cluster-above-all"),
        pytest.param(CLUSTER_PROD, P1, [], id="this-cluster-by-its-name"),
        pytest.param(HERE, CLUSTER_PROD, [], id="this-cluster-named-and-not"),
        pytest.param(TENANT, CLUSTER_PROD, [], id="tenant-above-this-cluster"),
        pytest.param(P1, P1, [], id="one-project"),
    ],
)
def test_rules_of_a_field_stand_at_one_level_of_a_branch(
    one: tuple[str, str], other: tuple[str, str], surroundings: list[JsonObject]
) -> None:
    """Whichever of them is the older: the younger is refused, naming field and holder."""
    for (first, second), ages in itertools.product([(one, other), (other, one)], [(1, 2), (2, 1)]):
        documents = [
            policy("a", first, created=f"2026-01-0{ages[0]}T00:00:00Z", rules=devices(max=4)),
            policy("b", second, created=f"2026-01-0{ages[1]}T00:00:00Z", rules=devices(max=32)),
            *surroundings,
        ]

        (problem,) = problems_of(*documents, settings=PROD)

        holder, refused = ("a", "b") if ages == (1, 2) else ("b", "a")
        assert problem.startswith(f"test.yaml#{'ab'.index(refused)} ")
        assert f"field compute.gpuDevicesRequest already has rules in policy {holder}," in problem
        assert f"policy {refused}, " in problem


@pytest.mark.parametrize(
    ("one", "other", "surroundings"),
    [
        pytest.param(D1, P2, [P1_IN_D1, P2_IN_D2], id="project-of-another-department"),
        pytest.param(D1, P1, [make_namespace("ns-1", project="p1")], id="project-of-no-department"),
        pytest.param(D1, P1, [], id="project-that-nobody-knows"),
        pytest.param(D1, D2, [P1_IN_D1, P2_IN_D2], id="two-departments"),
        pytest.param(P1, P2, [P1_IN_D1, P2_IN_D2], id="two-projects"),
        pytest.param(CLUSTER_PROD, CLUSTER_TEST, [], id="two-clusters"),
        pytest.param(HERE, CLUSTER_TEST, [], id="this-cluster-and-another"),
        pytest.param(CLUSTER_TEST, P1, [], id="another-cluster-and-a-project-here"),
        pytest.param(SYSTEM, P1, [], id="system-holds-no-slot"),
    ],
)
def test_policies_that_never_meet_do_not_conflict(
    one: tuple[str, str], other: tuple[str, str], surroundings: list[JsonObject]
) -> None:
    documents = [
        policy("a", one, rules=devices(max=4)),
        policy("b", other, rules=devices(max=32)),
        *surroundings,
    ]

    assert problems_of(*documents, settings=PROD) == []


def test_a_policy_for_another_cluster_is_judged_as_it_would_be_there() -> None:
    """It never holds here; but whoever lints a directory for several clusters wants to know."""
    inherited = policy("a", TENANT, rules=devices(max=4))
    elsewhere = policy("b", CLUSTER_TEST, defaults={"compute": {"gpuDevicesRequest": 8}})

    (problem,) = problems_of(inherited, elsewhere, settings=PROD)

    assert "default 8: above the maximum (≤ 4); policy a, tenant" in problem


@pytest.mark.parametrize("order", [1, -1], ids=["in-order", "reversed"])
def test_without_a_name_this_cluster_may_be_any(order: int) -> None:
    rules = [
        policy("a", CLUSTER_TEST, rules=devices(max=4)),
        policy("b", P1, rules=devices(max=32)),
    ]

    (problem,) = problems_of(*rules[::order])

    assert "already has rules in policy a, cluster test; policy b, project p1" in problem


def test_a_conflict_of_department_and_project_says_why_they_meet() -> None:
    documents = [policy("a", D1, rules=devices(max=4)), policy("b", P1, rules=devices(max=32))]

    assert problems_of(*documents, P1_IN_D1) == [
        "test.yaml#1 spec.rules.compute.gpuDevicesRequest.max: field compute.gpuDevicesRequest"
        " already has rules in policy a, department d1; policy b, project p1 can't have any too,"
        " as project p1 lies in department d1. Nothing of policy b, project p1 is enforced until"
        " the field is taken out of one of the two"
    ]


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_of_two_policies_in_conflict_the_older_one_holds(names: str) -> None:
    """By creationTimestamp: the name, which anybody may choose, decides only without one."""
    limits = {"p": 32, "d": 4}
    documents = [
        policy(names[0], D1, created="2026-01-01T00:00:00Z", rules=devices(max=limits["d"])),
        policy(names[1], P1, created="2026-01-02T00:00:00Z", rules=devices(max=limits["p"])),
        P1_IN_D1,
    ]

    snapshot = make_snapshot(*documents)
    greedy = make_training(compute={"gpuDevicesRequest": 16})

    assert submit(snapshot, greedy, namespace="ns-1").violation.accepted == "≤ 4"


# -- what could never be satisfied ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("upper", "lower", "surroundings", "meets"),
    [
        (TENANT, P1, [], True),
        (HERE, D1, [], True),
        (CLUSTER_PROD, HERE, [], True),
        (D1, P1, [P1_IN_D1], True),
        (D1, P1, [P1_IN_D1, make_namespace("x", project="p1", department="d2")], True),
        (SYSTEM, D1, [], True),
        (D1, P2, [P1_IN_D1, P2_IN_D2], False),
        (D1, P1, [], False),
        (D1, D2, [], False),
        (CLUSTER_TEST, P1, [], False),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("inherited", "own", "wanted"),
    [
        (
            {"rules": devices(max=4)},
            {"defaults": {"compute": {"gpuDevicesRequest": 8}}},
            "default 8: above the maximum (≤ 4)",
        ),
        (
            {"defaults": {"compute": {"gpuDevicesRequest": 8}}},
            {"rules": devices(max=4)},
            "default 8: above the maximum (≤ 4)",
        ),
        (
            {"defaults": {"compute": {"gpuDevicesRequest": 8}}},
            {"rules": devices(blocked=True)},
            "default 8: blocked by the policy (no value)",
        ),
    ],
    ids=["default-outside", "rule-that-excludes-a-default", "blocked-with-a-default"],
)
def test_what_contradicts_is_refused_where_the_two_meet_and_nowhere_else(
    upper: tuple[str, str],
    lower: tuple[str, str],
    surroundings: list[JsonObject],
    meets: bool,
    inherited: JsonObject,
    own: JsonObject,
    wanted: str,
) -> None:
    problems = problems_of(
        policy("a", upper, **inherited), policy("b", lower, **own), *surroundings, settings=PROD
    )

    assert len(problems) == meets
    for problem in problems:
        assert problem.startswith("test.yaml#1 ")
        assert f"compute.gpuDevicesRequest: {wanted}; policy a, {upper[0]}" in problem
        assert f", against policy b, {lower[0]}" in problem


def test_a_default_that_a_narrower_one_hides_everywhere_contradicts_nothing() -> None:
    """In project p1 of department d1 the department's default counts, and nobody else is ruled."""
    documents = [
        policy("a", TENANT, defaults={"compute": {"gpuDevicesRequest": 8}}),
        policy("b", D1, defaults={"compute": {"gpuDevicesRequest": 2}}),
        policy("c", P1, rules=devices(max=4)),
    ]

    assert problems_of(*documents, P1_IN_D1) == []
    # Nobody has placed it in the department: the tenant's default would reach it.
    assert len(problems_of(*documents)) == 1


@pytest.mark.parametrize(
    ("flat", "tree", "wanted"),
    [
        pytest.param({"max": 4}, {"min": 8}, "min 8 is above max 4", id="min-above-max"),
        pytest.param({"default": 6}, {"step": 4}, "default 6: not one of the steps", id="step"),
        pytest.param({"default": 2}, {"min": 3}, "default 2: below the minimum", id="below"),
        pytest.param({"set": 6}, {"max": 4}, "set 6: above the maximum", id="set"),
        pytest.param({"options": [1, 2]}, {"min": 3}, "no option satisfies", id="no-option-left"),
        pytest.param({"blocked": True}, {"required": True}, "can't be both required", id="flags"),
    ],
)
def test_both_kinds_of_policy_are_held_against_one_another(
    flat: JsonObject, tree: JsonObject, wanted: str
) -> None:
    """All rules of both hold at one place, whatever their scopes."""
    documents = [
        make_gvk_policy(make_rule("parallelism", "spec", flat), kind=TRAINING, name="flat"),
        policy("tree", P1, rules={"parallelism": tree}),
    ]

    (problem,) = problems_of(*documents)

    assert problem.startswith("test.yaml#1 ")
    assert f"parallelism: {wanted}" in problem
    assert "; policy flat, tenant, against policy tree, project p1" in problem


def test_every_rule_counts_where_both_kinds_of_policy_have_one() -> None:
    flat = make_gvk_policy(
        make_rule("parallelism", "spec", {"max": 8}, {"default": 6}), kind=TRAINING, name="flat"
    )
    tree = policy("tree", P1, rules={"parallelism": {"max": 4}})

    (problem,) = problems_of(flat, tree)

    assert "default 6: above the maximum (≤ 4); policy flat, tenant, against policy tree" in problem


def test_who_takes_a_default_away_answers_for_what_is_left() -> None:
    """The two policies that contradict one another stood together before the third came."""
    rule = make_rule("image", "spec", {"default": "x"}, allowOverride=True)
    documents = [
        make_gvk_policy(rule, kind=TRAINING, name="a"),
        policy("b", TENANT, rules={"image": {"required": True, "canEdit": False}}),
        make_gvk_policy(
            make_rule("image", "spec", {"pattern": ["x*"]}),
            kind=TRAINING,
            name="c",
            scope="project",
            unit="p1",
        ),
    ]

    assert problems_of(*documents[:2]) == []
    (problem,) = problems_of(*documents)
    assert problem.startswith("test.yaml#2 spec.rules[0].enforcements[0]: image: canEdit: false")
    assert "; policy b, tenant, against policy c, project p1" in problem


def test_an_empty_default_does_not_satisfy_required() -> None:
    (problem,) = problems_of(
        policy("a", TENANT, defaults={"image": ""}, rules={"image": {"required": True}})
    )

    assert 'image: default "": a value is required' in problem


def test_a_hidden_value_is_not_told_by_a_contradiction() -> None:
    documents = [
        policy("a", TENANT, defaults={"command": "hunter2"}),
        policy("b", P1, rules={"command": {"options": ["hunter3"]}}),
    ]

    (problem,) = problems_of(*documents)

    assert "default (not shown): not an allowed value; policy a" in problem
    assert "hunter" not in problem


# -- what never acts -----------------------------------------------------------------------------


def deployments(name: str, where: tuple[str, str], *enforcements: JsonObject, **more: Any) -> Any:
    rule = make_rule("replicas", "workload", *enforcements, **more)
    return make_gvk_policy(rule, kind=DEPLOYMENT, name=name, scope=where[0], unit=where[1])


@pytest.mark.parametrize(
    ("broad", "narrow", "surroundings", "warned"),
    [
        (deployments("a", TENANT, {"max": 4}), P1, [], True),
        (deployments("a", TENANT, {"max": 4}, allowOverride=True), P1, [], False),
        (deployments("a", D1, {"max": 4}), P1, [P1_IN_D1], True),
        (deployments("a", D1, {"max": 4}), P2, [P1_IN_D1, P2_IN_D2], False),
        (deployments("a", CLUSTER_TEST, {"max": 4}), P1, [], False),
    ],
    ids=["tenant", "allowed", "department", "another-department", "another-cluster"],
)
def test_a_rule_that_a_broader_one_does_not_let_act_is_named(
    broad: JsonObject, narrow: tuple[str, str], surroundings: list[JsonObject], warned: bool
) -> None:
    documents = [broad, deployments("b", narrow, {"max": 2}), *surroundings]

    snapshot = make_snapshot(*documents, settings=PROD)

    assert [item.warning for item in snapshot.problems] == [True] * warned
    for problem in snapshot.problems:
        assert problem.document == "test.yaml#1"
        assert "never acts: policy a, " in problem.problem
        assert "does not say allowOverride: true" in problem.problem


def test_of_two_defaults_at_one_place_the_gvk_policys_counts_and_the_pair_is_named() -> None:
    tree = policy("tree", P1, defaults={"image": "x", "workingDir": "/a"})
    flat = make_gvk_policy(make_rule("image", "spec", {"set": "y"}), kind=TRAINING, name="flat")

    snapshot = make_snapshot(tree, flat)

    (problem,) = snapshot.problems
    assert problem.warning
    assert str(problem) == (
        "test.yaml#0: spec.defaults.image: default of image never acts where the GVKPolicy holds"
        " too (policy flat, tenant): its set counts"
    )
    assert submit(snapshot, make_training(), namespace="p1").at("/spec/image") == "y"


# -- itemized fields -----------------------------------------------------------------------------

DATA = {"name": "data", "path": "/data", "mountPath": "/mnt/data", "readOnly": False}


def host_path(**section: Any) -> JsonObject:
    return {"storage": {"hostPath": section}}


@pytest.mark.parametrize(
    ("inherited", "own", "wanted"),
    [
        pytest.param(
            {"rules": host_path(attributes={"path": {"pattern": ["/srv/*"]}})},
            {"defaults": host_path(instances=[DATA])},
            "default /data: matches no allowed pattern (like /srv/*)",
            id="item-outside-an-inherited-rule",
        ),
        pytest.param(
            {"defaults": host_path(instances=[DATA])},
            {"rules": host_path(attributes={"path": {"options": ["/srv"]}})},
            "default /data: not an allowed value (one of /srv)",
            id="rule-that-excludes-an-inherited-item",
        ),
        pytest.param(
            {"rules": host_path(attributes={"path": {"required": True}})},
            {"defaults": host_path(instances=[{"name": "data"}])},
            "default: a value is required",
            id="item-without-what-every-item-needs",
        ),
        pytest.param(
            {
                "defaults": host_path(attributes={"path": "/srv"}),
                "rules": host_path(attributes={"path": {"required": True, "options": ["/srv"]}}),
            },
            {"defaults": host_path(instances=[{"name": "data"}])},
            "",
            id="item-that-a-default-completes",
        ),
        pytest.param(
            {"rules": host_path(attributes={"path": {"pattern": ["/data*"]}})},
            {"defaults": host_path(instances=[DATA])},
            "",
            id="item-within-the-rule",
        ),
        pytest.param(
            {"rules": host_path(attributes={"path": {"pattern": ["/srv/*"]}})},
            {"defaults": host_path(attributes={"path": "/data"})},
            "default /data: matches no allowed pattern (like /srv/*)",
            id="default-of-the-attribute",
        ),
    ],
)
@pytest.mark.parametrize("where", [D1, P1], ids=str)
def test_items_that_a_policy_gives_obey_the_rules_on_all_items(
    where: tuple[str, str], inherited: JsonObject, own: JsonObject, wanted: str
) -> None:
    problems = problems_of(policy("a", TENANT, **inherited), policy("b", where, **own))

    assert len(problems) == bool(wanted)
    for problem in problems:
        assert problem.startswith("test.yaml#1 ")
        assert f"{wanted}; policy a, tenant, against policy b, {where[0]}" in problem


def test_an_item_that_two_scopes_make_is_held_against_the_rules_as_a_whole() -> None:
    """The path is the tenant's; the project's policy, which comes last, rules it out."""
    documents = [
        policy("a", TENANT, defaults=host_path(instances=[DATA])),
        policy("b", P1, defaults=host_path(instances=[{"name": "data", "readOnly": True}])),
        policy("c", P1, rules=host_path(attributes={"path": {"options": ["/srv"]}})),
    ]

    (problem,) = problems_of(*documents)

    assert problem.startswith("test.yaml#2 spec.rules.storage.hostPath.attributes.path.options: ")
    assert "storage.hostPath.path[data]: default /data: not an allowed value" in problem


def test_rules_of_two_attributes_may_stand_at_two_levels() -> None:
    documents = [
        policy("a", TENANT, rules=host_path(attributes={"path": {"required": True}})),
        policy("b", P1, rules=host_path(attributes={"mountPath": {"required": True}})),
    ]
    again = policy("c", P2, rules=host_path(attributes={"path": {"options": ["/srv"]}}))

    assert problems_of(*documents) == []
    (problem,) = problems_of(*documents, again)
    assert "field storage.hostPath.path already has rules in policy a, tenant" in problem
