"""What is stored of a workload: whose it is, and whether there is something new to write."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from webhook.model.rightsizing.policies import DocumentKey, Signal
from webhook.model.rightsizing.recommendations import (
    BaselineAmount,
    Change,
    PolicyState,
    RecommendationStatus,
    Selected,
    SignalEvaluation,
    SignalState,
)
from webhook.reactive.rounds.keeping import is_worth_writing

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = DocumentKey("GpuReactivePolicy", "team-a", "llm")
STRATEGY = DocumentKey("AutomationStrategy", "team-a", "gpu")
STATE = PolicyState(
    POLICY,
    baseline={"main": BaselineAmount(Decimal(1), NOW)},
    recommendation={"main": Decimal(2)},
    change=Change.KEPT,
    reasons=("compute: pod llm-0 uses 0.7 of 1 GPU",),
)
STATUS = RecommendationStatus(
    evaluated_at=NOW - timedelta(minutes=1),
    policies=(STATE,),
    selected=Selected(POLICY, STRATEGY, {"main": Decimal(2)}),
)
MEASURED = SignalState(upsize=SignalEvaluation(80, timedelta(minutes=1), usage=Decimal("0.71")))


def changed(**state: object) -> RecommendationStatus:
    """As one round later."""
    return replace(STATUS, evaluated_at=NOW, policies=(replace(STATE, **state),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(changed(), False, id="only-later"),
        pytest.param(changed(signals={Signal.COMPUTE: MEASURED}), False, id="measured"),
        pytest.param(changed(reasons=("pod llm-0 uses 0.71",)), False, id="told"),
        pytest.param(changed(recommendation={"main": Decimal(3)}), True, id="recommended"),
        pytest.param(changed(baseline={}), True, id="baseline"),
        pytest.param(changed(current={"main": Decimal(2)}), True, id="current"),
        pytest.param(replace(changed(), selected=None), True, id="withdrawn"),
        pytest.param(replace(changed(), reasons=("paused",)), True, id="something-in-the-way"),
    ],
)
def test_what_is_decided_is_written_at_once(new: RecommendationStatus, want: bool) -> None:
    assert is_worth_writing(STATUS, new, NOW, always_fresh=False) is want


def test_of_few_workloads_everything_is_written() -> None:
    assert is_worth_writing(STATUS, changed(), NOW, always_fresh=True)


@pytest.mark.parametrize(
    ("age", "want"),
    [
        pytest.param(timedelta(minutes=4, seconds=59), False, id="fresh"),
        pytest.param(timedelta(minutes=5), True, id="old"),
        pytest.param(timedelta(minutes=-1), True, id="of-a-clock-that-was-set-back"),
    ],
)
def test_what_was_measured_is_written_now_and_then(age: timedelta, want: bool) -> None:
    old = replace(STATUS, evaluated_at=NOW - age)

    assert is_worth_writing(old, changed(), NOW, always_fresh=False) is want
