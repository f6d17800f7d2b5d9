"""Decisions that the description of the behavior leaves open, and input that nothing is made of."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.gpu_rounds import (
    COMPUTE,
    MEMORY,
    NOW,
    UPSIZE,
    evaluate,
    load,
    make_pod,
    make_policy,
    make_readings,
    make_signal,
    make_state,
    recommended,
    samples_of,
)
from webhook.model.rightsizing.policies import Direction, Signal
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.decisions.decide import decide
from webhook.reactive.decisions.states import ObservedPod, Readings, WorkloadState

RAISED = make_state({"main": "2"}, COMPUTE, baseline={"main": "1"})
RAISED_POD = make_pod(main="2")


# --- Prometheus that can't be asked, and samples that are none ---


@pytest.mark.parametrize("signal", list(Signal))
@pytest.mark.parametrize("direction", list(Direction))
def test_a_question_without_an_answer_is_no_evaluation(
    signal: Signal, direction: Direction
) -> None:
    calm = samples_of({"llm-0": {"main": "10"}})
    answers = {(s, d): calm for s in Signal for d in Direction}
    readings = Readings.of({**answers, (signal, direction): None})
    evaluation = evaluate([RAISED_POD], readings, state=RAISED)

    assert evaluation.evaluated is False
    assert (evaluation.change, evaluation.state) == (Change.KEPT, RAISED)
    assert evaluation.reasons == (
        f"not evaluated: Prometheus did not answer for {signal} ({direction})",
    )


def test_an_unanswered_question_recommends_nothing_where_nothing_was() -> None:
    evaluation = evaluate([make_pod()], Readings.of({}))

    assert (evaluation.change, evaluation.state) == (Change.NONE, WorkloadState())


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity", "-5"])
def test_what_is_no_percentage_is_no_sample(text: str) -> None:
    evaluation = evaluate([RAISED_POD], load(text, text), state=RAISED)

    assert (evaluation.change, recommended(evaluation)) == (Change.KEPT, {"main": "2"})
    assert evaluation.signals[COMPUTE].missing == ("llm-0",)
    assert "compute: no scale-back: no samples in 10m of pod llm-0 (main)" in evaluation.reasons


def test_zero_is_a_sample() -> None:
    evaluation = evaluate([RAISED_POD], load("0", "0"), state=RAISED)

    assert (evaluation.change, recommended(evaluation)) == (Change.SCALE_BACK, {"main": "1"})


def test_a_pod_without_samples_is_not_averaged_as_zero() -> None:
    readings = make_readings({"llm-0": {"main": "NaN"}, "llm-1": {"main": "40"}})
    pods = [make_pod("llm-0", main="2"), make_pod("llm-1", main="2")]
    evaluation = evaluate(pods, readings, state=RAISED)

    assert evaluation.signals[COMPUTE].usage == Decimal("0.4")
    assert evaluation.signals[COMPUTE].wants is None
    assert (evaluation.change, recommended(evaluation)) == (Change.KEPT, {"main": "2"})


def test_a_pod_without_samples_keeps_no_other_from_an_upsize() -> None:
    readings = make_readings({"llm-1": {"main": "150"}})
    evaluation = evaluate([make_pod("llm-0"), make_pod("llm-1")], readings)

    assert recommended(evaluation) == {"main": "1.8"}
    assert evaluation.signals[COMPUTE].missing == ("llm-0",)


def test_half_of_a_pods_containers_have_no_say_in_an_upsize() -> None:
    readings = make_readings({"llm-0": {"a": "900"}})
    evaluation = evaluate([make_pod(a="1", b="1")], readings)

    assert evaluation.change is Change.NONE
    assert "compute: no say in an upsize: no samples in 10m of pod llm-0 (b)" in evaluation.reasons


def test_many_silent_pods_are_counted_in_one_reason() -> None:
    pods = [make_pod(f"llm-{number}") for number in range(8)]
    reasons = evaluate(pods).reasons

    assert reasons[0].endswith("llm-3 (main), llm-4 (main) and 3 more")
    assert len(evaluate(pods).signals[COMPUTE].missing) == 8


def test_noise_of_floating_point_exceeds_no_threshold() -> None:
    evaluation = evaluate(readings=load("125.00000000000001"))

    assert evaluation.signals[COMPUTE].wants is None


def test_a_percentage_beyond_reason_is_capped_like_any_other() -> None:
    assert recommended(evaluate(readings=load("1.7e308"))) == {"main": "2"}


# --- pods ---


def test_a_pod_of_the_future_is_too_young() -> None:
    """A clock that jumps back must not make a pod old."""
    pod = replace(make_pod(), started=NOW + timedelta(hours=1))

    assert evaluate([pod], load("150")).change is Change.NONE


def test_without_any_pod_the_previous_recommendation_waits_for_the_next() -> None:
    evaluation = evaluate([], make_readings(), state=RAISED)

    assert (evaluation.change, evaluation.state) == (Change.KEPT, RAISED)


def test_a_pod_that_is_too_young_to_be_measured_keeps_what_it_was_made_with() -> None:
    evaluation = evaluate([make_pod(age="1m", main="2")], load("0", "0"), state=RAISED)

    assert (evaluation.change, recommended(evaluation)) == (Change.KEPT, {"main": "2"})
    assert "not measured, as it is younger than 15m: pod llm-0" in evaluation.reasons


@pytest.mark.parametrize("age", ["1m", None])
def test_a_new_pod_that_was_not_given_its_amount_does_not_withdraw_it(age: str | None) -> None:
    evaluation = evaluate([make_pod(age=age)], load("0", "0"), state=RAISED)

    assert (evaluation.change, recommended(evaluation)) == (Change.KEPT, {"main": "2"})
    assert evaluation.reasons[-1] == "the previous recommendation stays: no pod is measured yet"


def test_one_pod_that_differs_is_enough_to_keep_it() -> None:
    pods = [make_pod("llm-0"), make_pod("llm-1", age="1m", main="2")]

    assert evaluate(pods, state=RAISED).change is Change.KEPT
    assert evaluate(pods[:1], state=RAISED).change is Change.NONE


def test_no_container_with_a_gpu_means_no_recommendation() -> None:
    evaluation = evaluate([make_pod(main=None)], load("150"), state=RAISED)

    assert recommended(evaluation) is None
    assert evaluation.reasons == (
        "left out, as no container in scope has a GPU: pod llm-0",
        "the previous recommendation is withdrawn: none of its containers has a GPU now",
    )
    assert evaluation.baseline == RAISED.baseline


@pytest.mark.parametrize("main", ["1", "2"])
def test_a_previous_recommendation_without_a_baseline_is_withdrawn(main: str) -> None:
    """What the pod has is its baseline then, as in sums: kept, it would never go away again."""
    state = make_state({"main": "2"}, COMPUTE)

    assert recommended(evaluate([make_pod(main=main)], state=state)) is None


def test_a_previous_recommendation_without_a_baseline_waits_until_a_pod_is_measured() -> None:
    state = make_state({"main": "2"}, COMPUTE)

    assert recommended(evaluate([make_pod(age="1m")], state=state)) == {"main": "2"}


# --- baseline ---


def test_a_baseline_of_zero_allows_nothing_and_divides_nothing() -> None:
    evaluation = evaluate([make_pod(main="0")], load("150"))

    assert (evaluation.change, recommended(evaluation)) == (Change.NONE, None)
    assert "compute: capped at 0 GPUs, 200 % of the baseline of 0 GPUs, instead of 1.8 GPUs" in (
        evaluation.reasons
    )


@pytest.mark.parametrize("usage", ["0", "10", "150"])
def test_a_baseline_of_zero_takes_nothing_from_anybody(usage: str) -> None:
    state = make_state(baseline={"main": "0"})
    evaluation = evaluate([make_pod(main="1")], load(usage), state=state)

    assert (evaluation.change, recommended(evaluation)) == (Change.NONE, None)


def test_an_allocation_of_zero_can_have_no_share_of_a_total() -> None:
    state = make_state(baseline={"main": "1"})
    evaluation = evaluate([make_pod(main="0")], load("150"), state=state)

    assert recommended(evaluation) is None
    assert evaluation.reasons[-1].startswith("pod llm-0 has 0 GPUs, so that 1.8 GPUs can't be")


def test_the_baseline_is_taken_from_the_hottest_eligible_pod() -> None:
    pods = [make_pod("llm-0", main="1"), make_pod("llm-1", main="2")]
    readings = make_readings({"llm-0": {"main": "130"}, "llm-1": {"main": "180"}})
    evaluation = evaluate(pods, readings)

    assert evaluation.baseline["main"].amount == 2
    assert evaluation.baseline["main"].origin == "pod llm-1"
    assert evaluation.signals[COMPUTE].pod == "llm-1"


def test_an_idle_workload_is_recommended_what_it_has_and_that_is_its_baseline() -> None:
    """Without one the recommendation would be held against nothing, and stay for ever."""
    first = evaluate([make_pod()], load("10", "10"))
    again = evaluate([make_pod()], load("10", "10"), state=first.state)

    assert (first.change, recommended(first)) == (Change.SCALE_BACK, {"main": "1"})
    assert (again.change, again.recommendation) == (Change.KEPT, first.recommendation)
    assert first.baseline["main"].amount == 1
    assert again.baseline == first.baseline


def test_what_was_idle_and_works_again_is_recommended_nothing() -> None:
    idle = evaluate([make_pod()], load("10", "10"))
    busy = evaluate([make_pod()], load("90", "90"), state=idle.state)

    assert (busy.change, recommended(busy)) == (Change.NONE, None)
    assert busy.reasons[-1] == (
        "the previous recommendation is withdrawn: every pod has its baseline"
    )


@pytest.mark.parametrize("baseline", [None, {"main": "1"}], ids=["new", "returned"])
def test_what_is_recommended_where_nothing_was_is_not_kept(baseline: dict[str, str] | None) -> None:
    first = evaluate([make_pod()], load("10", "10"), state=make_state(baseline=baseline))
    again = evaluate([make_pod()], load("10", "10"), state=first.state)

    assert (first.change, recommended(first)) == (Change.SCALE_BACK, {"main": "1"})
    assert (again.change, recommended(again)) == (Change.KEPT, {"main": "1"})


def test_pods_that_differ_before_the_first_upsize_have_no_baseline_to_go_back_to() -> None:
    """In a rollout, what the old pods have must not be held against the new template."""
    pods = [make_pod("llm-0"), make_pod("llm-1", age="1m", main="2")]
    calm = {pod.name: {"main": "10"} for pod in pods}
    evaluation = evaluate(pods, make_readings(calm, calm))

    assert (evaluation.change, recommended(evaluation)) == (Change.NONE, None)
    assert evaluation.reasons[-1] == (
        "no baseline of main is known, and pods llm-0 and llm-1 were made with different amounts"
        " of it"
    )


def test_a_cap_at_the_baseline_recommends_the_baseline() -> None:
    policy = make_policy(compute=make_signal(max_percent=100))
    evaluation = evaluate([make_pod()], load("150"), policy=policy)

    assert (evaluation.change, recommended(evaluation)) == (Change.UPSIZE, {"main": "1"})
    assert set(evaluation.baseline) == {"main"}


def test_the_cap_counts_also_where_somebody_gave_more() -> None:
    state = make_state(baseline={"main": "1"})
    evaluation = evaluate([make_pod(main="3")], load("390"), state=state)

    assert (evaluation.change, recommended(evaluation)) == (Change.UPSIZE, {"main": "2"})


def test_an_upsize_is_the_hottest_plus_headroom_also_where_that_is_less_than_the_pod_has() -> None:
    policy = make_policy(compute=make_signal(upsize=50, scale_back=20))
    evaluation = evaluate([make_pod()], load("60"), policy=policy)

    assert (evaluation.change, recommended(evaluation)) == (Change.UPSIZE, {"main": "0.72"})


def test_a_policy_that_is_tightened_takes_back_what_it_gave() -> None:
    policy = make_policy(compute=make_signal(max_percent=150))
    evaluation = evaluate([RAISED_POD], load("260"), policy=policy, state=RAISED)

    assert recommended(evaluation) == {"main": "1.5"}


def test_a_scale_back_is_the_hottest_plus_headroom_also_where_that_is_more_than_the_pod_has() -> (
    None
):
    policy = make_policy(compute=make_signal(scale_back=90))
    first = evaluate([make_pod()], load("89"), policy=policy)
    raised = [make_pod(main="1.068")]
    again = evaluate(raised, load("89"), policy=policy, state=first.state)
    calm = evaluate(raised, load("10"), policy=policy, state=again.state)

    assert (first.change, recommended(first)) == (Change.SCALE_BACK, {"main": "1.068"})
    assert first.baseline["main"].amount == 1
    assert (again.change, recommended(again)) == (Change.KEPT, {"main": "1.068"})
    assert (calm.change, recommended(calm)) == (Change.SCALE_BACK, {"main": "1"})


@pytest.mark.parametrize("previous", [{"main": "2"}, None], ids=["raised", "by-somebody-else"])
def test_a_scale_back_is_capped_as_an_upsize_is(previous: dict[str, str] | None) -> None:
    state = make_state(previous, COMPUTE, baseline={"main": "1"})
    evaluation = evaluate([make_pod(main="5")], load("250"), state=state)

    assert recommended(evaluation) == {"main": "2"}
    assert (
        "compute: capped at 2 GPUs, 200 % of the baseline of 1 GPU, instead of 3 GPUs"
        in evaluation.reasons
    )


def test_what_one_signal_uses_above_the_cap_is_not_taken_away_by_the_other() -> None:
    """1.5 GPUs were written as two, so that more is used than the cap would give."""
    policy = make_policy(
        compute=make_signal(scale_back=80, max_percent=150),
        memory=make_signal(scale_back=80, max_percent=150),
    )
    state = make_state({"main": "1.5"}, COMPUTE, baseline={"main": "1"})
    evaluation = evaluate([make_pod(main="2")], load("30", "140"), policy=policy, state=state)

    assert evaluation.signals[COMPUTE].candidate == 1
    assert evaluation.signals[MEMORY].candidate == Decimal("1.5")
    assert (evaluation.change, recommended(evaluation)) == (Change.KEPT, {"main": "1.5"})
    assert evaluation.state.previous is not None
    assert evaluation.state.previous.driver is MEMORY


# --- what stays, and whose it is ---


def test_the_same_amount_again_is_kept() -> None:
    evaluation = evaluate([RAISED_POD], load("300"), state=RAISED)

    assert (evaluation.change, evaluation.state) == (Change.KEPT, RAISED)


def test_the_same_total_is_kept_where_pods_have_what_was_recommended() -> None:
    state = make_state({"a": "0.4", "b": "1.6"}, baseline={"a": "0.2", "b": "0.8"})
    readings = make_readings({"llm-0": {"a": "100", "b": "200"}})

    kept = evaluate([make_pod(a="0.4", b="1.6")], readings, state=state)
    assert (kept.change, recommended(kept)) == (Change.KEPT, {"a": "0.4", "b": "1.6"})
    moved = evaluate([make_pod(a="0.5", b="1.5")], readings, state=state)
    assert (moved.change, recommended(moved)) == (Change.UPSIZE, {"a": "0.5", "b": "1.5"})


# A scope that was widened: `a` was raised by memory, `b` has joined since.
JOINED = make_state({"a": "0.8"}, MEMORY, baseline={"a": "0.5"})
JOINED_POD = make_pod(a="0.8", b="1")
CALM, BUSY = {"a": "10", "b": "10"}, {"a": "90", "b": "60"}


@pytest.mark.parametrize(
    ("driver", "memory"),
    [
        pytest.param(MEMORY, BUSY, id="its-owner-asks-for-nothing"),
        pytest.param(None, CALM, id="its-owner-is-not-known"),
    ],
)
def test_a_container_that_joins_makes_no_total_higher(
    driver: Signal | None, memory: dict[str, str]
) -> None:
    """1.5 GPUs for both are less than 0.8 for the one and what the other has."""
    state = make_state({"a": "0.8"}, driver, baseline={"a": "0.5"})
    readings = make_readings({"llm-0": CALM}, {"llm-0": memory})
    evaluation = evaluate([JOINED_POD], readings, state=state)

    assert (evaluation.change, recommended(evaluation)) == (Change.KEPT, {"a": "0.8"})
    assert "1.5 GPUs by compute does not replace 1.8 GPUs" in " ".join(evaluation.reasons)
    assert set(evaluation.baseline) == {"a"}


def test_the_baseline_of_a_container_that_joins_is_what_it_has_when_something_is_recommended() -> (
    None
):
    calm = make_readings({"llm-0": CALM}, {"llm-0": CALM})
    first = evaluate([JOINED_POD], calm, state=JOINED)

    assert (first.change, recommended(first)) == (Change.SCALE_BACK, {"a": "0.5", "b": "1"})
    joined = first.baseline["b"]
    assert (joined.amount, joined.since, joined.origin) == (Decimal(1), NOW, "pod llm-0")


def test_scaling_back_again_and_again_ends_at_the_baselines() -> None:
    """`main` was written as four GPUs, and `draft` was never raised: neither gets the other's."""
    state = make_state({"main": "4"}, COMPUTE, baseline={"main": "2"})
    containers = {"main": "4", "draft": "2"}
    calm = {"llm-0": {"main": "10", "draft": "10"}}
    for _ in range(3):
        evaluation = evaluate([make_pod(**containers)], make_readings(calm, calm), state=state)
        state, found = evaluation.state, recommended(evaluation)

        assert found == {"main": "2", "draft": "2"}
        containers = found


