"""What is found wrong with how a server bears too much, by figures that are made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.e2e.callers import Call, Caller, Load
from tests.load.overload import BRIEF_BOUNDS, JQ_BOUNDS, Bounds, Outcome, Reviews, faults

LASTED_S = 10.0


def make_outcome(
    *,
    answered: int = 800,
    shed: int = 900,
    answered_after_s: float = 0.5,
    shed_after_s: Mapping[float, int] | None = None,
    failure: str = "",
    ready: int = 200,
    most_mib: float = 120.0,
) -> Outcome:
    """Of a server that can answer 100 a second, and was called for ten."""
    reviews = Reviews(cast("Caller", None), b"", lambda: LASTED_S, LASTED_S)
    reviews.answered |= {f"{number}" for number in range(answered)}
    reviews.statuses += Counter({200: answered, 503: shed})
    reviews.took_s[200] += [answered_after_s] * answered
    for after_s, count in (shed_after_s or {0.1: shed}).items():
        reviews.took_s[503] += [after_s] * count
    load = Load(200.0, reviews)
    load.calls.append(Call(0.0, 0.1, 1, failure))
    load.lasted_s = LASTED_S
    return Outcome(100.0, load, reviews, Counter({ready: 50}), (100.0, most_mib))


def faults_of(outcome: Outcome, *, twice: str = "", recovered_s: float = 0.1) -> list[str]:
    records = Counter([*outcome.reviews.answered, *([twice] if twice else [])])
    return faults(outcome, records, recovered_s)


@pytest.mark.parametrize(
    "figures",
    [
        pytest.param({}, id="usual"),
        pytest.param({"answered": 650}, id="as-few-as-may-be"),
        pytest.param({"shed_after_s": {0.1: 892, 3.0: 8}}, id="one-in-a-hundred-late"),
        pytest.param({"answered_after_s": 0.99, "most_mib": 249.0}, id="busy-machine"),
    ],
)
def test_a_good_run_has_no_faults(figures: dict[str, Any]) -> None:
    assert faults_of(make_outcome(**figures)) == []


@pytest.mark.parametrize(
    ("figures", "found"),
    [
        pytest.param({"answered": 10}, ["less was answered than can be"], id="one-a-second"),
        pytest.param({"answered": 640}, ["less was answered than can be"], id="too-few"),
        pytest.param(
            {"answered": 0},
            ["less was answered than can be", "nobody was answered"],
            id="none",
        ),
        pytest.param(
            {"shed": 0}, ["nobody was shed at twice the sustainable rate"], id="none-shed"
        ),
        pytest.param(
            {"shed_after_s": {1.0: 900}},
            ["half of the refusals came late", "refusals came late"],
            id="late-refusals",
        ),
        pytest.param(
            {"shed_after_s": {0.1: 880, 1.5: 20}}, ["refusals came late"], id="some-late-refusals"
        ),
        pytest.param(
            {"answered_after_s": 1.0},
            ["half of those who were answered waited for long"],
            id="late-answers",
        ),
        pytest.param(
            {"failure": "TimeoutError()"}, ["a call failed, or had no answer in time"], id="failure"
        ),
        pytest.param({"ready": 503}, ["/readyz was not always 200"], id="not-ready"),
        pytest.param({"most_mib": 251.0}, ["memory grew"], id="memory"),
    ],
)
def test_a_bad_run_is_found(figures: dict[str, Any], found: list[str]) -> None:
    assert sorted(faults_of(make_outcome(**figures))) == found


def test_a_decision_that_is_recorded_twice_or_not_at_all_is_found() -> None:
    outcome = make_outcome()

    assert faults_of(outcome, twice="7") == [RECORDS]
    assert faults(outcome, Counter(outcome.reviews.answered - {"7"}), 0.1) == [RECORDS]


RECORDS = "a decision was answered and is not in the records once"


def test_a_server_that_recovers_late_is_found() -> None:
    assert faults_of(make_outcome(), recovered_s=2.0) == [
        "the server does not answer within a second at once"
    ]


@pytest.mark.parametrize(
    ("bounds", "least", "half_s"),
    [
        pytest.param(BRIEF_BOUNDS, 500, 2.0, id="of-some-seconds"),
        pytest.param(JQ_BOUNDS, 300, 2.5, id="where-jq-is-needed"),
    ],
)
def test_other_runs_may_be_worse_and_not_bad(bounds: Bounds, least: int, half_s: float) -> None:
    refused = {half_s - 0.1: 880, 4.4: 20}
    late = make_outcome(answered=least, answered_after_s=half_s - 0.1, shed_after_s=refused)
    later = make_outcome(
        answered=least - 10, answered_after_s=half_s, shed_after_s={half_s: 880, 4.5: 20}
    )

    assert faults(late, Counter(late.reviews.answered), 0.1, bounds) == []
    assert len(faults(later, Counter(later.reviews.answered), 0.1, bounds)) == 4
