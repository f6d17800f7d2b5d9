"""
What the description of GPU reactive policies says under "Behavior": one test for each sentence,
named by it.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from tests import gpu_documents
from tests.gpu_rounds import (
    COMPUTE,
    MEMORY,
    NOW,
    SCALE_BACK,
    evaluate,
    load,
    make_pod,
    make_policy,
    make_readings,
    make_signal,
    make_state,
    recommended,
)
from tests.gpu_scenarios import make_scenario, make_scenario_pod, make_workload, run
from webhook.model.rightsizing.documents import read_document
from webhook.model.rightsizing.policies import (
    DEFAULT_PRIORITIES,
    GlobalSettings,
    ReactivePolicy,
    Signal,
)
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.decisions.bounding import bound
from webhook.reactive.decisions.choose import contributors, select
from webhook.reactive.decisions.states import (
    Evaluation,
    Recommendation,
    SignalReport,
    WorkloadState,
)

TWO = {"a": "1", "b": "1"}


def make_evaluation(containers: dict[str, str]) -> Evaluation:
    amounts = {name: Decimal(amount) for name, amount in containers.items()}
    signals = {COMPUTE: SignalReport(), MEMORY: SignalReport()}
    return Evaluation({}, Recommendation(amounts, COMPUTE), Change.UPSIZE, signals)


def test_baseline_is_the_live_gpu_allocation_before_first_upsize_and_is_persisted_per_container() -> (
    None
):
    pods = [make_pod(a="0.5", b="1")]
    hot = make_readings({"llm-0": {"a": "100", "b": "130"}})

    before = evaluate(pods, make_readings({"llm-0": {"a": "40", "b": "60"}}))
    calm = {"llm-0": {"a": "10", "b": "10"}}
    idle = evaluate(pods, make_readings(calm, calm))
    first = evaluate(pods, hot)
    raised = [make_pod(a="0.92", b="1.84")]
    later = evaluate(raised, make_readings({"llm-0": {"a": "200", "b": "200"}}), state=first.state)

    assert before.baseline == {}
    kept = {name: (base.amount, base.since, base.origin) for name, base in first.baseline.items()}
    assert kept == {
        "a": (Decimal("0.5"), NOW, "pod llm-0"),
        "b": (Decimal(1), NOW, "pod llm-0"),
    }
    assert later.change is Change.UPSIZE
    assert later.baseline == first.baseline
    # What is recommended before any upsize is the live allocation, too.
    assert idle.baseline == first.baseline
    assert evaluate(pods, hot, state=idle.state).baseline == first.baseline


def test_spec_scope_containers_limits_baseline_state_metrics_aggregation_and_redistribution_to_exact_names() -> (
    None
):
    policy = make_policy(containers=("a",))
    # By itself `a` is hot, together with `b` it would not be; and `ab` is another container.
    readings = make_readings({"llm-0": {"a": "150", "b": "10", "ab": "10"}})
    evaluation = evaluate([make_pod(a="1", b="1", ab="1")], readings, policy=policy)

    assert set(evaluation.baseline) == {"a"}
    assert evaluation.signals[COMPUTE].usage == Decimal("1.5")
    assert evaluation.signals[COMPUTE].allocation == 1
    assert recommended(evaluation) == {"a": "1.8"}


def test_empty_means_all_regular_containers_and_restartable_init_containers() -> None:
    pod = make_scenario_pod(
        containers={"main": {"gpu": "0.5"}, "sidecar": {"gpu": "0.5"}},
        initContainers={"proxy": {"gpu": "1", "restartable": True}, "fetch": {"gpu": "1"}},
    )

    assert run(make_scenario(workloads=[make_workload(pod)]))[0].allocation == 2


def test_narrowing_scope_removes_old_recommendation_and_baseline_entries_for_excluded_containers() -> (
    None
):
    policy = make_policy(containers=("a",))
    state = make_state({"a": "2", "b": "2"}, baseline=TWO)
    evaluation = evaluate([make_pod(a="2", b="2")], policy=policy, state=state)

    assert set(evaluation.baseline) == {"a"}
    assert recommended(evaluation) == {"a": "2"}


def test_by_default_only_one_same_kind_gpu_reactive_policy_contributes_to_a_workload() -> None:
    policies = [make_policy("light"), make_policy("heavy", weight=5), make_policy("mid", weight=3)]
    chosen = contributors(policies, DEFAULT_PRIORITIES, multi_policy=False)

    assert [policy.key.name for policy in chosen] == ["heavy"]


def test_with_multi_policy_container_rightsizing_enabled_separate_container_targets_can_come_from_different_policies_and_policy_evaluation_resolves_overlaps() -> (
    None
):
    own = make_policy("own", containers=("a",))
    other = make_policy("other", containers=("b",))
    cluster = make_policy("wide", kind="ClusterGpuReactivePolicy")
    opinions = [
        (own, make_evaluation({"a": "2"})),
        (other, make_evaluation({"b": "3"})),
        (cluster, make_evaluation({"a": "4", "b": "4", "c": "4"})),
    ]
    policies = [policy for policy, _ in opinions]

    assert len(contributors(policies, DEFAULT_PRIORITIES, multi_policy=True)) == 3
    by_default = select(opinions, DEFAULT_PRIORITIES, multi_policy=True)
    assert {name: str(target.amount) for name, target in by_default.targets.items()} == {
        "a": "2",
        "b": "3",
        "c": "4",
    }
    turned = select(opinions, {"ClusterGpuReactivePolicy": 999}, multi_policy=True)
    assert {str(target.amount) for target in turned.targets.values()} == {"4"}


@pytest.mark.parametrize(
    ("age", "want"),
    [
        pytest.param("14m", Change.NONE, id="too-young"),
        pytest.param("15m", Change.UPSIZE, id="just-old-enough"),
    ],
)
def test_pod_metrics_are_considered_only_after_the_pod_age_reaches_spec_min_pod_metrics_age(
    age: str, want: Change
) -> None:
    evaluation = evaluate([make_pod(age=age)], load("150"))

    assert ReactivePolicy.__dataclass_fields__["min_pod_age"].default == timedelta(minutes=15)
    assert evaluation.change is want


def test_the_policy_evaluates_two_required_gpu_signals_compute_and_memory() -> None:
    only_compute = gpu_documents.make_policy()
    del only_compute["spec"]["metrics"]["memory"]

    with pytest.raises(ExceptionGroup) as caught:
        read_document(only_compute)

    assert "spec.metrics.memory: is needed" in [str(error) for error in caught.value.exceptions]
    assert set(evaluate().signals) == {COMPUTE, MEMORY}


@pytest.mark.parametrize(
    ("interpretation", "want"),
    [
        pytest.param("fullGPU", Decimal("0.8"), id="of-a-whole-gpu"),
        pytest.param("currentAllocation", Decimal("0.4"), id="of-what-the-container-has"),
    ],
)
def test_each_metric_declares_its_prometheus_value_interpretation(
    interpretation: str, want: Decimal
) -> None:
    policy = make_policy(memory=make_signal(interpretation=interpretation))
    evaluation = evaluate([make_pod(main="0.5")], load("80", "80"), policy=policy)

    assert evaluation.signals[MEMORY].usage == want
    assert evaluation.signals[COMPUTE].usage == Decimal("0.8")


def test_full_gpu_treats_the_value_as_a_percentage_of_one_whole_gpu() -> None:
    """A container with two devices uses the sum of both."""
    readings = make_readings({"llm-0": {"main": {"gpu-a": "90", "gpu-b": "70"}}})
    evaluation = evaluate([make_pod(main="2")], readings)

    assert evaluation.signals[COMPUTE].usage == Decimal("1.6")


def test_current_allocation_treats_it_as_a_percentage_of_the_containers_current_gpu_allocation() -> (
    None
):
    """Each of two devices says it of its own half, so that they are averaged."""
    policy = make_policy(compute=make_signal(interpretation="currentAllocation"))
    readings = make_readings({"llm-0": {"main": {"gpu-a": "90", "gpu-b": "70"}}})
    evaluation = evaluate([make_pod(main="2")], readings, policy=policy)

    assert evaluation.signals[COMPUTE].usage == Decimal("1.6")


def test_each_metric_is_evaluated_from_per_pod_aggregate_gpu_usage() -> None:
    """One container alone would be far above the threshold; the pod's sum is not."""
    readings = make_readings({"llm-0": {"a": "90", "b": "10"}})
    report = evaluate([make_pod(a="0.5", b="0.5")], readings).signals[COMPUTE]

    assert (report.usage, report.allocation, report.wants) == (Decimal(1), Decimal(1), None)