def test_a_container_that_joins_with_different_amounts_is_not_scaled_back() -> None:
    pods = [JOINED_POD, make_pod("llm-1", a="0.8", b="2")]
    calm = {pod.name: CALM for pod in pods}
    evaluation = evaluate(pods, make_readings(calm, calm), state=JOINED)

    assert recommended(evaluation) == {"a": "0.8"}
    assert (
        "no baseline of b is known, and pods llm-0 and llm-1 were made with different amounts of it"
        in evaluation.reasons
    )


def test_a_container_that_joins_gets_its_share() -> None:
    state = make_state({"a": "2"}, baseline={"a": "1"})
    evaluation = evaluate(
        [make_pod(a="1", b="1")], make_readings({"llm-0": {"a": "200", "b": "200"}}), state=state
    )

    assert recommended(evaluation) == {"a": "2", "b": "2"}
    assert evaluation.baseline["b"].amount == 1


def test_of_equal_totals_the_owners_counts() -> None:
    state = make_state({"main": "1.2"}, MEMORY, baseline={"main": "1"})
    evaluation = evaluate([make_pod(main="1")], load("150", "150"), state=state)

    assert evaluation.recommendation is not None
    assert evaluation.recommendation.driver is MEMORY


def test_a_rejected_total_leaves_a_pod_at_its_baseline_without_any() -> None:
    """The pods never took it over, and its owner is silent."""
    state = make_state({"main": "2"}, MEMORY, baseline={"main": "1"})
    evaluation = evaluate([make_pod(main="1")], load(compute="50", memory="100"), state=state)

    assert recommended(evaluation) is None
    assert evaluation.reasons[-2:] == (
        "1 GPU by compute does not replace 2 GPUs: that was owed to memory, which asks for nothing"
        " now",
        "the previous recommendation is withdrawn: every pod has its baseline",
    )


