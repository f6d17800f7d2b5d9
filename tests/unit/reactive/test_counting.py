"""What is remembered of evictions, and what counts as something new to try."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import JsonObject
from tests.gpu import POLICY, make_gpu_container
from tests.gpu_cluster import make_running_pod, see_pod
from tests.unit.reactive.fakes import NOW
from webhook.model.rightsizing.policies import DocumentKey
from webhook.model.rightsizing.recommendations import Eviction, Selected
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.reactive.recreation.counting import carry_on

KEY = DocumentKey("AutomationStrategy", "team-a", "gpu")
MINUTE = timedelta(minutes=1)
# Of 12:00; two GPUs were to be written.
EVICTED = Eviction(
    "llm-0", "uid-pod-llm-0", NOW, NOW, 1, count=2, misses=1, amounts={"main": Decimal(2)}
)


def select(amount: str, **more: Any) -> Selected:
    return Selected(POLICY, KEY, {"main": Decimal(amount)}, **more)


def made(count: str, note: str = "", *, at: str = "12:00:05", name: str = "llm-1") -> JsonObject:
    annotations = {GPU_BEFORE: note} if note else {}
    container = make_gpu_container(limit=count, request=count)
    started = f"2026-01-01T{at}Z"
    return make_running_pod(name, container, annotations=annotations, started=started)


@pytest.mark.parametrize(
    ("pods", "is_new"),
    [
        pytest.param([], False, id="not-replaced-yet"),
        pytest.param([made("1")], False, id="made-without-it"),
        pytest.param([made("2", "main=1")], True, id="given-what-it-was-for"),
        pytest.param([made("3", "main=1")], True, id="given-what-came-after"),
        pytest.param([made("2")], True, id="back-at-what-it-had"),
        pytest.param([made("1"), made("2", "main=1", name="llm-2")], True, id="one-of-two"),
        pytest.param([made("2", "main=1", at="11:30:00")], False, id="given-before"),
        pytest.param([made("2", "main=1", at="11:59:30")], True, id="by-a-clock-that-is-behind"),
        pytest.param([made("2", "main=1", name="llm-0")], False, id="the-one-that-was-evicted"),
    ],
)
def test_another_amount_is_something_new_where_the_last_one_arrived(
    pods: list[JsonObject], is_new: bool
) -> None:
    """Else each turn of the load would have a pod evicted for nothing at once."""
    seen = [see_pod(pod) for pod in pods]
    later = NOW + 20 * MINUTE

    found = carry_on(EVICTED, select("2"), select("3"), seen, later)

    assert found is not None
    assert ((found.since, found.count, found.misses) == (later, 0, 0)) is is_new
    assert (found is EVICTED) is not is_new


def test_another_way_to_write_it_is_something_new() -> None:
    found = carry_on(EVICTED, select("2"), select("2", upsize=True), [], NOW + MINUTE)

    assert found is not None
    assert (found.since, found.count, found.misses) == (NOW + MINUTE, 0, 0)


@pytest.mark.parametrize("new", [None, select("2"), select("1.7")])
def test_the_same_and_nothing_change_nothing(new: Selected | None) -> None:
    pods = [see_pod(made("2", "main=1"))]

    assert carry_on(EVICTED, select("2"), new, pods, NOW + MINUTE) is EVICTED