def test_upsize_evaluation_is_pod_level_per_metric_any_eligible_pod_total_can_request_it() -> None:
    pods = [make_pod("llm-0"), make_pod("llm-1"), make_pod("llm-2")]
    calm = {"main": "10"}
    loads = {"llm-0": calm, "llm-1": {"main": "126"}, "llm-2": calm}

    assert evaluate(pods, make_readings(loads)).change is Change.UPSIZE
    report = evaluate(pods, make_readings({**loads, "llm-1": {"main": "125"}})).signals[COMPUTE]
    assert report.wants is None, "exactly the threshold does not exceed it"


@pytest.mark.parametrize(
    ("second", "want"),
    [
        pytest.param({"main": "59"}, SCALE_BACK, id="all-below"),
        pytest.param({"main": "60"}, None, id="one-at-the-threshold"),
        pytest.param({}, None, id="one-without-samples"),
    ],
)
def test_scale_back_evaluation_is_owner_wide_per_metric_all_eligible_pod_totals_must_stay_below_and_every_included_container_must_have_samples(
    second: dict[str, str], want: Any
) -> None:
    state = make_state({"main": "1"}, baseline={"main": "0.5"})
    pods = [make_pod("llm-0"), make_pod("llm-1")]
    readings = make_readings({"llm-0": {"main": "20"}, "llm-1": second})
    report = evaluate(pods, readings, state=state).signals[COMPUTE]

    assert report.wants is want