def test_an_upsize_counts_before_a_scale_back_of_the_same_signal() -> None:
    policy = make_policy(compute=make_signal(upsize=50, scale_back=90))
    report = evaluate([make_pod()], load("60"), policy=policy).signals[COMPUTE]

    assert report.wants is UPSIZE


def test_the_two_windows_are_read_apart() -> None:
    """A mean of 50 hides a peak of 70, which the scale-back window shows."""
    calm, peak = {"llm-0": {"main": "50"}}, {"llm-0": {"main": "140"}}
    readings = make_readings(compute_upsize=calm, compute_scale_back=peak)
    evaluation = evaluate([RAISED_POD], readings, state=RAISED)

    assert evaluation.signals[COMPUTE].usage == Decimal("0.5")
    assert evaluation.signals[COMPUTE].wants is None
    assert evaluation.reasons[0] == (
        "compute: pod llm-0 uses 0.5 of 2 GPUs, not above 125 % of it;"
        " pod llm-0 uses 1.4 of 2 GPUs, not below 60 % of it all the last 10m"
    )


@pytest.mark.parametrize(
    ("containers", "want"),
    [
        pytest.param({"a": "1", "b": "1"}, {"a": "2", "b": "2"}, id="even"),
        pytest.param({"a": "0.3", "b": "0.1"}, {"a": "0.6", "b": "0.2"}, id="uneven"),
        pytest.param({"a": "1", "b": "0"}, {"a": "2", "b": "0"}, id="nothing-of-nothing"),
    ],
)
def test_shares_follow_the_allocations(containers: dict[str, str], want: dict[str, str]) -> None:
    readings = make_readings({"llm-0": {"a": "900", "b": "0"}})

    assert recommended(evaluate([make_pod(**containers)], readings)) == want


