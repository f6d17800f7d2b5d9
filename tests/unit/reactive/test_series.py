"""Loads over hours: how often a recommendation changes, and what bad samples do to it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests import gpu_documents
from tests.gpu_scenarios import (
    make_samples,
    make_scenario,
    make_scenario_pod,
    make_workload,
    run,
)
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.scenarios.replay import Step, to_json

HOURS = 3
MINUTES = HOURS * 60
# Before the start there are as many minutes as a pod needs to be looked at.
BEFORE = 30
LENGTH = BEFORE + MINUTES + 1
# Of half a GPU in percent of a whole one: the upsize threshold is 60, the scale-back one 40.
BASE = "0.5"


def series(values: Sequence[Any], signal: str = "compute") -> Any:
    place = {"pod": "llm-0", "container": "main", "signal": signal}
    return {**place, "from": f"-{BEFORE}m", "values": list(values)}


def replayed(values: Sequence[Any], **workload: Any) -> list[Step]:
    """Three hours of *values*, one a minute, of both signals; pods are recreated at once."""
    loads = [series(values, signal) for signal in ("compute", "memory")]
    policy = gpu_documents.make_policy()
    policy["spec"]["metrics"]["memory"]["prometheus"]["interpretation"] = "fullGPU"
    scenario = make_scenario(*loads, workloads=[make_workload(**workload)], duration=f"{HOURS}h")
    return run(policy, scenario)


def count(steps: Sequence[Step], change: Change) -> int:
    return len([step for step in steps if step.evaluation.change is change])


def square_wave(low: int, high: int, minutes: int) -> list[int]:
    return [high if (minute // minutes) % 2 else low for minute in range(LENGTH)]


def noisy(load: int) -> list[float]:
    chance = Random(27)
    return [round(load * chance.uniform(0.9, 1.1), 3) for _ in range(LENGTH)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "upsizes"),
    [
        pytest.param(square_wave(59, 61, 1), 0, id="around-the-upsize-threshold"),
        pytest.param(square_wave(60, 61, 1), 1, id="just-above-the-upsize-threshold"),
        pytest.param(square_wave(39, 41, 1), 0, id="around-the-scale-back-threshold"),
        pytest.param(square_wave(20, 80, 2), 0, id="a-quick-square-wave"),
        pytest.param(square_wave(50, 90, 3), 1, id="a-hot-square-wave"),
        pytest.param(noisy(50), 0, id="noise-between-the-thresholds"),
        pytest.param(noisy(80), 1, id="noise-above-the-upsize-threshold"),
        pytest.param(noisy(60), 1, id="noise-at-the-upsize-threshold"),
    ],
)
def test_a_recommendation_does_not_flap(values: Sequence[Any], upsizes: int) -> None:
    steps = replayed(values)

    assert count(steps, Change.UPSIZE) == upsizes
    assert count(steps, Change.SCALE_BACK) == 0


def test_a_load_that_rises_and_falls_changes_it_once_each_way() -> None:
    steps = replayed([*[20] * 60, *[80] * 60, *[20] * (LENGTH - 120)])

    allocations = [
        str(step.allocation)
        for step, after in pairwise(steps)
        if step.allocation != after.allocation
    ]
    assert [*allocations, str(steps[-1].allocation)] == [BASE, "0.744000", BASE]
    assert count(steps, Change.UPSIZE) == 1
    # The first says that an idle workload has what it needs, and so does the last.
    assert count(steps, Change.SCALE_BACK) == 3


@pytest.mark.parametrize("gap", [1, 9, 40])
def test_a_gap_in_the_data_changes_nothing(gap: int) -> None:
    """As a counter that starts anew leaves one."""
    values: list[Any] = [*[80] * 90, *[None] * gap, *[80] * (LENGTH - 90 - gap)]
    steps = replayed(values)

    assert count(steps, Change.UPSIZE) == 1
    assert count(steps, Change.SCALE_BACK) == 0
    assert {str(step.total) for step in steps[31:]} == {"0.960000"}


def test_a_restart_of_the_reconciler_changes_nothing() -> None:
    """What it knows afterwards is what was written down: baseline, recommendation and driver."""
    values = noisy(80)
    whole = replayed(values)
    half = MINUTES // 2
    written = to_json(whole[half - 1])
    previous = {
        "containers": written["recommendation"],
        "driver": written["driver"],
        "baseline": written["baseline"],
    }
    pod = make_scenario_pod(
        age=f"{half - 1}m", containers={"main": {"gpu": written["recommendation"]["main"]}}
    )
    after = replayed(values[half:], previous=previous, pods=[pod])

    same = min(len(after), len(whole) - half)
    assert [to_json(step) | {"time": ""} for step in after[:same]] == [
        to_json(step) | {"time": ""} for step in whole[half:][:same]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["NaN", "+Inf", "-Inf", "1e400", -5])
def test_bad_values_make_and_lower_no_recommendation(bad: Any) -> None:
    from_nothing = replayed([bad] * LENGTH)
    previous = {"containers": {"main": "1"}, "driver": "compute", "baseline": {"main": BASE}}
    raised = make_scenario_pod(containers={"main": {"gpu": "1"}})
    kept = replayed([bad] * LENGTH, previous=previous, pods=[raised])

    assert {step.evaluation.change for step in from_nothing} == {Change.NONE}
    assert {step.evaluation.change for step in kept} == {Change.KEPT}
    assert "compute: no scale-back: no samples in 10m of pod llm-0 (main)" in kept[0].reasons


def test_one_bad_value_among_good_ones_does_not_count_as_zero() -> None:
    """Over two pods: one without a number, one that would be calm enough by itself."""
    pods = [
        make_scenario_pod(name, containers={"main": {"gpu": "1"}}) for name in ("llm-0", "llm-1")
    ]
    previous = {"containers": {"main": "1"}, "driver": "compute", "baseline": {"main": BASE}}
    scenario = make_scenario(
        make_samples("NaN"),
        make_samples(40, pod="llm-1"),
        workloads=[make_workload(*pods, previous=previous)],
    )
    step = run(scenario)[0]

    assert step.evaluation.change is Change.KEPT
    assert to_json(step)["signals"]["compute"] == {
        "usage": "0.4",
        "allocation": "1",
        "pod": "llm-1",
        "wants": None,
        "candidate": None,
        "missing": ["llm-0"],
    }