@pytest.mark.parametrize("direction", ["upsize", "scaleBack"])
@pytest.mark.parametrize("signal", ["compute", "memory"])
def test_metrics_windows_must_be_at_least_1m(signal: str, direction: str) -> None:
    manifest = gpu_documents.make_policy()
    manifest["spec"]["metrics"][signal][direction] = {"metricsWindow": "59s"}

    with pytest.raises(ExceptionGroup) as caught:
        read_document(manifest)

    (problem,) = caught.value.exceptions
    assert str(problem).startswith(f"spec.metrics.{signal}.{direction}.metricsWindow: ")


def test_pods_without_status_start_time_are_treated_as_ineligible_for_metric_checks() -> None:
    evaluation = evaluate([make_pod(age=None)], load("150", "150"))

    assert evaluation.change is Change.NONE
    assert evaluation.signals[COMPUTE] == SignalReport()
    assert evaluation.reasons == ("not measured, as it has no start time: pod llm-0",)


def test_containers_missing_a_current_gpu_allocation_are_excluded_from_aggregate_math_and_omitted_from_the_emitted_recommendation_for_that_reconcile() -> (
    None
):
    # `b` has no samples either, which doesn't matter, as it isn't included.
    evaluation = evaluate([make_pod(a="1", b=None)], make_readings({"llm-0": {"a": "150"}}))

    assert recommended(evaluation) == {"a": "1.8"}
    assert evaluation.signals[COMPUTE].missing == ()

    state = make_state({"a": "1.8", "b": "1.8"}, baseline=TWO)
    kept = evaluate([make_pod(a="1.8", b=None)], state=state)
    assert (kept.change, recommended(kept)) == (Change.KEPT, {"a": "1.8"})


def test_recommendations_are_emitted_as_gpu_requests_and_consumed_by_normal_policy_evaluation() -> (
    None
):
    """An amount by container, which the choice among policies and the strategy's bounds go over."""
    policy = make_policy()
    evaluation = evaluate([make_pod()], load("150"), policy=policy)
    selection = select([(policy, evaluation)], DEFAULT_PRIORITIES, multi_policy=False)
    strategy: Any = read_document(gpu_documents.make_strategy())
    amounts = {name: target.amount for name, target in selection.targets.items()}

    assert bound(amounts, {"main": Decimal(1)}, strategy).writable == {"main": Decimal("1.8")}