def test_a_remainder_goes_to_the_last_container() -> None:
    containers = {"a": "1", "b": "1", "c": "1"}
    readings = make_readings({"llm-0": {"a": "100", "b": "200", "c": "100.0001"}})
    policy = make_policy(compute=make_signal(headroom=0))
    evaluation = evaluate([make_pod(**containers)], readings, policy=policy)

    assert recommended(evaluation) == {"a": "1.333334", "b": "1.333334", "c": "1.333333"}


def test_equal_input_gives_equal_output_whatever_the_order_of_pods() -> None:
    pods = [make_pod(f"llm-{number}") for number in range(5)]
    readings = make_readings({pod.name: {"main": "150"} for pod in pods})

    def run(given: list[ObservedPod]) -> object:
        return decide(make_policy(), WorkloadState(), given, readings, NOW)

    assert run(pods) == run(pods[::-1])


# --- devices that look like one ---

NAMELESS = {"": "90"}
FULL, CURRENT = "fullGPU", "currentAllocation"


@pytest.mark.parametrize("interpretation", [FULL, CURRENT])
def test_nothing_is_taken_away_where_several_devices_look_like_one(interpretation: str) -> None:
    """Four devices, of which the busiest is at 50 %: all of them may be."""
    signal = make_signal(interpretation=interpretation)
    loads = {"llm-0": {"main": {"": "50"}}}

    evaluation = evaluate(
        [make_pod(main="4")],
        make_readings(loads, loads),
        policy=make_policy(compute=signal, memory=signal),
        state=make_state({"main": "4"}, baseline={"main": "2"}),
    )

    assert (evaluation.change, recommended(evaluation)) == (Change.KEPT, {"main": "4"})
    assert evaluation.signals[COMPUTE].missing == ("llm-0",)
    assert (
        "compute: no scale-back: several devices look like one in pod llm-0 (main)"
        in evaluation.reasons
    )
    assert any("pod llm-0 uses at least 0.5 of 4 GPUs" in each for each in evaluation.reasons)


