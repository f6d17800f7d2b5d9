"""Which of several policies counts, and what it overrode."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    DEPLOYMENT,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_workload_policy,
)
from webhook.model.kinds import NATIVE_KINDS, GroupVersionKind
from webhook.model.scopes import Branch
from webhook.model.settings import EngineSettings
from webhook.policy.effective import effective_entries, holds_at
from webhook.store.snapshot import Snapshot

TRAINING = NATIVE_KINDS["training"]
TRAINING_KIND = {"group": TRAINING.group, "version": TRAINING.version, "kind": TRAINING.kind}
DEPLOYMENT_KIND = GroupVersionKind(**DEPLOYMENT)
PROD = EngineSettings(cluster_name="prod")

SCOPES = [("tenant", ""), ("cluster", ""), ("department", "d"), ("project", "p")]
NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "p", "labels": {"gatewright.io/department": "d"}},
}
BRANCH = Branch("prod", "d", "p")

# Field, rule, value, policy, and value and policy of each entry that was overridden.
Shown = tuple[str, str, str, str, tuple[tuple[str, str], ...]]


def in_force(snapshot: Snapshot, kind: GroupVersionKind, branch: Branch) -> list[Shown]:
    """The entries in force on *branch*, sorted."""
    held = [policy for policy in snapshot.policies.policies_of(kind) if holds_at(policy, branch)]
    return sorted(
        (
            f"{effective.entry.slot.selector}/{effective.entry.slot}",
            str(effective.entry.enforcement.rule),
            str(effective.entry.enforcement.value),
            effective.entry.enforcement.source.policy,
            tuple(
                (str(entry.enforcement.value), entry.enforcement.source.policy)
                for entry in effective.overrides
            ),
        )
        for effective in effective_entries(held)
    )


def of_field(shown: list[Shown], field: str) -> list[tuple[str, str, str]]:
    """Rule, value and policy of what is in force for *field*."""
    return [item[1:4] for item in shown if item[0].rpartition("/")[2] == field]


def flat(name: str, where: tuple[str, str], *enforcements: JsonObject, **more: Any) -> JsonObject:
    rule = make_rule("replicas", "workload", *enforcements, **more)
    return make_gvk_policy(rule, kind=DEPLOYMENT, name=name, scope=where[0], unit=where[1])


@pytest.mark.parametrize("depth", range(1, len(SCOPES) + 1))
def test_the_narrowest_default_wins_and_says_what_it_overrode(depth: int) -> None:
    documents = [
        make_workload_policy(
            name=f"of-{scope}", scope=scope, unit=unit, defaults={"parallelism": number}
        )
        for number, (scope, unit) in enumerate(SCOPES[:depth])
    ]

    snapshot = make_snapshot(*documents, NAMESPACE, settings=PROD)

    assert snapshot.problems == ()
    (found,) = [
        item for item in in_force(snapshot, TRAINING, BRANCH) if item[0] == "spec/parallelism"
    ]
    *wider, (scope, _) = SCOPES[:depth]
    overridden = tuple(
        (str(number), f"of-{other}") for number, (other, _) in reversed(list(enumerate(wider)))
    )
    assert found[1:] == ("default", str(depth - 1), f"of-{scope}", overridden)


@pytest.mark.parametrize("scope", ["system", "tenant", "cluster", "department", "project"])
def test_any_rule_replaces_the_shipped_one_of_its_field(scope: str) -> None:
    unit = {"department": "d", "project": "p"}.get(scope, "")
    policy = make_workload_policy(
        name="own",
        scope=scope,
        unit=unit,
        rules={"terminationGracePeriodSeconds": {"min": 20}},
    )

    snapshot = make_snapshot(policy, NAMESPACE, settings=PROD)

    assert [problem for problem in snapshot.problems if not problem.warning] == []
    field = [
        item
        for item in in_force(snapshot, TRAINING, BRANCH)
        if item[0] == "spec/terminationGracePeriodSeconds" and item[1] != "default"
    ]
    assert [item[1:] for item in field] == [
        ("min", "20", "own", (("300", "system-termination-grace"),))
    ]


ALLOWS = list(itertools.product([False, True], repeat=3))


@pytest.mark.parametrize("allows", ALLOWS, ids=str)
def test_a_gvk_policy_is_replaced_only_if_it_allows_it(allows: tuple[bool, ...]) -> None:
    """Step by step from broad to narrow: whoever holds the identity decides about the next."""
    levels = [("tenant", ""), ("department", "d"), ("project", "p")]
    documents = [
        flat(f"of-{where[0]}", where, {"max": number}, allowOverride=allow)
        for number, (where, allow) in enumerate(zip(levels, allows, strict=True))
    ]
    holder = "tenant"
    if allows[0]:
        holder = "project" if allows[1] else "department"

    shown = in_force(make_snapshot(*documents, NAMESPACE), DEPLOYMENT_KIND, BRANCH)

    (found,) = shown
    assert found[3] == f"of-{holder}"
    assert {policy for _, policy in found[4]} == {f"of-{scope}" for scope, _ in levels} - {found[3]}


def test_a_narrower_gvk_policy_replaces_every_enforcement_of_the_identity() -> None:
    """An identity is field, selector and key; other keys of the field are others."""
    broad = make_gvk_policy(
        make_rule(
            "resourceLimits",
            "allContainers",
            {"max": {"key": "cpu", "value": 8}},
            {"default": {"key": "cpu", "value": 1}},
            {"max": {"key": "memory", "value": "8Gi"}},
            allowOverride=True,
        ),
        name="broad",
        kind=DEPLOYMENT,
    )
    narrow = make_gvk_policy(
        make_rule("resourceLimits", "allContainers", {"max": {"key": "cpu", "value": 4}}),
        name="narrow",
        scope="project",
        unit="p",
        kind=DEPLOYMENT,
    )

    shown = in_force(make_snapshot(broad, narrow), DEPLOYMENT_KIND, BRANCH)

    assert of_field(shown, "resourceLimits[cpu]") == [("max", "4", "narrow")]
    assert of_field(shown, "resourceLimits[memory]") == [("max", "8Gi", "broad")]


@pytest.mark.parametrize("own", ["", "prod"])
def test_this_cluster_by_its_name_and_without_it_is_one_unit(own: str) -> None:
    documents = [
        make_workload_policy(name="a", scope="cluster", rules={"parallelism": {"max": 4}}),
        make_workload_policy(name="b", scope="cluster", unit="prod", defaults={"parallelism": 2}),
    ]

    snapshot = make_snapshot(*documents, settings=EngineSettings(cluster_name=own))
    shown = in_force(snapshot, TRAINING, snapshot.branch("p"))

    assert snapshot.problems == ()
    assert of_field(shown, "parallelism") == [
        *([("default", "2", "b")] if own == "prod" else []),
        ("max", "4", "a"),
    ]


def test_both_kinds_of_policy_hold_at_one_place() -> None:
    documents = [
        make_gvk_policy(
            make_rule("parallelism", "spec", {"max": 8}), kind=TRAINING_KIND, name="flat"
        ),
        make_workload_policy(name="tree", rules={"parallelism": {"max": 4}}),
    ]

    shown = in_force(make_snapshot(*documents), TRAINING, BRANCH)

    assert of_field(shown, "parallelism") == [("max", "4", "tree"), ("max", "8", "flat")]


# -- the order of documents ----------------------------------------------------------------------

_PLACES = st.sampled_from(
    [
        ("system", ""),
        ("tenant", ""),
        ("cluster", ""),
        ("cluster", "prod"),
        ("cluster", "test"),
        ("department", "d"),
        ("department", "e"),
        ("project", "p"),
        ("project", "q"),
    ]
)
_CREATED = st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"])
_NUMBERS = st.integers(1, 6)
_RULES = st.dictionaries(st.sampled_from(["min", "max", "step"]), _NUMBERS, max_size=2)
_FIELDS = ("parallelism", "completions")


@st.composite
def _trees(draw: st.DrawFn) -> JsonObject:
    scope, unit = draw(_PLACES)
    return make_workload_policy(
        scope=scope,
        unit=unit,
        defaults=draw(st.dictionaries(st.sampled_from(_FIELDS), _NUMBERS)),
        rules=draw(st.dictionaries(st.sampled_from(_FIELDS), _RULES)),
    )


@st.composite
def _flats(draw: st.DrawFn) -> JsonObject:
    scope, unit = draw(_PLACES)
    rules = [
        make_rule(field, "spec", *[{name: value} for name, value in enforcements.items()], **more)
        for field in draw(st.lists(st.sampled_from(_FIELDS), unique=True))
        for enforcements in [draw(st.dictionaries(st.sampled_from(["default", "max"]), _NUMBERS))]
        for more in [{"allowOverride": draw(st.booleans())}]
        if enforcements
    ]
    return make_gvk_policy(*rules, kind=TRAINING_KIND, scope=scope, unit=unit)


@st.composite
def _document_sets(draw: st.DrawFn) -> tuple[list[JsonObject], list[JsonObject]]:
    """Documents, and the same in another order, the keys within them too."""
    policies = draw(st.lists(st.one_of(_trees(), _flats()), min_size=2, max_size=6))
    for policy, name in zip(policies, draw(st.permutations("abcdef")), strict=False):
        policy["metadata"] = {"name": name}
        created = draw(_CREATED)
        if created:
            policy["metadata"]["creationTimestamp"] = created
    labels = {"gatewright.io/department": draw(st.sampled_from(["d", "e", ""]))}
    namespace = {**NAMESPACE, "metadata": {"name": "p", "labels": labels}}
    documents = [*policies, namespace]
    return documents, [_turned(document) for document in draw(st.permutations(documents))]


def _turned(value: Any) -> Any:
    """*value* with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return copy.deepcopy(value)


@pytest.mark.slow
@given(documents=_document_sets())
@settings(deadline=None, max_examples=60)
def test_documents_in_any_order_give_the_same_effective_policy(
    documents: tuple[list[JsonObject], list[JsonObject]],
) -> None:
    first, second = [make_snapshot(*found, settings=PROD) for found in documents]

    assert first.revision == second.revision
    # Their paths may differ: each names the first rule of the field in its document.
    assert {item.problem for item in first.problems} == {item.problem for item in second.problems}
    for department, project in itertools.product(["", "d", "e"], ["p", "q"]):
        branch = Branch("prod", department, project)
        one, other = [in_force(snapshot, TRAINING, branch) for snapshot in (first, second)]
        # Of one policy, the document's own order tells which was overridden first.
        assert [(*item[:4], set(item[4])) for item in one] == [
            (*item[:4], set(item[4])) for item in other
        ]