def test_upsize_target_is_the_hottest_eligible_pod_total_plus_headroom_percent_capped_by_max_percent_relative_to_the_included_containers_summed_baseline() -> (
    None
):
    pods = [make_pod("llm-0"), make_pod("llm-1"), make_pod("young", age="1m")]
    loads = {"llm-0": {"main": "130"}, "llm-1": {"main": "140"}, "young": {"main": "900"}}

    assert recommended(evaluate(pods, make_readings(loads))) == {"main": "1.68"}
    loads["llm-1"] = {"main": "190"}
    assert recommended(evaluate(pods, make_readings(loads))) == {"main": "2"}
    raised = make_state({"main": "2"}, baseline={"main": "1.5"})
    capped = evaluate(
        [make_pod("llm-1", main="2")], make_readings({"llm-1": {"main": "280"}}), state=raised
    )
    assert recommended(capped) == {"main": "3"}


def test_scale_back_target_is_the_hottest_eligible_pod_total_plus_headroom_percent_floored_to_the_included_containers_summed_baseline() -> (
    None
):
    state = make_state({"main": "2"}, baseline={"main": "1"})
    pods = [make_pod("llm-0", main="2"), make_pod("llm-1", main="2")]

    def total(hottest: str) -> Any:
        readings = make_readings({"llm-0": {"main": "20"}, "llm-1": {"main": hottest}})
        return recommended(evaluate(pods, readings, state=state))

    assert total("110") == {"main": "1.32"}
    assert total("50") == {"main": "1"}


def test_the_controller_compares_the_compute_and_memory_recommendations_and_keeps_the_higher_desired_total() -> (
    None
):
    evaluation = evaluate(readings=load(compute="130", memory="150"))

    assert evaluation.signals[COMPUTE].candidate == Decimal("1.56")
    assert recommended(evaluation) == {"main": "1.8"}
    assert evaluation.state.previous == Recommendation({"main": Decimal("1.8")}, MEMORY)


def test_a_lower_recommendation_is_accepted_when_the_existing_recommendation_was_driven_by_the_same_metric() -> (
    None
):
    state = make_state({"main": "2"}, COMPUTE, baseline={"main": "1"})
    evaluation = evaluate([make_pod(main="2")], load(compute="100"), state=state)

    assert (evaluation.change, recommended(evaluation)) == (Change.SCALE_BACK, {"main": "1.2"})


@pytest.mark.parametrize(
    ("memory", "want", "driver"),
    [
        pytest.param("90", {"main": "1.32"}, COMPUTE, id="the-owner-emits-a-lower-candidate"),
        pytest.param("140", {"main": "2"}, MEMORY, id="the-owner-emits-nothing"),
        pytest.param(None, {"main": "2"}, MEMORY, id="the-owner-has-no-samples"),
    ],
)
def test_a_lower_cross_metric_recommendation_is_accepted_only_if_the_previously_driving_metric_also_emits_and_its_candidate_is_at_or_below_the_accepted_lower_total(
    memory: str | None, want: dict[str, str], driver: Any
) -> None:
    state = make_state({"main": "2"}, MEMORY, baseline={"main": "1"})
    readings = load(compute="110", memory=memory)
    evaluation = evaluate([make_pod(main="2")], readings, state=state)

    assert recommended(evaluation) == want
    assert evaluation.recommendation is not None
    assert evaluation.recommendation.driver is driver


@pytest.mark.parametrize("driver", [COMPUTE, MEMORY])
def test_equal_lower_totals_keep_the_existing_driving_metric_to_avoid_ownership_churn(
    driver: Signal,
) -> None:
    state = make_state({"main": "2"}, driver, baseline={"main": "1"})
    evaluation = evaluate([make_pod(main="2")], load("100", "100"), state=state)

    assert evaluation.recommendation == Recommendation({"main": Decimal("1.2")}, driver)


def test_existing_recommendations_that_predate_driving_metric_metadata_do_not_lower_until_a_non_decreasing_recommendation_establishes_an_owner_metric() -> (
    None
):
    pods = [make_pod(main="1.8")]
    unowned = make_state({"main": "1.8"}, None, baseline={"main": "1"})

    held = evaluate(pods, load("50", "50"), state=unowned)
    assert (held.change, recommended(held)) == (Change.KEPT, {"main": "1.8"})
    risen = evaluate(pods, load("240"), state=held.state)
    assert (recommended(risen), risen.state.previous and risen.state.previous.driver) == (
        {"main": "2"},
        COMPUTE,
    )
    lowered = evaluate([make_pod(main="2")], load("50", "50"), state=risen.state)
    assert recommended(lowered) == {"main": "1"}