@pytest.mark.parametrize(
    ("interpretation", "threshold", "want"),
    [
        # One device at 90 % alone is 22.5 % of four.
        pytest.param(FULL, 20, {"main": "1.08"}, id="whole-above"),
        pytest.param(FULL, 23, None, id="whole-below"),
        pytest.param(CURRENT, 20, {"main": "1.08"}, id="current-above"),
        pytest.param(CURRENT, 23, None, id="current-below"),
    ],
)
def test_more_is_asked_for_where_the_least_that_is_in_use_is_above_the_threshold(
    interpretation: str, threshold: int, want: dict[str, str] | None
) -> None:
    signal = make_signal(interpretation=interpretation, upsize=threshold, scale_back=10)
    loads = {"llm-0": {"main": NAMELESS}}

    evaluation = evaluate(
        [make_pod(main="4")],
        make_readings(loads, {"llm-0": {"main": {"": "0"}}}),
        policy=make_policy(compute=signal, memory=signal),
    )

    assert recommended(evaluation) == want
    assert evaluation.signals[COMPUTE].usage == Decimal("0.9")


@pytest.mark.parametrize(
    ("has", "devices", "load"),
    [
        pytest.param("1", {}, {"": "50"}, id="one-device"),
        pytest.param("0.5", {}, {"": "25"}, id="a-share-of-one"),
        pytest.param("2", {}, {"0": "25", "1": "75", "": "75"}, id="all-are-named-as-well"),
    ],
)
def test_devices_that_can_be_told_apart_need_no_label(
    has: str, devices: dict[str, int], load: dict[str, str]
) -> None:
    loads = {"llm-0": {"main": load}}

    evaluation = evaluate(
        [replace(make_pod(main=has), devices=devices)], make_readings(loads, loads)
    )

    assert evaluation.signals[COMPUTE].missing == ()
    assert evaluation.change is Change.SCALE_BACK


