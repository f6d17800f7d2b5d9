from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webhook.api.recent_decisions import DecisionFilter, RecentDecisions, decode_kept

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = {"group": "batch", "version": "v1", "kind": "Job"}
POD = {"group": "", "version": "v1", "kind": "Pod"}


def make_record(name: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "outcome": "denied",
        "namespace": "team-a",
        "kind": JOB,
        "violations": [{"policy": "baseline"}],
        "policies": [{"policy": "asked-only"}],
        **more,
    }


def names(decisions: RecentDecisions, wanted: DecisionFilter, **more: Any) -> list[str]:
    return [decode_kept(kept)["name"] for kept in decisions.find(wanted, **more)]


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(DecisionFilter(), ["d", "c", "b", "a"], id="newest-first"),
        pytest.param(DecisionFilter(outcome="mutated"), ["b"], id="outcome"),
        pytest.param(DecisionFilter(namespace="team-b"), ["c"], id="namespace"),
        pytest.param(DecisionFilter(policy="other"), ["b"], id="policy-that-changed-something"),
        pytest.param(DecisionFilter(policy="asked-only"), [], id="policy-that-was-only-asked"),
        pytest.param(DecisionFilter(kind="Pod"), ["d"], id="kind"),
        pytest.param(DecisionFilter(kind="v1/Pod"), ["d"], id="whole-kind"),
        pytest.param(DecisionFilter(kind="batch/v1/Job"), ["c", "b", "a"], id="kind-with-group"),
        pytest.param(DecisionFilter(since=NOON + timedelta(minutes=2)), ["d", "c"], id="since"),
        pytest.param(DecisionFilter(kind="Job", namespace="team-b"), ["c"], id="all-of-them"),
    ],
)
def test_decisions_are_found_by_what_they_are_about(
    wanted: DecisionFilter, want: list[str]
) -> None:
    decisions = RecentDecisions()
    decisions.add(make_record("a"), NOON)
    changed = {"outcome": "mutated", "violations": [], "changes": [{"policy": "other"}]}
    decisions.add(make_record("b", **changed), NOON + timedelta(minutes=1))
    decisions.add(make_record("c", namespace="team-b"), NOON + timedelta(minutes=2))
    decisions.add(make_record("d", kind=POD), NOON + timedelta(minutes=3))

    assert names(decisions, wanted) == want


@pytest.mark.parametrize("outcome", ["allowed", "failed"])
def test_only_denials_and_mutations_are_kept(outcome: str) -> None:
    decisions = RecentDecisions()
    decisions.add(make_record(outcome=outcome))

    assert names(decisions, DecisionFilter()) == []


def test_a_record_is_kept_as_it_was_with_its_time() -> None:
    decisions = RecentDecisions()
    decisions.add(make_record(), NOON)
    (kept,) = decisions.find(DecisionFilter())

    assert decode_kept(kept) == {"time": "2026-01-01T12:00:00.000Z", **make_record()}


def test_the_oldest_go_where_there_are_too_many() -> None:
    decisions = RecentDecisions(max_decisions=2)
    for name in "abc":
        decisions.add(make_record(name))

    assert names(decisions, DecisionFilter()) == ["c", "b"]


def test_the_oldest_go_where_they_are_too_large() -> None:
    decisions = RecentDecisions(max_bytes=5000)
    for name in "abc":
        decisions.add(make_record(name, reason="x" * 2000))

    assert names(decisions, DecisionFilter()) == ["c", "b"]


def test_a_page_goes_on_where_the_one_before_ended_though_others_came_meanwhile() -> None:
    decisions = RecentDecisions()
    for name in "abc":
        decisions.add(make_record(name))
    _, middle, _ = decisions.find(DecisionFilter())
    decisions.add(make_record("d"))

    assert names(decisions, DecisionFilter(), before=middle.number) == ["a"]
