"""`GpuRecommendation`: the object that keeps what was found out about one workload."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from webhook.model.rightsizing.amounts import EXACT, format_amount
from webhook.model.rightsizing.policies import Direction, DocumentKey, Mode, Scheduler, Signal
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
    StatusCondition,
    WorkloadRef,
    read_recommendation,
    recommendation_name,
    write_recommendation,
    write_status,
)

NOW = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)
POLICY = DocumentKey("GpuReactivePolicy", "default", "gpu-reactive")
STRATEGY = DocumentKey("AutomationStrategy", "default", "gpu")
LLM = WorkloadRef("apps/v1", "Deployment", "llm", "0c6a")


def make_state(**fields: Any) -> PolicyState:
    """One container, upsized by compute."""
    given: dict[str, Any] = {
        "baseline": {"inference": BaselineAmount(Decimal("0.5"), NOW, "pod llm-0")},
        "current": {"inference": Decimal("0.5")},
        "recommendation": {"inference": Decimal("0.96")},
        "total": Decimal("0.96"),
        "driver": Signal.COMPUTE,
        "change": Change.UPSIZE,
    }
    return PolicyState(POLICY, **{**given, **fields})


def make_selected(**fields: Any) -> Selected:
    return Selected(POLICY, STRATEGY, **{"amounts": {"inference": Decimal("0.96")}, **fields})


def make_recommendation(**status: Any) -> GpuRecommendation:
    given = {"policies": (make_state(),), "selected": make_selected(), "evaluated_at": NOW}
    return GpuRecommendation(
        "default", LLM, RecommendationStatus(**{**given, **status}), "9f1e", "7"
    )


def summary(**status: Any) -> Mapping[str, str]:
    written: Mapping[str, str] = write_status(LLM, make_recommendation(**status).status)["summary"]
    return written


# --- the object ---


def test_it_is_owned_by_its_workload() -> None:
    manifest = write_recommendation(make_recommendation())

    assert manifest["apiVersion"] == "policy.gatewright.io/v1alpha1"
    assert manifest["kind"] == "GpuRecommendation"
    assert manifest["metadata"] == {
        "name": "deployment.llm",
        "namespace": "default",
        "uid": "9f1e",
        "resourceVersion": "7",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm", "uid": "0c6a"}
        ],
    }
    assert manifest["spec"] == {
        "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm", "uid": "0c6a"}
    }


def test_one_that_is_not_stored_yet_has_no_version() -> None:
    metadata = write_recommendation(GpuRecommendation("default", LLM))["metadata"]

    assert set(metadata) == {"name", "namespace", "ownerReferences"}


def test_amounts_durations_and_times_are_text() -> None:
    evaluation = SignalEvaluation(
        125,
        timedelta(minutes=10),
        Decimal("0.80"),
        Decimal("0.5"),
        "llm-0",
        Decimal("0.960"),
        ("a",),
        12,
    )
    state = make_state(
        signals={Signal.COMPUTE: SignalState(Direction.UPSIZE, upsize=evaluation)},
        reasons=("capped",),
        evaluated_at=NOW,
    )
    (written,) = write_status(LLM, RecommendationStatus(policies=(state,)))["policies"]

    assert written == {
        "policy": {"kind": "GpuReactivePolicy", "namespace": "default", "name": "gpu-reactive"},
        "generation": 0,
        "baseline": {
            "inference": {"amount": "0.5", "since": "2026-01-01T10:30:00Z", "origin": "pod llm-0"}
        },
        "current": {"inference": "0.5"},
        "recommendation": {"inference": "0.96"},
        "total": "0.96",
        "driver": "compute",
        "change": "upsize",
        "signals": {
            "compute": {
                "wants": "upsize",
                "upsize": {
                    "thresholdPercent": 125,
                    "window": "10m",
                    "usage": "0.8",
                    "allocation": "0.5",
                    "pod": "llm-0",
                    "candidate": "0.96",
                    "missing": ["a"],
                    "missingCount": 12,
                },
            }
        },
        "reasons": ["capped"],
        "evaluatedAt": "2026-01-01T10:30:00Z",
    }


def test_what_the_webhook_needs_is_written_down() -> None:
    selected = make_selected(
        scheduler=Scheduler.KAI,
        mode=Mode.RECOMMEND,
        queue="team",
        policies={"b": POLICY},
        ceilings={"inference": Decimal("1.5")},
        baselines={"inference": Decimal("0.5")},
    )

    assert write_status(LLM, RecommendationStatus(selected=selected))["selected"] == {
        "policy": {"kind": "GpuReactivePolicy", "namespace": "default", "name": "gpu-reactive"},
        "strategy": {"kind": "AutomationStrategy", "namespace": "default", "name": "gpu"},
        "amounts": {"inference": "0.96"},
        "ceilings": {"inference": "1.5"},
        "baselines": {"inference": "0.5"},
        "policies": {
            "b": {"kind": "GpuReactivePolicy", "namespace": "default", "name": "gpu-reactive"}
        },
        "mode": "Recommend",
        "automationEnabled": True,
        "scheduler": "kai",
        "upsize": False,
        "downsize": False,
        "setFromUnspecified": False,
        "queue": "team",
        "setQueueWhenSpecified": False,
        "schedulerName": "kai-scheduler",
        "respectsPause": True,
        "respectsQuota": True,
    }


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        pytest.param("0.50", "0.5", id="zeros-at-the-end"),
        pytest.param("2.000", "2", id="whole"),
        pytest.param("20", "20", id="zeros-that-count"),
        pytest.param("2E+1", "20", id="exponent"),
        pytest.param("1E-6", "0.000001", id="small"),
        pytest.param("0.0", "0", id="zero"),
        pytest.param("-0", "0", id="zero-below"),
        pytest.param("0.0000005", "0", id="half-of-the-last-place"),
        pytest.param("1.0000015", "1.000002", id="seventh-place"),
        pytest.param("9223372036854775807.5", "9223372036854775807.5", id="64-bits"),
        pytest.param("1e308", "100000000000000000000", id="largest-sample"),
        pytest.param("-1e308", "-100000000000000000000", id="below-all"),
    ],
)
def test_an_amount_is_plain_text(amount: str, want: str) -> None:
    assert format_amount(Decimal(amount)) == want


# --- names ---


@pytest.mark.parametrize(
    ("kind", "name", "want"),
    [
        pytest.param("Deployment", "llm", "deployment.llm", id="plain"),
        pytest.param("CronJob", "nightly.v2", "cronjob.nightly.v2", id="with-a-dot"),
    ],
)
def test_it_is_named_by_kind_and_name(kind: str, name: str, want: str) -> None:
    assert recommendation_name(kind, name) == want


def test_a_name_that_would_be_too_long_ends_with_a_hash() -> None:
    long = "a" * 250
    names = {recommendation_name("Deployment", long + end) for end in ("bcd", "bce")}

    assert {len(name) for name in names} == {253}
    assert len(names) == 2
    assert recommendation_name("Job", "b" * 249) == f"job.{'b' * 249}"


# --- the columns ---


def test_the_columns_say_what_and_why() -> None:
    assert summary(reasons=("no eviction: a PodDisruptionBudget forbids it",)) == {
        "workload": "Deployment/llm",
        "gpus": "0.5",
        "recommended": "0.96",
        "driver": "compute",
        "change": "upsize",
        "why": "no eviction: a PodDisruptionBudget forbids it",
        "policy": "GpuReactivePolicy default/gpu-reactive",
        "mode": "Enforce",
    }


def test_several_containers_are_added_up() -> None:
    amounts = {"a": Decimal("0.25"), "b": Decimal("0.5")}
    told = summary(policies=(make_state(current=amounts),), selected=make_selected(amounts=amounts))

    assert (told["gpus"], told["recommended"]) == ("0.75", "0.75")


def test_where_nothing_is_selected_the_first_policy_tells() -> None:
    state = make_state(change=Change.NONE, driver=None, reasons=("no samples", "and more"))

    assert summary(policies=(state,), selected=None) == {
        "workload": "Deployment/llm",
        "gpus": "0.5",
        "change": "none",
        "why": "no samples",
        "policy": "GpuReactivePolicy default/gpu-reactive",
    }


def test_before_the_first_evaluation_only_the_workload_is_known() -> None:
    assert write_status(LLM, RecommendationStatus())["summary"] == {"workload": "Deployment/llm"}


def test_a_long_reason_is_cut_in_its_column() -> None:
    told = summary(reasons=("x" * 500,))

    assert told["why"] == "x" * 119 + "…"


# --- there and back ---

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
AMOUNTS = st.decimals(0, 10_000, places=6)
NAMES = st.sampled_from(("inference", "sidecar", "main"))
TIMES = st.datetimes(
    datetime(2020, 1, 1),
    datetime(2100, 1, 1),
    timezones=st.just(UTC),
)
KEYS = st.builds(DocumentKey, TEXTS, TEXTS, TEXTS)
_T = TypeVar("_T")


def by_container(values: st.SearchStrategy[_T]) -> st.SearchStrategy[dict[str, _T]]:
    return st.dictionaries(NAMES, values, max_size=3)


def some(values: st.SearchStrategy[_T]) -> st.SearchStrategy[tuple[_T, ...]]:
    return st.lists(values, max_size=3).map(tuple)


EVALUATIONS = st.builds(
    SignalEvaluation,
    st.integers(1, 1000),
    st.timedeltas(timedelta(), timedelta(days=400)),
    st.none() | AMOUNTS,
    st.none() | AMOUNTS,
    TEXTS,
    st.none() | AMOUNTS,
    some(TEXTS),
)
STATES = st.builds(
    PolicyState,
    policy=KEYS,
    generation=st.integers(0, 2**40),
    baseline=by_container(st.builds(BaselineAmount, AMOUNTS, TIMES, TEXTS)),
    current=by_container(AMOUNTS),
    recommendation=by_container(AMOUNTS),
    total=st.none() | AMOUNTS,
    driver=st.none() | st.sampled_from(Signal),
    change=st.sampled_from(Change),
    signals=st.dictionaries(
        st.sampled_from(Signal),
        st.builds(
            SignalState,
            st.none() | st.sampled_from(Direction),
            st.none() | EVALUATIONS,
            st.none() | EVALUATIONS,
        ),
    ),
    reasons=some(TEXTS),
    evaluated_at=st.none() | TIMES,
)
SELECTED = st.builds(
    Selected,
    policy=KEYS,
    strategy=KEYS,
    amounts=by_container(AMOUNTS),
    baselines=by_container(AMOUNTS),
    policies=by_container(KEYS),
    mode=st.sampled_from(Mode),
    automation_enabled=st.booleans(),
    scheduler=st.sampled_from(Scheduler),
    upsize=st.booleans(),
    downsize=st.booleans(),
    set_from_unspecified=st.booleans(),
    queue=TEXTS,
    set_queue_when_specified=st.booleans(),
    scheduler_name=TEXTS,
    respects_pause=st.booleans(),
    respects_quota=st.booleans(),
)
CONDITIONS = st.builds(
    StatusCondition,
    TEXTS,
    st.sampled_from(("True", "False", "Unknown")),
    TEXTS,
    TEXTS,
    st.integers(0, 2**40),
    st.none() | TIMES,
)
EVICTIONS = st.builds(
    Eviction, TEXTS, TEXTS, TIMES, TIMES, *[st.integers(0, 2**40)] * 3, TEXTS, st.booleans()
)
RECOMMENDATIONS = st.builds(
    GpuRecommendation,
    namespace=TEXTS,
    workload=st.builds(WorkloadRef, TEXTS, TEXTS, TEXTS, TEXTS),
    status=st.builds(
        RecommendationStatus,
        st.none() | TIMES,
        some(STATES),
        st.none() | SELECTED,
        some(TEXTS),
        some(CONDITIONS),
        st.none() | EVICTIONS,
        by_container(some(AMOUNTS)),
    ),
    uid=TEXTS,
    resource_version=TEXTS,
)


@pytest.mark.slow
# Each is large, and how long they take to make says nothing of what is tested.
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(RECOMMENDATIONS)
def test_what_is_written_is_read_as_the_same(recommendation: GpuRecommendation) -> None:
    manifest = json.loads(json.dumps(write_recommendation(recommendation)))

    assert read_recommendation(manifest) == recommendation


# What samples and quantities make, with the digits that quotients of them may have.
EMITTED = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent, EXACT),
    st.integers(0, 10**40) | st.integers(0, 10**6),
    st.integers(-1000, 400),
)


@pytest.mark.slow
@given(EMITTED, EMITTED)
@example(Decimal("1e-6"), Decimal("5e-7"))
def test_whatever_is_decided_is_stored_so_that_it_can_be_read(a: Decimal, b: Decimal) -> None:
    evaluation = SignalEvaluation(80, timedelta(minutes=5), a, b, "llm-0", a)
    amounts = {"inference": a, "sidecar": b}
    state = make_state(
        baseline={"inference": BaselineAmount(a, NOW)},
        current=amounts,
        recommendation=amounts,
        total=EXACT.add(a, b),
        signals={Signal.COMPUTE: SignalState(upsize=evaluation)},
    )
    written = write_recommendation(
        make_recommendation(policies=(state,), selected=make_selected(amounts=amounts))
    )

    read = read_recommendation(json.loads(json.dumps(written)))
    assert read.unread == ()
    assert write_recommendation(read) == written
    (stored,) = read.status.policies
    assert all(
        abs(stored.current[name] - amount) <= Decimal("5e-7") or amount > 10**20
        for name, amount in amounts.items()
    )
    assert len(written["status"]["policies"][0]["signals"]["compute"]["upsize"]["usage"]) <= 28


def test_a_time_elsewhere_is_the_same_time() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    manifest = write_recommendation(make_recommendation(evaluated_at=elsewhere))

    assert manifest["status"]["evaluatedAt"] == "2026-01-01T10:30:00Z"
    assert read_recommendation(manifest).status.evaluated_at == NOW


def test_one_without_a_status_has_found_out_nothing() -> None:
    manifest = write_recommendation(make_recommendation())
    del manifest["status"]

    assert read_recommendation(manifest).status == RecommendationStatus()


def test_what_a_later_version_wrote_is_left_out() -> None:
    manifest = write_recommendation(make_recommendation())
    manifest["status"]["novel"] = 1
    manifest["status"]["policies"][0]["novel"] = {}

    assert read_recommendation(manifest) == make_recommendation()


def test_what_cant_be_read_is_told_with_its_path() -> None:
    manifest = write_recommendation(make_recommendation())
    manifest["status"]["evaluatedAt"] = "now"
    state = manifest["status"]["policies"][0]
    state |= {"total": 1, "driver": "power"}
    state["baseline"]["inference"]["amount"] = "1e3"
    state["signals"] = {"compute": {"upsize": {"thresholdPercent": 1, "window": "1d"}}}

    told = {error.path for error in read_recommendation(manifest).unread}
    assert told == {
        "status.evaluatedAt",
        "status.policies[0].total",
        "status.policies[0].driver",
        "status.policies[0].baseline.inference.amount",
        "status.policies[0].signals.compute.upsize.window",
    }


SPOILT_KEY = {"kind": "GpuReactivePolicy", "namespace": 1, "name": "x"}
READ = make_recommendation(
    policies=(make_state(), replace(make_state(), policy=STRATEGY)),
    conditions=(StatusCondition("Ready", "True", "Evaluated"),) * 2,
    eviction=Eviction("llm-0", "u", NOW, NOW),
    reasons=("a",),
)
FIRST, SECOND = READ.status.policies


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param(("evaluatedAt",), "0001-01-01T00:00:00+14:00", {"evaluated_at": None}, id="beyond-the-calendar"),
        pytest.param(("evaluatedAt",), 7, {"evaluated_at": None}, id="no-text"),
        pytest.param(("reasons",), "a", {"reasons": ()}, id="no-list"),
        pytest.param(("policies",), {}, {"policies": ()}, id="no-policies"),
        pytest.param(("policies", 0), [], {"policies": (SECOND,)}, id="no-policy"),
        pytest.param(("policies", 1, "policy"), SPOILT_KEY, {"policies": (FIRST,)}, id="policy-of-no-name"),
        pytest.param(
            ("policies", 0, "baseline", "inference", "amount"), "1e3",
            {"policies": (replace(FIRST, baseline={}), SECOND)}, id="baseline",
        ),
        pytest.param(
            ("policies", 0, "baseline", "more"), {"amount": "1"},
            {"policies": READ.status.policies}, id="one-baseline-of-two",
        ),
        pytest.param(
            ("policies", 1, "recommendation", "more"), None,
            {"policies": (FIRST, replace(SECOND, recommendation={}))}, id="recommendation-as-a-whole",
        ),
        pytest.param(
            ("policies", 0, "signals"), {"power": {}, "memory": {}, "compute": {"upsize": 1}},
            {"policies": (replace(FIRST, signals={Signal.MEMORY: SignalState()}), SECOND)}, id="signals",
        ),
        pytest.param(
            ("policies", 0, "total"), "9" * 41,
            {"policies": (replace(FIRST, total=None), SECOND)}, id="too-long",
        ),
        pytest.param(("selected", "pauseUntil"), 1, {"selected": None}, id="half-of-what-is-selected"),
        pytest.param(("selected", "amounts", "x"), "1e3", {"selected": None}, id="an-amount-that-is-selected"),
        pytest.param(("eviction", "since"), "9999-12-31T23:59:59-14:00", {"eviction": None}, id="eviction"),
        pytest.param(
            ("conditions", 0, "lastTransitionTime"), "x",
            {"conditions": READ.status.conditions[1:]}, id="one-condition-of-two",
        ),
    ],
)  # fmt: skip
def test_of_a_spoilt_status_the_rest_counts(
    path: tuple[str | int, ...], value: Any, want: Mapping[str, Any]
) -> None:
    manifest = json.loads(json.dumps(write_recommendation(READ)))
    whole = copy.deepcopy(manifest)
    *above, last = path
    place = manifest["status"]
    for step in above:
        place = place[step]
    place[last] = value
    spoilt = copy.deepcopy(manifest)
    read = read_recommendation(manifest)

    assert read.status == replace(READ.status, **want)
    assert read.unread
    assert manifest == spoilt != whole
    assert read_recommendation(write_recommendation(read)) == replace(read, unread=())


# What may stand anywhere in a status: the CRD keeps fields that it doesn't know, and any text.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-23:59", "1", "10m")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
PATHS = [
    ("evaluatedAt",),
    ("policies",),
    ("policies", 0),
    ("policies", 1, "policy"),
    ("policies", 1, "baseline"),
    ("policies", 0, "baseline", "inference", "since"),
    ("policies", 0, "signals"),
    ("policies", 0, "current", "inference"),
    ("selected", "amounts"),
    ("selected",),
    ("eviction", "at"),
    ("conditions", 1),
    ("conditions",),
    ("reasons", 0),
]


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(PATHS), JSON, max_size=4))
def test_no_status_is_beyond_reading(spoilt: Mapping[tuple[str | int, ...], Any]) -> None:
    """Whatever somebody writes there, the workload goes on with what is left."""
    manifest = json.loads(json.dumps(write_recommendation(READ)))
    # The deepest first, so that all of them are there.
    for path, value in sorted(spoilt.items(), key=lambda item: -len(item[0])):
        *above, last = path
        place = manifest["status"]
        for step in above:
            place = place[step]
        place[last] = value
    read = read_recommendation(manifest)

    assert read.workload == LLM
    again = read_recommendation(json.loads(json.dumps(write_recommendation(read))))
    assert again == replace(read, unread=())


def test_one_that_names_no_workload_tells_all_its_problems() -> None:
    manifest = write_recommendation(make_recommendation())
    del manifest["spec"]["workloadRef"]["name"]
    manifest["status"]["evaluatedAt"] = "now"
    with pytest.raises(ExceptionGroup) as raised:
        read_recommendation(manifest)

    told = [str(error).split(": ")[0] for error in raised.value.exceptions]
    assert told == ["spec.workloadRef.name", "status.evaluatedAt"]


@pytest.mark.parametrize("manifest", [{}, {"spec": 1, "status": []}, {"metadata": "x"}])
def test_what_names_no_workload_is_no_recommendation(manifest: Any) -> None:
    with pytest.raises(ExceptionGroup):
        read_recommendation(manifest)
