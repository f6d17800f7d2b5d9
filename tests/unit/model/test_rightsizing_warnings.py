"""What a document of `rightsizing.kubex.ai` may say, but hardly means."""

from __future__ import annotations

from typing import Any

import pytest

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
        "spec.prometheus.url: is no http:// or https:// address: nothing is asked"
    ]


def test_of_a_kind_that_is_named_twice_the_higher_priority_counts() -> None:
    manifest = make_precedence({"type": "A", "priority": 1}, {"type": "A", "priority": 2})

    assert warnings(manifest) == [
        "spec.precedence[1].type: A is named already; its higher priority counts"
    ]
