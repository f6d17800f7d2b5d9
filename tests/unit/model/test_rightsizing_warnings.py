"""What a document of `rightsizing.kubex.ai` may say, but hardly means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu_documents import (
    JsonObject,
    make_cluster_policy,
    make_cluster_strategy,
    make_policy,
    make_precedence,
    make_settings,
    make_strategy,
    with_value,
)
from webhook.errors import MissingReferenceError
from webhook.model.rightsizing.documents import warnings_of
from webhook.store.rightsizing import strategies_in

COMPUTE, MEMORY = "spec.metrics.compute", "spec.metrics.memory"
CONTRACT = "spec.experimental.gpuKaiContract"


def make_quiet_policy(**spec: Any) -> JsonObject:
    """A policy about which there is nothing to say."""
    return with_value(make_policy(**spec), f"{COMPUTE}.upsize.thresholdPercent", 90)


def warnings(manifest: JsonObject, *known: JsonObject) -> list[str]:
    """The warnings where there are the strategies *known*, and one that does for all else."""
    strategies = strategies_in(known or (make_strategy(), make_cluster_strategy()))
    return [str(error) for error in warnings_of(manifest, strategies=strategies)]


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(make_quiet_policy(), id="policy"),
        pytest.param(make_strategy(), id="strategy"),
        pytest.param({**make_strategy(), "spec": {}}, id="strategy-that-says-nothing"),
        pytest.param(make_settings(), id="settings"),
        pytest.param(make_precedence({"type": "A", "priority": 1}), id="precedence"),
    ],
)
def test_about_a_sound_document_nothing_is_said(manifest: JsonObject) -> None:
    assert warnings(manifest) == []


@pytest.mark.parametrize(
    ("mode", "annotated", "want"),
    [
        pytest.param("Enforce", "enforce", [], id="the-same"),
        pytest.param("Recommend", "", [], id="only-one"),
        pytest.param(
            "Enforce",
            "Recommend",
            ["spec.mode: Enforce, and gatewright.io/mode says Recommend: it only recommends"],
            id="another",
        ),
        pytest.param(
            "Recommend",
            "Enforce",
            ["spec.mode: Recommend, and gatewright.io/mode says Enforce: it only recommends"],
            id="the-other-way-round",
        ),
    ],
)
def test_two_modes_that_differ_are_told(mode: str, annotated: str, want: list[str]) -> None:
    manifest = with_value(make_quiet_policy(), "spec.mode", mode)
    if annotated:
        manifest["metadata"]["annotations"] = {"gatewright.io/mode": annotated}

    assert warnings(manifest) == want


@pytest.mark.parametrize("name", ["enableLimitRangeFilter", "enablePodLimitRangeFilter"])
def test_a_switch_that_does_nothing_is_told(name: str) -> None:
    on, off = [make_strategy(safetyChecks={name: value}) for value in (True, False)]

    assert warnings(on) == []
    assert warnings(off) == [
        f"spec.safetyChecks.{name}: false changes nothing: a pod that a LimitRange refuses would"
        " never be made"
    ]


KINDS = {"PyTorchJob.kubeflow.org": "", "RayJob.ray.io": "RayCluster.ray.io", "Deployment": ""}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("Deployment", "", id="one-of-the-nine"),
        pytest.param("StrimziPodSet", "", id="one-of-the-nine-without-a-mapping"),
        pytest.param("PyTorchJob.kubeflow.org", "", id="mapped"),
        pytest.param(
            "PytorchJob.kubeflow.org",
            "no mapping covers PytorchJob.kubeflow.org: its pods are not looked at; did you mean"
            ' "PyTorchJob.kubeflow.org"?',
            id="misspelt",
        ),
        pytest.param(
            "Deployment.extensions",
            "no mapping covers Deployment.extensions: its pods are not looked at; did you mean"
            ' "Deployment"?',
            id="another-group",
        ),
        pytest.param(
            "Xyz.q", "no mapping covers Xyz.q: its pods are not looked at", id="like-none"
        ),
        pytest.param(
            "RayJob.ray.io",
            "the pods of RayJob.ray.io are those of a RayCluster.ray.io: name that",
            id="makes-no-pods-itself",
        ),
    ],
)
def test_a_kind_of_workloads_that_nothing_is_known_of_is_told(name: str, want: str) -> None:
    policy = make_quiet_policy(scope={"workloadTypes": [name]})

    told = [str(warning) for warning in warnings_of(policy, kinds=KINDS)]

    assert told == ([f"spec.scope.workloadTypes[0]: {want}"] if want else [])
    # Where nobody knows what is mapped, nothing is said.
    assert warnings_of(policy) == ()


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param(
            f"{COMPUTE}.upsize.thresholdPercent", 125,
            "125 % of whole GPUs is never exceeded: this can fire on fractions only",
            id="more-than-a-whole-gpu",
        ),
        pytest.param(
            f"{COMPUTE}.upsize.thresholdPercent", 100,
            "100 % of whole GPUs is never exceeded: this can fire on fractions only",
            id="as-much-as-a-whole-gpu",
        ),
        pytest.param(
            f"{MEMORY}.upsize.maxPercent", 99,
            "99 % is less than the baseline: this never asks for more", id="less-than-the-baseline",
        ),
        pytest.param(
            f"{MEMORY}.scaleBack.thresholdPercent", 120,
            "120 % is not below the upsize threshold of 120 %: an amount may go up and down for"
            " ever",
            id="thresholds-that-meet",
        ),
        pytest.param(
            CONTRACT, "none",
            "none: nothing is acknowledged, so the policy only recommends; set it to"
            " v1alpha1-2026-07",
            id="no-contract",
        ),
    ],
)  # fmt: skip
def test_a_policy_that_can_hardly_be_meant_is_told_so(path: str, value: Any, want: str) -> None:
    assert warnings(with_value(make_quiet_policy(), path, value)) == [f"{path}: {want}"]


def make_thresholds(
    upsize: int, headroom: int, scale_back: int, scale_back_headroom: int
) -> JsonObject:
    policy = make_quiet_policy()
    for path, value in {
        "upsize.thresholdPercent": upsize,
        "upsize.headroomPercent": headroom,
        "scaleBack.thresholdPercent": scale_back,
        "scaleBack.headroomPercent": scale_back_headroom,
    }.items():
        policy = with_value(policy, f"{MEMORY}.{path}", value)
    return policy


@pytest.mark.parametrize(
    ("thresholds", "want"),
    [
        pytest.param((120, 20, 80, 20), [], id="defaults"),
        pytest.param((125, 20, 60, 20), [], id="wide-apart"),
        pytest.param((80, 25, 80 - 1, 25), [], id="in-use-as-much-as-starts-an-upsize"),
        pytest.param((90, 25, 80, 25), [], id="in-use-as-much-as-starts-no-scale-back"),
        pytest.param(
            (80, 25, 50, 10),
            [
                "scaleBack.headroomPercent: 10 % of headroom leaves 90.9 % in use, above the upsize"
                " threshold of 80 %: an upsize follows a scale-back at once, and pods may be"
                " evicted for ever; set it to 25 or more"
            ],
            id="scale-back-to-where-an-upsize-begins",
        ),
        pytest.param(
            (81, 23, 50, 24),
            [
                "upsize.headroomPercent: 23 % of headroom leaves 81.3 % in use, above the upsize"
                " threshold of 81 %: each evaluation asks for an upsize again, also where that is"
                " less than a pod has; set it to 24 or more"
            ],
            id="upsize-to-where-it-begins-again",
        ),
        pytest.param(
            (90, 50, 67, 50),
            [
                "scaleBack.thresholdPercent: an upsize with 50 % of headroom leaves 66.7 % in use,"
                " below the scale-back threshold of 67 %: a scale-back follows at once; set it to"
                " 66 or less"
            ],
            id="upsize-to-where-a-scale-back-begins",
        ),
        pytest.param(
            (1, 0, 2, 0),
            [
                "upsize.headroomPercent: 0 % of headroom leaves 100 % in use, above the upsize"
                " threshold of 1 %: each evaluation asks for an upsize again, also where that is"
                " less than a pod has; set it to 9900 or more",
                "scaleBack.thresholdPercent: 2 % is not below the upsize threshold of 1 %: an"
                " amount may go up and down for ever",
            ],
            id="thresholds-that-cross-are-told-once",
        ),
    ],
)
def test_settings_whose_own_result_starts_the_next_change_are_told(
    thresholds: tuple[int, int, int, int], want: list[str]
) -> None:
    assert warnings(make_thresholds(*thresholds)) == [f"{MEMORY}.{text}" for text in want]


@given(
    st.tuples(st.integers(1, 300), st.integers(0, 300), st.integers(1, 300), st.integers(0, 300))
)
def test_what_a_warning_says_to_set_is_enough(thresholds: tuple[int, int, int, int]) -> None:
    policy = make_thresholds(*thresholds)
    for warning in warnings_of(policy):
        _, is_told, value = warning.problem.partition("set it to ")
        if is_told:
            better = with_value(policy, warning.path, int(value.split()[0]))
            assert warning.path not in [each.path for each in warnings_of(better)]


def test_a_share_of_what_a_container_has_may_be_more_than_100() -> None:
    high = with_value(make_quiet_policy(), f"{MEMORY}.upsize.thresholdPercent", 150)

    assert warnings(high) == []


@pytest.mark.parametrize(
    ("policy", "known", "want"),
    [
        pytest.param(
            make_quiet_policy(), make_strategy("gpus"),
            'there is no AutomationStrategy default/gpu; did you mean "gpus"?', id="another-name",
        ),
        pytest.param(
            make_quiet_policy(), make_strategy(namespace="team-a"),
            "there is no AutomationStrategy default/gpu", id="in-another-namespace",
        ),
        pytest.param(
            make_quiet_policy(), make_cluster_strategy(),
            "there is no AutomationStrategy default/gpu", id="of-the-cluster",
        ),
        pytest.param(
            with_value(make_cluster_policy(), f"{COMPUTE}.upsize.thresholdPercent", 90),
            make_strategy(), "there is no ClusterAutomationStrategy gpu", id="of-a-namespace",
        ),
    ],
)  # fmt: skip
def test_a_strategy_that_is_not_there_is_missed(
    policy: JsonObject, known: JsonObject, want: str
) -> None:
    (error,) = warnings_of(policy, strategies=strategies_in([known]))

    assert isinstance(error, MissingReferenceError)
    assert str(error) == f"spec.automationStrategyRef.name: {want}"


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param({"upsize": False}, id="off"),
        pytest.param({"setFromUnspecified": True}, id="only-what-is-not-asked-for"),
        pytest.param({"ceiling": "4"}, id="only-a-bound"),
    ],
)
def test_a_strategy_that_enables_nothing_is_named(requests: JsonObject) -> None:
    (found,) = warnings(make_quiet_policy(), make_strategy(requests=requests))

    assert found.startswith(
        "spec.automationStrategyRef.name: AutomationStrategy default/gpu enables nothing for GPUs"
    )


def test_where_strategies_are_not_known_nothing_is_said_about_them() -> None:
    assert warnings_of(make_quiet_policy()) == ()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("spec.enablement.gpu.requests.upsize", True, id="enabled"),
        pytest.param("spec.enablement.gpu.requests.ceiling", "1", id="bound"),
        pytest.param("spec.enablement.overrideScheduler", "kai", id="scheduler"),
        pytest.param("spec.kai.queue", "team", id="queue"),
    ],
)
def test_a_strategy_for_gpus_without_a_contract_is_told_so(path: str, value: Any) -> None:
    manifest = with_value({**make_strategy(), "spec": {}}, path, value)

    assert warnings(manifest) == [
        f"{CONTRACT}: GPU or KAI fields are used: set it to v1alpha1-2026-07"
    ]


def test_what_the_api_server_fills_in_is_no_use_of_gpu_fields() -> None:
    filled_in = {
        "enablement": {"gpu": {"requests": {"upsize": False, "downsize": False}}},
        "kai": {"queue": "kubex-unlimited-gpu-queue", "setQueueWhenSpecified": False},
    }

    assert warnings({**make_strategy(), "spec": filled_in}) == []


@pytest.mark.parametrize(
    "url", ["", "prometheus:9090", "ftp://prometheus", "http://", "http://[", "http://a:99999"]
)
def test_an_address_that_nobody_can_ask_is_named(url: str) -> None:
    """The schema takes any text, so it must be let in."""
    assert warnings(make_settings(prometheus={"url": url})) == [
        "spec.prometheus.url: is not http[s]://HOST[:PORT][/PATH]: nothing is asked"
    ]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://prometheus..monitoring.svc:9090", "names a host that there can't be"),
        (f"http://{'a' * 64}.svc:9090", "names a host that there can't be"),
        ("http://me:mine@prometheus", "holds credentials; these are settings of their own"),
        ("http://prometheus/?tenant=a", "is not http[s]://HOST[:PORT][/PATH]"),
    ],
)
def test_an_address_that_the_reconciler_refuses_is_named(url: str, problem: str) -> None:
    assert warnings(make_settings(prometheus={"url": url})) == [
        f"spec.prometheus.url: {problem}: nothing is asked"
    ]


def test_of_a_kind_that_is_named_twice_the_higher_priority_counts() -> None:
    manifest = make_precedence({"type": "A", "priority": 1}, {"type": "A", "priority": 2})

    assert warnings(manifest) == [
        "spec.precedence[1].type: A is named already; its higher priority counts"
    ]
