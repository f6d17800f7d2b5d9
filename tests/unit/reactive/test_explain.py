"""A recommendation in sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from webhook.model.rightsizing.policies import Direction, DocumentKey, Signal
from webhook.model.rightsizing.recommendations import (
    BaselineAmount,
    Change,
    Eviction,
    GpuRecommendation,
    PolicyState,
    RecommendationStatus,
    Selected,
    SignalEvaluation,
    SignalState,
    WorkloadRef,
)
from webhook.reactive.explain import lines_of, next_step, to_json

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = DocumentKey("GpuReactivePolicy", "team-a", "llm")
STRATEGY = DocumentKey("AutomationStrategy", "team-a", "gpu")
HOT = SignalEvaluation(
    80, timedelta(minutes=10), Decimal("0.95"), Decimal(1), "llm-0", Decimal("1.14")
)
SILENT = SignalEvaluation(50, timedelta(minutes=5), missing=("llm-1",))
STATE = PolicyState(
    POLICY,
    baseline={"main": BaselineAmount(Decimal(1), NOW, "pod llm-0")},
    current={"main": Decimal(1)},
    recommendation={"main": Decimal("1.14")},
    total=Decimal("1.14"),
    driver=Signal.COMPUTE,
    change=Change.UPSIZE,
    signals={
        Signal.COMPUTE: SignalState(Direction.UPSIZE, upsize=HOT),
        Signal.MEMORY: SignalState(scale_back=SILENT),
    },
    reasons=("compute: above 80 % of it",),
)
STATUS = RecommendationStatus(
    NOW, (STATE,), Selected(POLICY, STRATEGY, {"main": Decimal("1.14")}), ("it is paused",)
)
FOUND = GpuRecommendation("team-a", WorkloadRef("apps/v1", "Deployment", "llm", "u"), STATUS)


def test_everything_is_told_in_order() -> None:
    assert list(lines_of(FOUND)) == [
        "Deployment team-a/llm",
        "  recommended: 1.14 (main 1.14), by GpuReactivePolicy team-a/llm",
        "  written as: AutomationStrategy team-a/gpu says (none)",
        "  GpuReactivePolicy team-a/llm: recommends 1.14 (main 1.14), owed to compute (upsize)",
        "    pods have: 1 (main 1)",
        "    baseline: main 1 since 2026-01-01T12:00:00Z, seen in pod llm-0",
        "    compute: pod llm-0 uses 0.95 of 1 over 10m (upsize above 80 %); asks for 1.14",
        "    memory: no samples over 5m; without samples: llm-1",
        "    why: compute: above 80 % of it",
        "  in the way: it is paused",
        "  next: nothing is evicted while something is in the way",
        "  as of 2026-01-01T12:00:00Z",
    ]


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(
            RecommendationStatus(), "nothing: pods are made as they were written", id="nothing"
        ),
        pytest.param(
            replace(STATUS, reasons=()),
            "new pods are given what is recommended; those that differ are evicted, one at a time",
            id="under-way",
        ),
        pytest.param(
            replace(STATUS, reasons=(), eviction=Eviction("llm-0", "u", NOW, NOW)),
            "pod llm-0 was evicted at 2026-01-01T12:00:00Z; new pods are given what is recommended",
            id="evicted",
        ),
    ],
)
def test_what_comes_next_is_told(status: RecommendationStatus, want: str) -> None:
    assert next_step(replace(FOUND, status=status)) == want


def test_scripts_get_the_same() -> None:
    told = json.loads(json.dumps(to_json(FOUND)))

    assert (told["namespace"], told["kind"], told["name"]) == ("team-a", "Deployment", "llm")
    assert told["selected"]["amounts"] == {"main": "1.14"}
    assert told["policies"][0]["driver"] == "compute"
    assert told["blocks"] == ["it is paused"]
    assert told["next"] == next_step(FOUND)