def test_a_share_of_several_devices_counts_as_several() -> None:
    """Half of each of two devices is one GPU in all."""
    loads = {"llm-0": {"main": {"": "50"}}}
    pod = replace(make_pod(main="1"), devices={"main": 2})

    assert evaluate([pod], make_readings(loads, loads)).signals[COMPUTE].missing == ("llm-0",)


# --- what an owner gave ---


def test_the_baseline_is_what_the_owner_gave_the_hottest_pod() -> None:
    """Half-way through a roll-out from one to three, and nothing is stored any more."""
    old = replace(make_pod("llm-0", main="2"), own={"main": Decimal(1)})
    pods = [old, make_pod("llm-1", main="3")]
    loads = {"llm-0": {"main": "290"}, "llm-1": {"main": "10"}}

    evaluation = evaluate(pods, make_readings(loads, loads))

    assert evaluation.baseline["main"].amount == 1
    # 200 % of one, and not of the two that were written into it.
    assert recommended(evaluation) == {"main": "2"}


def test_pods_with_equal_amounts_of_different_owners_have_no_baseline_to_go_back_to() -> None:
    """Half-way through a roll-out from one to two, which the old pod was given before."""
    old = replace(make_pod("llm-0", main="2"), own={"main": Decimal(1)})
    calm = {name: {"main": "10"} for name in ("llm-0", "llm-1")}

    evaluation = evaluate([old, make_pod("llm-1", main="2")], make_readings(calm, calm))

    assert recommended(evaluation) is None
    assert "were made with different amounts" in evaluation.reasons[-1]


# --- pods that keep their names ---


@pytest.mark.parametrize(
    ("keeps_name", "age", "change"),
    [
        pytest.param(True, "9m", Change.NONE, id="the-window-reaches-back"),
        pytest.param(True, "10m", Change.UPSIZE, id="as-old-as-the-window"),
        pytest.param(False, "1m", Change.UPSIZE, id="a-new-name"),
    ],
)
def test_a_window_does_not_reach_back_to_a_predecessor_of_the_same_name(
    keeps_name: bool, age: str, change: Change
) -> None:
    pod = replace(make_pod(age=age), keeps_name=keeps_name)
    policy = make_policy(min_pod_age=timedelta(minutes=1))

    evaluation = evaluate([pod], load("130", "10"), policy=policy)

    assert evaluation.change is change
    if change is Change.NONE:
        assert "not measured, as it is younger than 10m: pod llm-0" in evaluation.reasons
