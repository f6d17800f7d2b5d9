"""Which policy's recommendation counts."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

from tests.gpu_rounds import COMPUTE, amounts, make_policy
from webhook.model.rightsizing.policies import DEFAULT_PRIORITIES, Mode, ReactivePolicy, Signal
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.decisions.choose import Opinion, contributors, select, tried
from webhook.reactive.decisions.states import Evaluation, Recommendation, SignalReport

OLD, NEW = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER = "ClusterGpuReactivePolicy"


def says(policy: ReactivePolicy, **containers: str) -> Opinion:
    recommendation = Recommendation(amounts(containers), COMPUTE) if containers else None
    signals = {signal: SignalReport() for signal in Signal}
    change = Change.UPSIZE if containers else Change.NONE
    return policy, Evaluation({}, recommendation, change, signals)


def chosen(*opinions: Opinion, precedence: Any = DEFAULT_PRIORITIES, multi: bool = False) -> Any:
    selection = select(opinions, precedence, multi_policy=multi)
    return {
        name: (target.policy.key.name, str(target.amount))
        for name, target in selection.targets.items()
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            make_policy("z", weight=2, created=NEW),
            make_policy("a", weight=1, created=OLD),
            id="the-heavier",
        ),
        pytest.param(make_policy("z", created=OLD), make_policy("a", created=NEW), id="the-older"),
        pytest.param(
            make_policy("z"), make_policy("a", created=OLD), id="one-without-a-time-is-oldest"
        ),
        pytest.param(
            make_policy("a", created=OLD), make_policy("z", created=OLD), id="the-name-at-last"
        ),
        pytest.param(
            make_policy("z", weight=9, mode=Mode.ENFORCE),
            make_policy("a", weight=10, mode=Mode.RECOMMEND),
            id="one-that-acts-before-one-that-recommends",
        ),
    ],
)
def test_of_one_kind_one_policy_contributes(first: ReactivePolicy, second: ReactivePolicy) -> None:
    for order in permutations([first, second]):
        assert contributors(order, DEFAULT_PRIORITIES, multi_policy=False) == (first,)


def test_each_kind_has_its_contributor() -> None:
    own, wide = make_policy("own"), make_policy("wide", kind=CLUSTER, weight=100)

    assert contributors([wide, own], DEFAULT_PRIORITIES, multi_policy=False) == (own, wide)


@pytest.mark.parametrize(
    ("precedence", "own_weight", "wide_weight", "want"),
    [
        pytest.param(DEFAULT_PRIORITIES, 0, 100, "own", id="the-kinds-priority-before-weight"),
        pytest.param({CLUSTER: 121}, 0, 0, "wide", id="by-policy-evaluation"),
        pytest.param({CLUSTER: 120}, 1, 0, "own", id="then-weight"),
        pytest.param({CLUSTER: 120}, 0, 0, "wide", id="then-the-kinds-name"),
        pytest.param({"StaticPolicy": 500}, 0, 0, "own", id="kinds-that-it-does-not-name"),
    ],
)
def test_across_kinds_policy_evaluation_decides(
    precedence: dict[str, int], own_weight: int, wide_weight: int, want: str
) -> None:
    own = make_policy("own", weight=own_weight)
    wide = make_policy("wide", kind=CLUSTER, weight=wide_weight)
    found = chosen(says(own, main="2"), says(wide, main="3"), precedence=precedence)

    assert found["main"][0] == want


def test_by_default_only_the_winner_contributes_even_where_the_containers_differ() -> None:
    own = says(make_policy("own"), a="2")
    wide = says(make_policy("wide", kind=CLUSTER), b="3")

    assert chosen(own, wide) == {"a": ("own", "2")}
    reasons = select([own, wide], DEFAULT_PRIORITIES, multi_policy=False).reasons
    assert reasons == (
        "ClusterGpuReactivePolicy wide is passed over for b: GpuReactivePolicy default/own comes"
        " first",
    )


def test_a_policy_that_recommends_nothing_leaves_the_place_to_the_next() -> None:
    own = says(make_policy("own"))
    wide = says(make_policy("wide", kind=CLUSTER), main="3")

    assert chosen(own, wide) == {"main": ("wide", "3")}


def test_with_multi_policy_each_container_is_chosen_for_by_itself() -> None:
    light = says(make_policy("light"), a="2", b="2")
    heavy = says(make_policy("heavy", weight=1), b="3", c="3")
    selection = select([light, heavy], DEFAULT_PRIORITIES, multi_policy=True)

    assert chosen(light, heavy, multi=True) == {
        "a": ("light", "2"),
        "b": ("heavy", "3"),
        "c": ("heavy", "3"),
    }
    assert selection.reasons == (
        "GpuReactivePolicy default/light is passed over for b: GpuReactivePolicy default/heavy"
        " comes first",
    )


def test_who_only_recommends_takes_no_place_from_who_acts() -> None:
    trial = says(make_policy("trial", weight=9, mode=Mode.RECOMMEND), main="4")
    acting = says(make_policy("acting"))
    selection = select([trial, acting], DEFAULT_PRIORITIES, multi_policy=True)

    assert (dict(selection.targets), selection.acts) == ({}, True)
    assert selection.leader == acting


def test_who_only_recommends_is_shown_where_nobody_acts() -> None:
    trial = says(make_policy("trial", mode=Mode.RECOMMEND), main="4")
    selection = select([trial], DEFAULT_PRIORITIES, multi_policy=False)

    assert selection.targets["main"].amount == Decimal(4)
    assert selection.acts is False
    policies = [trial[0]]
    assert contributors(policies, DEFAULT_PRIORITIES, multi_policy=False) == (trial[0],)


@pytest.mark.parametrize(
    ("modes", "multi", "want"),
    [
        pytest.param("EE", False, [], id="one-that-acts-is-not-tried"),
        pytest.param("ER", False, ["b"], id="beside-one-that-acts"),
        pytest.param("ER", True, ["b"], id="with-multi-policy-too"),
        pytest.param("RRR", False, ["b", "c"], id="beside-the-one-that-is-shown"),
        pytest.param("RRR", True, [], id="all-are-shown-already"),
        pytest.param("ERRRR", False, ["b", "c"], id="the-first-two"),
    ],
)
def test_who_only_recommends_is_evaluated_beside_who_counts(
    modes: str, multi: bool, want: list[str]
) -> None:
    policies = [
        make_policy(name, mode=Mode.ENFORCE if mode == "E" else Mode.RECOMMEND)
        for name, mode in zip("abcde", modes, strict=False)
    ]

    found = tried(reversed(policies), DEFAULT_PRIORITIES, multi_policy=multi)

    assert [policy.key.name for policy in found] == want


def test_without_opinions_there_is_nothing() -> None:
    selection = select([], DEFAULT_PRIORITIES, multi_policy=False)

    assert (dict(selection.targets), selection.leader) == ({}, None)
