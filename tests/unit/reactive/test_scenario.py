"""Scenarios: what is read of a file, what is refused, and how they are replayed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests import gpu_documents
from tests.builders import JsonObject
from tests.gpu_scenarios import (
    make_samples,
    make_scenario,
    make_scenario_pod,
    make_workload,
    read,
    run,
)
from webhook.model.rightsizing.policies import Signal
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.scenarios.plot import draw
from webhook.reactive.scenarios.replay import Step, to_json
from webhook.reactive.scenarios.scenario import MAX_STEPS

START = datetime(2026, 1, 1, tzinfo=UTC)
HOT = make_samples(80)
NO_TIME = "must be a time such as 2026-01-01T00:00:00Z"
SILENT: JsonObject = {
    "usage": None,
    "allocation": None,
    "pod": None,
    "wants": None,
    "candidate": None,
    "missing": [],
}


def problems(*documents: Any) -> list[str]:
    with pytest.raises(ExceptionGroup) as caught:
        read(*documents)
    return [str(error) for error in caught.value.exceptions]


def totals(steps: Sequence[Step]) -> list[str | None]:
    return [to_json(step)["total"] for step in steps]


# --- reading ---


def test_what_is_left_out_has_its_default() -> None:
    scenario = read(make_scenario())

    assert scenario.step == timedelta(minutes=1)
    assert scenario.recreate == "immediately"
    assert scenario.settings.check_interval == timedelta(minutes=1)
    assert list(scenario.times) == [START + timedelta(minutes=m) for m in range(11)]


def test_a_pod_is_as_old_as_it_says() -> None:
    pods = [
        make_scenario_pod("aged", age="20m"),
        make_scenario_pod("unstarted", startTime=None),
        {**make_scenario_pod("dated", startTime="2025-12-31T23:00:00+01:00"), "age": None},
    ]
    observed = read(make_scenario(workloads=[make_workload(*pods)])).workloads[0].pods

    assert [pod.started for pod in observed] == [
        START - timedelta(minutes=20),
        None,
        datetime(2025, 12, 31, 22, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("text", "want"), [("500m", "0.5"), (2, "2"), (0.25, "0.25"), ("1e-1", "0.1"), ("0", "0")]
)
def test_an_amount_is_a_quantity(text: Any, want: str) -> None:
    pod = make_scenario_pod(containers={"main": {"gpu": text}, "sidecar": {}, "other": None})
    (observed,) = read(make_scenario(workloads=[make_workload(pod)])).workloads[0].pods

    assert observed.allocations == {"main": Decimal(want), "sidecar": None, "other": None}


def test_several_entries_are_copies_of_one_series() -> None:
    """The mean of each, and then the larger; as one series they would have a mean of 50."""
    earlier, later = make_samples(80, to="-5m"), make_samples(20) | {"from": "-4m"}
    step = run(make_scenario(earlier, later))[0]

    assert step.evaluation.signals[Signal.COMPUTE].usage == Decimal("0.8")


def test_values_are_one_a_minute_and_null_is_a_gap() -> None:
    entry = {"pod": "llm-0", "container": "main", "signal": "compute", "from": "-2m"}
    step = run(make_scenario(entry | {"values": [70, None, "90"]}))[0]

    assert step.evaluation.signals[Signal.COMPUTE].usage == Decimal("0.8")


@pytest.mark.parametrize(
    ("documents", "want"),
    [
        pytest.param([], "the files: there is no GpuScenario; one is needed", id="empty"),
        pytest.param(
            [make_scenario(), make_scenario()],
            "scenario.yaml: there is more than one GpuScenario; one is needed",
            id="two",
        ),
        pytest.param([["a", "list"]], "scenario.yaml#0: must be an object", id="no-object"),
        pytest.param(
            [{**make_scenario(), "kind": "GpuScenaro"}],
            "scenario.yaml#0: kind: 'GpuScenaro' is no kind that a scenario knows;"
            ' did you mean "GpuScenario"?',
            id="an-unknown-kind",
        ),
        pytest.param(
            [{**make_scenario(), "apiVersion": "policy.gatewright.io/v2"}],
            "scenario.yaml#0: apiVersion: must be policy.gatewright.io/v1alpha1",
            id="another-version",
        ),
        pytest.param(
            [{**make_scenario(), "sepc": {}}],
            'scenario.yaml#0: sepc: unknown field; did you mean "spec"?',
            id="an-unknown-key",
        ),
        pytest.param(
            [make_scenario(), gpu_documents.make_policy(wieght=3)],
            'scenario.yaml#1: spec.wieght: unknown field; did you mean "weight"?',
            id="a-policy-that-is-wrong",
        ),
        pytest.param(
            [make_scenario(), gpu_documents.make_policy(), gpu_documents.make_policy()],
            "scenario.yaml#2: metadata.name: GpuReactivePolicy default/gpu-reactive is also"
            " scenario.yaml#1",
            id="a-policy-twice",
        ),
    ],
)
def test_a_file_must_hold_one_scenario_and_documents_that_are_right(
    documents: list[Any], want: str
) -> None:
    assert want in problems(*documents)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"start": "yesterday"}, f"spec.start: {NO_TIME}, got 'yesterday'"),
        (
            {"start": "2026-01-01T00:00:00"},
            f"spec.start: {NO_TIME}, got '2026-01-01T00:00:00'",
        ),
        ({"duration": 60}, "spec.duration: must be a duration such as 30m, got number"),
        ({"duration": "60"}, "spec.duration: '60' is no duration (such as 10m, 1h30m or 90s)"),
        ({"duration": "-1m"}, "spec.duration: must not be negative"),
        ({"step": "0s"}, "spec.step: must be more than 0"),
        ({"duration": "2000h"}, f"spec.duration: has more than {MAX_STEPS} steps"),
        ({"recreate": "later"}, "spec.recreate: must be immediately or never, got later"),
        ({"workloads": []}, "spec.workloads: must not be empty"),
        ({"sample": []}, 'spec.sample: unknown field; did you mean "samples"?'),
        ({"start": "9999-12-31T23:59:00Z"}, "spec.start: leads out of the years 1 to 9999"),
    ],
)
def test_what_is_wrong_in_a_scenario_is_named(spec: JsonObject, want: str) -> None:
    scenario = make_scenario()
    scenario["spec"] |= spec

    assert problems(scenario) == [f"scenario.yaml#0: {want}"]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        ({"age": None}, ": age is needed (or startTime, which is null for none)"),
        ({"age": "-1m"}, ": age must not be negative"),
        ({"startTime": "2026-01-01T00:00:00Z"}, ": age and startTime don't go together"),
        ({"startTime": "noon"}, f".startTime: {NO_TIME}, got 'noon'"),
        ({"contaners": {}}, '.contaners: unknown field; did you mean "containers"?'),
        ({"name": ""}, ".name: must not be empty"),
        (
            {"containers": {"main": {"gpu": "-1"}}},
            ".containers.main.gpu: must be from 0 to 1000000",
        ),
        (
            {"containers": {"main": {"gpu": "much"}}},
            ".containers.main.gpu: 'much' is not a Kubernetes quantity (such as 2, 500m, 1.5Gi or"
            " 1e3)",
        ),
        ({"containers": {"main": {"gpu": True}}}, ".containers.main.gpu: true is not a number"),
        (
            {"initContainers": {"main": {"restartable": True}}},
            ".initContainers.main: is a container already",
        ),
    ],
)
def test_what_is_wrong_in_a_pod_is_named(pod: JsonObject, want: str) -> None:
    scenario = make_scenario(workloads=[make_workload(make_scenario_pod(**pod))])

    assert problems(scenario) == [f"scenario.yaml#0: spec.workloads[0].pods[0]{want}"]


@pytest.mark.parametrize(
    ("samples", "want"),
    [
        ({"to": "-40m"}, ": to is before from"),
        ({"to": None}, ": value and to are needed (or values)"),
        ({"values": [1]}, ": values go without value and to"),
        ({"signal": "power"}, ".signal: must be compute or memory, got power"),
        ({"value": "much"}, ".value: 'much' is no number"),
        ({"value": True}, ".value: must be a number, or NaN, +Inf or -Inf as text, got boolean"),
        ({"to": "40000h"}, ": there are more than 2000000 samples"),
    ],
)
def test_what_is_wrong_in_a_sample_is_named(samples: JsonObject, want: str) -> None:
    scenario = make_scenario(make_samples(80) | samples)

    assert problems(scenario) == [f"scenario.yaml#0: spec.samples[0]{want}"]


def test_no_workload_and_no_pod_may_be_there_twice() -> None:
    assert problems(make_scenario(workloads=[make_workload(), make_workload()])) == [
        "scenario.yaml#0: spec.workloads[1].name: 'llm' is there already",
        "scenario.yaml#0: spec.workloads[1].pods[0].name: 'llm-0' is there already",
    ]


def test_samples_of_nobody_are_only_warned_of() -> None:
    scenario = read(make_scenario(make_samples(80, pod="llm-1"), make_samples(80, container="m")))

    assert scenario.warnings == (
        "scenario.yaml#0: spec.samples[0].pod: there is no 'llm-1'; did you mean \"llm-0\"?",
        "scenario.yaml#0: spec.samples[1].container: pod llm-0 has no 'm'; known: main",
    )


def test_doubts_about_the_policies_are_told() -> None:
    warnings = read(gpu_documents.make_policy(), make_scenario()).warnings

    assert any("there is no AutomationStrategy default/gpu" in text for text in warnings)


# --- replaying ---


def test_pods_take_a_recommendation_over_at_once_as_new_pods() -> None:
    steps = run(make_scenario(HOT, duration="20m"))

    assert totals(steps) == ["0.96"] * 21
    assert [str(step.allocation) for step in steps[:2]] == ["0.5", "0.960000"]
    # From then on they are too young for 15 minutes.
    pods = [step.evaluation.signals[Signal.COMPUTE].pod for step in steps]
    assert pods == ["llm-0", *[None] * 14, *["llm-0"] * 6]


def test_with_never_pods_keep_what_they_have() -> None:
    steps = run(make_scenario(HOT, recreate="never"))

    assert {str(step.allocation) for step in steps} == {"0.5"}
    assert [step.evaluation.change for step in steps[:2]] == [Change.UPSIZE, Change.KEPT]


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([gpu_documents.make_policy(mode="Recommend")], id="a-policy-that-recommends"),
        pytest.param(
            [gpu_documents.make_policy(), gpu_documents.make_settings(automationEnabled=False)],
            id="automation-switched-off",
        ),
    ],
)
def test_who_does_not_act_recreates_no_pod(documents: list[JsonObject]) -> None:
    steps = run(*documents, make_scenario(HOT))

    assert (totals(steps)[0], str(steps[-1].allocation)) == ("0.96", "0.5")
    assert steps[0].reasons[-1] in (
        "the policy only recommends",
        "automation is switched off by the GlobalConfiguration",
    )


def test_what_a_strategy_would_hold_back_is_told() -> None:
    requests = {"downsize": True, "ceiling": "0.8"}
    strategy = gpu_documents.make_strategy(requests=requests)
    step = run(gpu_documents.make_policy(), strategy, make_scenario(HOT))[0]

    place = "in a cluster, container main of pod llm-0: "
    assert step.reasons[-2:] == (
        f"{place}lowered from 0.96 GPUs to the ceiling of AutomationStrategy default/gpu",
        f"{place}AutomationStrategy default/gpu does not enable upsize",
    )


def test_what_would_be_held_back_of_many_pods_is_told_once() -> None:
    names = [f"llm-{number}" for number in range(200)]
    workload = make_workload(*[make_scenario_pod(name) for name in names])
    samples = [make_samples(80, pod=name, to="0m") for name in names]
    scenario = make_scenario(*samples, workloads=[workload], duration="0m")
    (step,) = run(
        gpu_documents.make_policy(),
        gpu_documents.make_strategy(requests={"downsize": True}),
        scenario,
    )

    assert step.reasons[-1] == (
        "in a cluster, container main of pod llm-0 and 199 more: AutomationStrategy default/gpu does"
        " not enable upsize"
    )
    assert len(step.reasons) < 10


def test_a_baseline_that_pods_do_not_have_yet_is_told() -> None:
    """A cluster would give them that much; a scenario shows what is recommended."""
    workload = make_workload(previous={"baseline": {"main": "1"}})
    step = run(make_scenario(HOT, workloads=[workload]))[0]

    assert to_json(step)["recommendation"] == {"main": "0.96"}
    assert step.reasons[-1] == (
        "in a cluster, container main of pod llm-0: 0.96 GPUs would be less than the baseline of"
        " 1 GPU, which its pods don't have yet"
    )


def test_what_is_kept_without_a_baseline_is_not_written() -> None:
    """Nothing tells what the pod would have by itself."""
    young = make_scenario_pod(age="1m")
    previous = {"containers": {"main": "2"}, "driver": "compute"}
    workload = make_workload(young, previous=previous)
    steps = run(make_scenario(workloads=[workload], duration="5m"))

    assert totals(steps) == ["2"] * 6
    assert {str(step.allocation) for step in steps} == {"0.5"}


def test_a_workload_that_no_policy_concerns_is_there_all_the_same() -> None:
    workloads = [make_workload(), make_workload(make_scenario_pod("b-0"), namespace="kube-system")]
    step = run(make_scenario(HOT, workloads=workloads))[1]

    assert to_json(step) == {
        "time": "2026-01-01T00:00:00Z",
        "namespace": "kube-system",
        "kind": "Deployment",
        "name": "llm",
        "baseline": {},
        "recommendation": None,
        "total": None,
        "driver": None,
        "change": "none",
        "signals": dict.fromkeys(("compute", "memory"), SILENT),
        "reasons": ["namespace kube-system is protected (kube-*)"],
    }


def test_there_is_one_step_for_each_workload_and_time() -> None:
    workloads = [make_workload(), make_workload(make_scenario_pod("b-0"), name="other")]
    steps = run(make_scenario(workloads=workloads, duration="2m"))

    assert [(step.time - START, step.workload.name) for step in steps] == [
        (timedelta(minutes=minute), name) for minute in range(3) for name in ("llm", "other")
    ]


def test_with_multi_policy_containers_follow_their_own_policies() -> None:
    def scoped(name: str, container: str) -> JsonObject:
        return gpu_documents.make_policy(name, scope={"containers": [container]})

    pod = make_scenario_pod(containers={"a": {"gpu": "0.5"}, "b": {"gpu": "1"}})
    samples = [make_samples(80, container="a"), make_samples(150, container="b")]
    scenario = make_scenario(*samples, workloads=[make_workload(pod)])
    policies = [scoped("one", "a"), scoped("two", "b")]
    settings = gpu_documents.make_settings(multiPolicyContainerRightsizingEnabled=True)

    by_default = to_json(run(*policies, scenario)[0])
    assert by_default["recommendation"] == {"a": "0.96"}
    both = to_json(run(*policies, settings, scenario)[0])
    assert both["recommendation"] == {"a": "0.96", "b": "1.8"}
    assert (both["total"], both["baseline"]) == ("2.76", {"a": "0.5", "b": "1"})


# --- pictures ---


def test_a_picture_has_a_panel_for_each_workload_and_says_what_its_lines_are() -> None:
    workloads = [make_workload(), make_workload(make_scenario_pod("b-0"), name="other")]
    svg = draw(run(make_scenario(HOT, workloads=workloads, duration="60m")))

    for label in ("recommendation", "allocation", "baseline", "compute usage", "memory usage"):
        assert svg.count(f">{label}</text>") == 2
    assert "Deployment default/other (GpuReactivePolicy default/gpu-reactive)" in svg
    assert "upsize above 120 %" in svg


def test_texts_of_a_picture_are_escaped() -> None:
    workload = make_workload(name='<script>"&\x01')
    svg = draw(run(make_scenario(workloads=[workload])))

    assert "&lt;script&gt;&quot;&amp;\N{REPLACEMENT CHARACTER}" in svg
    assert "<script" not in svg


@pytest.mark.parametrize("duration", ["0s", "1m", "72h"])
def test_a_picture_of_any_length_is_well_formed(duration: str) -> None:
    from xml.etree import ElementTree

    svg = draw(
        run(make_scenario(HOT, duration=duration, step="30m" if duration == "72h" else "1m"))
    )

    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_picture_of_nothing_is_a_picture() -> None:
    pod = make_scenario_pod(containers={"main": {"gpu": "0"}})

    assert draw(run(make_scenario(workloads=[make_workload(pod)]))).endswith("</svg>\n")
    assert draw([]).endswith("</svg>\n")


def test_a_policy_that_only_recommends_is_told_beside_the_one_that_acts() -> None:
    """It changes nothing, whatever its weight."""
    samples = [make_samples(96), make_samples(10, signal="memory")]
    acting = gpu_documents.make_policy("acting")
    trial = gpu_documents.make_policy("trial", mode="Recommend", weight=100)
    alone = run(acting, make_scenario(*samples))
    both = run(acting, trial, make_scenario(*samples))

    assert totals(both) == totals(alone)
    assert [len(step.reasons) for step in both] == [len(step.reasons) + 1 for step in alone]
    assert (
        "GpuReactivePolicy default/trial is tried beside it: it recommends main"
        in (both[0].reasons[-1])
    )
