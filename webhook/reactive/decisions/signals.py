"""One signal of a policy: what it asks for, and what that would come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from webhook.model.rightsizing.amounts import round_amount
from webhook.model.rightsizing.durations import format_duration
from webhook.model.rightsizing.policies import Direction, ReactivePolicy, Signal, SignalSettings
from webhook.reactive.decisions.amounts import format_gpus, percent_of, round_down
from webhook.reactive.decisions.states import Readings, SignalReport, WorkloadState
from webhook.reactive.decisions.usage import IncludedPod, Measured, Usage, measure

# What pods without samples come to.
_SILENT = {Direction.UPSIZE: "no say in an upsize", Direction.SCALE_BACK: "no scale-back"}
# What it comes to where several devices look like one. The least that they use may be enough.
_BLURRED = {
    Direction.UPSIZE: "the least counts for an upsize",
    Direction.SCALE_BACK: "no scale-back",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """
    What one signal asks for.

    *pod* is the hottest one and *candidate* the total that it should have; both are None where
    the signal asks for nothing that could be accepted.
    """

    report: SignalReport
    pod: IncludedPod | None = None
    candidate: Decimal | None = None
    reasons: tuple[str, ...] = ()


def assess(
    signal: Signal,
    policy: ReactivePolicy,
    pods: Sequence[IncludedPod],
    readings: Readings,
    state: WorkloadState,
) -> Finding:
    """
    Judge *signal* over the eligible *pods*, sorted by name.

    A pod without samples in one of its containers has no say in an upsize, and holds a
    scale-back. One whose devices look like one holds it too, and of an upsize the least that they
    use decides. An upsize comes first: what one pod lacks counts more than what others have over.
    """
    settings = policy.signals[signal]
    interpretation = settings.source.interpretation
    windows = {
        direction: measure(pods, readings, signal, direction, interpretation)
        for direction in Direction
    }
    finding = _judge(signal, settings, windows, state)
    missing = {pod for window in windows.values() for pod in (*window.silent, *window.blurred)}
    if not missing:
        return finding
    return replace(
        finding,
        report=replace(finding.report, missing=tuple(sorted(missing))),
        reasons=(*finding.reasons, *_missing_samples(signal, settings, windows)),
    )


def _judge(
    signal: Signal,
    settings: SignalSettings,
    windows: Mapping[Direction, Measured],
    state: WorkloadState,
) -> Finding:
    up, back = windows[Direction.UPSIZE], windows[Direction.SCALE_BACK]
    upper = settings.by(Direction.UPSIZE).threshold_percent
    lower = settings.by(Direction.SCALE_BACK).threshold_percent

    above = next((usage for usage in up.usages if usage.exceeds(upper)), None)
    if above is not None:
        return _upsize(signal, settings, above, up.hottest, state)
    is_known = not back.silent and not back.blurred
    is_quiet = is_known and all(usage.is_below(lower) for usage in back.usages)
    if is_quiet and back.usages:
        return _scale_back(signal, settings, back.hottest, state)
    if not up.usages and not back.usages:
        return Finding(SignalReport())

    # No wish. It is shown through the upsize window, or the other one where that has no sample.
    direction = Direction.UPSIZE if up.usages else Direction.SCALE_BACK
    text = f"{signal}: {windows[direction].hottest}, not above {upper} % of it"
    high = next((usage for usage in back.usages if not usage.is_below(lower)), None)
    if high is not None:
        window = format_duration(settings.by(Direction.SCALE_BACK).window)
        text += f"; {high}, not below {lower} % of it all the last {window}"
    return Finding(_report(windows[direction].hottest, direction), reasons=(text,))


def _upsize(
    signal: Signal, settings: SignalSettings, above: Usage, hottest: Usage, state: WorkloadState
) -> Finding:
    """*above* exceeds the threshold; *hottest* may be another pod, which has more."""
    pod, upsize = hottest.pod, settings.upsize
    base = pod.baseline(state.baseline)
    cap = round_down(percent_of(base, upsize.max_percent))
    target = _with_headroom(hottest, upsize.headroom_percent)
    candidate = min(target, cap)
    report = _report(hottest, Direction.UPSIZE, wants=Direction.UPSIZE, candidate=candidate)
    reasons = [f"{signal}: {above}, above {upsize.threshold_percent} % of it"]
    if above is not hottest:
        reasons.append(f"{signal}: the hottest {hottest}")
    if target > cap:
        instead = f"instead of {format_gpus(target)}"
        reasons.append(f"{signal}: {_capped(cap, upsize.max_percent, base)} {instead}")
    if not base:
        # Whatever it asks for is cut to nothing, and nobody is to lose its GPU by an upsize.
        return Finding(report, reasons=tuple(reasons))
    return Finding(report, pod, candidate, tuple(reasons))


def _scale_back(
    signal: Signal, settings: SignalSettings, hottest: Usage, state: WorkloadState
) -> Finding:
    pod, scale_back = hottest.pod, settings.scale_back
    base = pod.baseline(state.baseline)
    target = _with_headroom(hottest, scale_back.headroom_percent)
    # The cap of an upsize bounds it as well: a high threshold and headroom would lead beyond it,
    # step by step. It is no reason to drop what is asked for, or the other signal, which needs
    # less, would be followed instead.
    max_percent = settings.upsize.max_percent
    cap = max(round_down(percent_of(base, max_percent)), base)
    candidate = min(max(target, base), cap)
    report = _report(hottest, Direction.SCALE_BACK, wants=Direction.SCALE_BACK, candidate=candidate)
    reasons = [f"{signal}: {hottest}, below {scale_back.threshold_percent} % of it"]
    instead = f"instead of {format_gpus(target)}"
    if target < base:
        reasons.append(f"{signal}: floored to the baseline of {format_gpus(base)} {instead}")
    if target > cap:
        reasons.append(f"{signal}: {_capped(cap, max_percent, base)} {instead}")
    if not base:
        reasons.append(f"{signal}: no scale-back, as the baseline is {format_gpus(base)}")
        return Finding(report, reasons=tuple(reasons))
    return Finding(report, pod, candidate, tuple(reasons))


def _capped(cap: Decimal, max_percent: int, base: Decimal) -> str:
    return f"capped at {format_gpus(cap)}, {max_percent} % of the baseline of {format_gpus(base)},"


def _with_headroom(usage: Usage, headroom_percent: int) -> Decimal:
    return round_amount(percent_of(usage.amount, 100 + headroom_percent))


def _report(
    usage: Usage,
    direction: Direction,
    *,
    wants: Direction | None = None,
    candidate: Decimal | None = None,
) -> SignalReport:
    return SignalReport(
        usage=usage.amount,
        allocation=usage.pod.allocation,
        pod=usage.pod.name,
        direction=direction,
        wants=wants,
        candidate=candidate,
    )


def _missing_samples(
    signal: Signal, settings: SignalSettings, windows: Mapping[Direction, Measured]
) -> Iterator[str]:
    for direction, effect in _SILENT.items():
        if windows[direction].silent:
            window = format_duration(settings.by(direction).window)
            pods = windows[direction].silent_text
            yield f"{signal}: {effect}: no samples in {window} of pod {pods}"
    for direction, effect in _BLURRED.items():
        if windows[direction].blurred:
            pods = windows[direction].blurred_text
            yield f"{signal}: {effect}: several devices look like one in pod {pods}"