@pytest.mark.parametrize(
    ("pods", "load", "state", "want"),
    [
        pytest.param(
            {"llm-0": {"a": "1", "b": "1"}, "llm-1": {"a": "0.75", "b": "0.25"}},
            {"llm-0": {"a": "5", "b": "5"}, "llm-1": {"a": "120", "b": "10"}},
            make_state(),
            {"a": "1.17", "b": "0.39"},
            id="those-of-the-hottest",
        ),
        pytest.param(
            {"llm-0": {"a": "0.5", "b": "0.5"}},
            {"llm-0": {"a": "100", "b": "30"}},
            make_state({"a": "1.2", "b": "0.36"}, baseline={"a": "0.5", "b": "0.5"}),
            {"a": "0.78", "b": "0.78"},
            id="also-where-the-total-is-the-same-again",
        ),
        pytest.param(
            {"llm-0": {"a": "0.5", "b": "1"}},
            {"llm-0": {"a": "100", "b": "100"}},
            make_state(baseline={"a": "1", "b": "0.25"}),
            {"a": "0.8", "b": "1.6"},
            id="whatever-their-baselines-are-in-an-upsize",
        ),
        pytest.param(
            {"llm-0": {"a": "2", "b": "2"}},
            {"llm-0": {"a": "100", "b": "50"}},
            make_state({"a": "2", "b": "2"}, baseline={"a": "0.5", "b": "0.5"}),
            {"a": "0.9", "b": "0.9"},
            id="in-a-scale-back-above-the-baselines",
        ),
        # A scale-back goes to the baseline, which is persisted per container, and not beyond it.
        pytest.param(
            {"llm-0": {"a": "1", "b": "1"}},
            {"llm-0": {"a": "10", "b": "10"}},
            make_state({"a": "1", "b": "0.9"}, baseline={"a": "1", "b": "0.5"}),
            {"a": "1", "b": "0.5"},
            id="but-no-scale-back-goes-below-the-baseline-of-a-container",
        ),
        pytest.param(
            {"llm-0": {"a": "1", "b": "2", "c": "1"}},
            {"llm-0": {"a": "50", "b": "100", "c": "50"}},
            make_state(
                {"a": "1", "b": "2", "c": "1"}, baseline={"a": "1", "b": "0.5", "c": "0.25"}
            ),
            {"a": "1", "b": "0.933333", "c": "0.466667"},
            id="and-the-others-share-out-the-rest",
        ),
    ],
)
def test_after_a_workload_total_is_chosen_it_is_redistributed_back_to_the_selected_pods_containers_in_proportion_to_their_current_gpu_allocations(
    pods: dict[str, dict[str, str]],
    load: dict[str, dict[str, str]],
    state: WorkloadState,
    want: dict[str, str],
) -> None:
    observed = [make_pod(name, **containers) for name, containers in pods.items()]

    assert recommended(evaluate(observed, make_readings(load, load), state=state)) == want


@pytest.mark.parametrize(
    ("allocation", "previous", "want"),
    [
        pytest.param("1.5", {"main": "1.5"}, {"main": "1.5"}, id="differs-and-there-is-one"),
        pytest.param("1.5", None, None, id="differs-and-there-is-none"),
        pytest.param("1", {"main": "1.5"}, None, id="has-its-baseline"),
    ],
)
def test_if_neither_produces_an_accepted_recommendation_and_current_allocation_still_differs_from_baseline_the_controller_reuses_the_previous_recommendation_when_present_otherwise_it_emits_nothing(
    allocation: str, previous: dict[str, str] | None, want: dict[str, str] | None
) -> None:
    between = str(Decimal(allocation) * 90)
    state = make_state(previous, baseline={"main": "1"})
    evaluation = evaluate([make_pod(main=allocation)], load(between, between), state=state)

    assert recommended(evaluation) == want
    assert evaluation.change is (Change.KEPT if want else Change.NONE)


def test_workloads_matched_by_gpu_reactive_policies_are_reevaluated_periodically_using_gpu_reactive_check_interval() -> (
    None
):
    assert GlobalSettings().check_interval == timedelta(minutes=1)
    settings = gpu_documents.make_settings(gpuReactiveCheckInterval="5m")
    times = [step.time for step in run(settings, make_scenario(duration="10m"))]

    assert [later - time for time, later in pairwise(times)] == [timedelta(minutes=5)] * 2
