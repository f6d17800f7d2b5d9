"""One round of a GPU reactive policy, for tests: a policy, pods, samples, and what is decided."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from webhook.model.rightsizing.policies import (
    Direction,
    DocumentKey,
    Interpretation,
    MetricSource,
    ReactivePolicy,
    ScaleBack,
    Signal,
    SignalSettings,
    Upsize,
    WorkloadScope,
)
from webhook.reactive.decisions.decide import decide
from webhook.reactive.decisions.states import (
    Baseline,
    Evaluation,
    ObservedPod,
    Readings,
    Recommendation,
    WorkloadState,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
COMPUTE, MEMORY = Signal.COMPUTE, Signal.MEMORY
UPSIZE, SCALE_BACK = Direction.UPSIZE, Direction.SCALE_BACK

# Percentages of one container by device, or of its only one.
Load = str | Mapping[str, str]


def make_signal(
    *,
    interpretation: str = "fullGPU",
    upsize: int = 125,
    scale_back: int = 60,
    headroom: int = 20,
    max_percent: int = 200,
) -> SignalSettings:
    source = MetricSource("gpu", "namespace", "pod", "container", Interpretation(interpretation))
    return SignalSettings(
        source,
        Upsize(upsize, timedelta(minutes=10), headroom, max_percent),
        ScaleBack(scale_back, timedelta(minutes=10), headroom),
    )


def make_policy(
    name: str = "gpu",
    *,
    kind: str = "GpuReactivePolicy",
    namespace: str = "default",
    compute: SignalSettings | None = None,
    memory: SignalSettings | None = None,
    containers: tuple[str, ...] = (),
    **more: Any,
) -> ReactivePolicy:
    """Thresholds 125 and 60 %, headroom 20 %, both signals in whole GPUs."""
    place = namespace if kind == "GpuReactivePolicy" else ""
    return ReactivePolicy(
        key=DocumentKey(kind, place, name),
        signals={COMPUTE: compute or make_signal(), MEMORY: memory or make_signal()},
        strategy=DocumentKey("AutomationStrategy", place, "gpu"),
        **{"scope": WorkloadScope(containers=containers), **more},
    )


def make_pod(name: str = "llm-0", age: str | None = "30m", **containers: str | None) -> ObservedPod:
    """By default one container, main, with one GPU; *age* in minutes, None for no start."""
    minutes = None if age is None else int(age.removesuffix("m"))
    return ObservedPod(
        name,
        None if minutes is None else NOW - timedelta(minutes=minutes),
        {
            container: None if amount is None else Decimal(amount)
            for container, amount in (containers or {"main": "1"}).items()
        },
    )


def make_state(
    previous: Mapping[str, str] | None = None,
    driver: Signal | None = COMPUTE,
    baseline: Mapping[str, str] | None = None,
) -> WorkloadState:
    return WorkloadState(
        {
            name: Baseline(Decimal(amount), NOW - timedelta(days=1), "pod llm-0")
            for name, amount in (baseline or {}).items()
        },
        Recommendation(amounts(previous), driver) if previous else None,
    )


def amounts(texts: Mapping[str, str]) -> dict[str, Decimal]:
    return {name: Decimal(text) for name, text in texts.items()}


def samples_of(loads: Mapping[str, Mapping[str, Load]]) -> dict[tuple[str, str, str], Decimal]:
    """*loads* are by pod, then container."""
    found = {}
    for pod, containers in loads.items():
        for container, load in containers.items():
            devices = {"0": load} if isinstance(load, str) else load
            for device, percent in devices.items():
                found[pod, container, device] = Decimal(percent)
    return found


def make_readings(
    compute: Mapping[str, Mapping[str, Load]] | None = None,
    memory: Mapping[str, Mapping[str, Load]] | None = None,
    **more: Mapping[str, Mapping[str, Load]],
) -> Readings:
    """
    The same percentages in both windows of a signal.

    `compute_scale_back` and the like replace one window.
    """
    answers = {}
    for signal, loads in ((COMPUTE, compute or {}), (MEMORY, memory or {})):
        for direction, suffix in ((UPSIZE, "upsize"), (SCALE_BACK, "scale_back")):
            answers[signal, direction] = samples_of(more.get(f"{signal}_{suffix}", loads))
    return Readings.of(answers)


def evaluate(
    pods: list[ObservedPod] | None = None,
    readings: Readings | None = None,
    *,
    policy: ReactivePolicy | None = None,
    state: WorkloadState | None = None,
) -> Evaluation:
    """By default a pod with one GPU that nothing is known of."""
    return decide(
        policy or make_policy(),
        state or WorkloadState(),
        [make_pod()] if pods is None else pods,
        readings or make_readings(),
        NOW,
    )


def load(compute: str | None = None, memory: str | None = None, **more: str) -> Readings:
    """Percentages of the container main of pod llm-0."""
    given = {"compute": compute, "memory": memory, **more}
    return make_readings(
        **{name: {"llm-0": {"main": text}} for name, text in given.items() if text is not None}
    )


def recommended(evaluation: Evaluation) -> dict[str, str] | None:
    """The amounts as plain text."""
    if evaluation.recommendation is None:
        return None
    return {
        name: f"{amount.normalize():f}"
        for name, amount in evaluation.recommendation.containers.items()
    }
