"""Rounds in which evicted pods come back as the webhook makes them: it must come to an end."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from tests.builders import JsonObject
from tests.gpu import DEVICES, FRACTION, make_gpu_container, share_of
from tests.gpu_cluster import make_object, make_running_pod
from tests.gpu_documents import make_policy, make_source, make_strategy
from tests.unit.reactive.test_loop import AWAY, KEY, REPLICA_SET, Place
from webhook.admission.injecting import inject
from webhook.model.rightsizing.injections import injection_of
from webhook.model.rightsizing.recommendations import read_recommendation
from webhook.model.scopes import Branch
from webhook.patch import Editor
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.reactive.observation.pods import decode_pod

KAI = make_strategy(
    namespace="team-a",
    enablement={
        "gpu": {"requests": {"upsize": True, "downsize": True}},
        "overrideScheduler": "kai",
    },
)
# Percent of a GPU that a pod uses in each signal; None for no sample.
Use = Callable[[int], float | None]


def quick_policy() -> JsonObject:
    """Thresholds of 120 and 80 %, of new pods as well."""
    metrics = {
        signal: {"prometheus": make_source(signal, interpretation="fullGPU")}
        for signal in ("compute", "memory")
    }
    return make_policy("llm", namespace="team-a", metrics=metrics, minPodMetricsAge="0s")


class Recreating(Place):
    """
    Pods come from one template, through a webhook, and are ready at once.

    A *webhook* of False is one that somebody keeps from writing. *evictions* are the minutes.
    """

    def __init__(
        self,
        *containers: JsonObject,
        strategy: JsonObject,
        annotations: dict[str, str] | None = None,
        replicas: int = 1,
        webhook: bool = True,
    ) -> None:
        super().__init__(quick_policy(), strategy)
        update = {"type": "RollingUpdate"}
        deployment = make_object("Deployment", spec={"replicas": replicas, "strategy": update})
        self.view.objects = [quick_policy(), strategy, deployment, REPLICA_SET]
        self.template = containers
        self.annotations = annotations or {}
        self.webhook = webhook
        self.made = 0
        self.minute = 0
        self.evictions: list[int] = []
        began = self.now - timedelta(hours=1)
        self.pods = tuple([self.make(began) for _ in range(replicas)])

    def make(self, at: datetime) -> JsonObject:
        started = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": started}
        pod = make_running_pod(
            f"llm-{self.made}",
            *copy.deepcopy(self.template),
            owner=REPLICA_SET,
            annotations=dict(self.annotations),
            started=started,
            conditions=[ready],
        )
        self.made += 1
        del pod["spec"]["nodeName"]
        if self.webhook:
            stored = self.kube.recommendations.get(KEY)
            found = None if stored is None else injection_of(read_recommendation(stored))
            found = None if found is None else replace(found, now=self.now)
            inject(Editor(pod), found, Branch(), [])
        return pod

    async def go(self, minutes: int, use: Use) -> Recreating:
        for _ in range(minutes):
            told = use(self.minute)
            load = {} if told is None else {"main": str(told)}
            for signal in ("compute", "memory"):
                self.prometheus.percents[signal] = {
                    pod["metadata"]["name"]: dict(load) for pod in self.pods
                }
            known = len(self.kube.evicted)
            await self.round()
            for name in self.kube.evicted[known:]:
                self.evictions.append(self.minute)
                left = [pod for pod in self.pods if pod["metadata"]["name"] != name]
                self.pods = (*left, self.make(self.now + timedelta(seconds=5)))
            self.now += timedelta(minutes=1)
            self.minute += 1
        return self

    @property
    def has(self) -> list[Decimal | None]:
        """What the container main of each pod has."""
        seen = [decode_pod(json.dumps(pod).encode()) for pod in self.pods]
        return [pod.allocation.amounts["main"] for pod in seen]


def whole(count: str) -> JsonObject:
    return make_gpu_container(limit=count, request=count)


WHOLE = make_strategy(namespace="team-a")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("portion", "devices"),
    [("0.9", "2"), ("0.67", "3"), ("0.65", "4"), ("0.55", "4"), ("0.5", "1"), ("5e-1", "2")],
)
async def test_a_share_that_was_raised_comes_back_as_it_was(portion: str, devices: str) -> None:
    """Also from whole GPUs, of which nobody could tell how many devices they were."""
    asked = {FRACTION: portion, **({DEVICES: devices} if devices != "1" else {})}
    base = float(portion) * int(devices)
    place = Recreating(make_gpu_container(), strategy=KAI, annotations=asked)
    await place.healthy()

    await place.go(2, lambda _: base * 130)
    assert place.has[0] is not None
    assert place.has[0] > Decimal(base)
    await place.go(4, lambda _: 5)

    assert share_of(place.pods[0]) == asked
    assert place.evictions == [0, 2]


@pytest.mark.parametrize("load", [10, 450])
async def test_a_note_in_the_template_takes_nothing_from_its_owner(load: int) -> None:
    """It came there by a copy of a pod that ran; what he writes beside it is his."""
    place = Recreating(whole("4"), strategy=WHOLE, annotations={GPU_BEFORE: "main=1"})
    await place.healthy()

    await place.go(10, lambda _: load)

    assert place.has == [Decimal(4)]
    (state,) = place.status["policies"]
    assert state.get("baseline", {}).get("main", {"amount": "4"})["amount"] == "4"
    assert place.evictions == []


async def test_a_pod_that_was_made_with_such_a_note_costs_one_eviction_at_most() -> None:
    """The webhook was away when it was made, so that nobody took the note away."""
    place = Recreating(
        whole("4"), strategy=WHOLE, annotations={GPU_BEFORE: "main=1"}, webhook=False
    )
    place.webhook = True
    await place.healthy()

    await place.go(10, lambda _: 10)

    assert place.has == [Decimal(4)]
    assert len(place.evictions) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "is_away"),
    [
        pytest.param(30, True, id="prometheus-is-away"),
        pytest.param(None, False, id="samples-are-missing"),
    ],
)
async def test_nothing_more_is_taken_away_while_nothing_is_known(
    load: int | None, is_away: bool
) -> None:
    place = Recreating(whole("1"), strategy=WHOLE, replicas=3)
    await place.healthy()
    await place.go(8, lambda _: 140)
    assert place.has == [Decimal(2)] * 3
    await place.go(1, lambda _: 30)
    assert sorted(map(str, place.has)) == ["1.000000", "2.000000", "2.000000"]

    place.prometheus.error = AWAY if is_away else None
    await place.go(4, lambda _: load)

    assert sorted(map(str, place.has)) == ["1.000000", "2.000000", "2.000000"]
    place.prometheus.error = None
    await place.go(4, lambda _: 30)
    assert place.has == [Decimal(1)] * 3


def noise(minute: int) -> float:
    """Ten percent around what asks for more."""
    return 65 + 6.5 * ((minute * 7919) % 21 - 10) / 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda _: 65.0, id="constant"),
        pytest.param(noise, id="noise"),
        pytest.param(lambda minute: 62 + minute * 0.5, id="rising"),
    ],
)
async def test_pods_that_are_given_nothing_are_evicted_ever_more_seldom(use: Any) -> None:
    place = Recreating(
        make_gpu_container(), strategy=KAI, annotations={FRACTION: "0.5"}, webhook=False
    )
    await place.healthy()

    await place.go(75, use)

    waits = [later - earlier for earlier, later in pairwise(place.evictions)]
    assert len(waits) == 3
    assert all(wait >= least for wait, least in zip(waits, (10, 20, 40), strict=True))
