"""One round of questions: each asked once, in turn, and no longer than there is a point in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from tests.gpu_cluster import make_cluster, make_object, make_running_pod
from tests.gpu_documents import make_policy as make_policy_document
from tests.gpu_rounds import (
    COMPUTE,
    MEMORY,
    NOW,
    SCALE_BACK,
    UPSIZE,
    make_policy,
    make_signal,
    make_state,
)
from webhook.errors import PrometheusError, PrometheusFault
from webhook.model.rightsizing.policies import (
    DEFAULT_PRIORITIES,
    Direction,
    ReactivePolicy,
    ScaleBack,
    Signal,
    SignalSettings,
    Upsize,
)
from webhook.model.rightsizing.recommendations import Change
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.decisions.choose import TRIED_MAX
from webhook.reactive.decisions.decide import decide
from webhook.reactive.decisions.queries import NamespaceReading
from webhook.reactive.decisions.states import Percents
from webhook.reactive.observation.sampling import (
    NOTHING_TO_ASK,
    NamespaceSamples,
    Sampler,
)
from webhook.reactive.observation.wanted import Asker, Wanted, wanted_of
from webhook.reactive.observation.workloads import observe

PODS = frozenset({"llm-0", "llm-1"})
QUESTIONS = tuple(product(Signal, Direction))
AWAY = PrometheusError(PrometheusFault.UNREACHABLE, "prometheus:9090: Connection refused")
BROKEN = PrometheusError(PrometheusFault.FAILED, "HTTP 500", status=500)


def make_settings(metric: str, *, upsize: int = 10, scale_back: int = 10) -> SignalSettings:
    """Of *metric*, through windows of so many minutes."""
    settings = make_signal()
    return replace(
        settings,
        source=replace(settings.source, metric=metric),
        upsize=Upsize(window=timedelta(minutes=upsize)),
        scale_back=ScaleBack(window=timedelta(minutes=scale_back)),
    )


def make_signals(name: str = "gpu", *, namespace: str = "team-a", **windows: int) -> ReactivePolicy:
    return make_policy(
        name,
        namespace=namespace,
        compute=make_settings("sm", **windows),
        memory=make_settings("fb", **windows),
    )


POLICY = make_signals()


def sample(
    value: str | None = "80", *, namespace: str = "team-a", pod: str = "llm-0", device: str = "g0"
) -> Sample:
    labels = {"namespace": namespace, "pod": pod, "container": "main", "gpu_uuid": device}
    present = {name: text for name, text in labels.items() if text}
    return Sample(present, None if value is None else Decimal(value))


class FakePrometheus:
    """
    Answers by a part of the query: samples, or an error. What matches nothing has no samples.

    A query is held while *open* is not set.
    """

    def __init__(
        self, answers: Mapping[str, Iterable[Sample] | PrometheusError] | None = None
    ) -> None:
        self.answers = dict(answers or {})
        self.asked: list[str] = []
        self.times: set[datetime] = set()
        self.open = asyncio.Event()
        self.open.set()
        self.under_way = self.most_under_way = 0

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]:
        self.asked.append(promql)
        self.times.add(at)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0)
            await self.open.wait()
        finally:
            self.under_way -= 1
        for part, answer in self.answers.items():
            if part in promql:
                if isinstance(answer, PrometheusError):
                    raise answer
                return tuple(answer)
        return ()

    def namespaces(self) -> list[str]:
        """Those that were asked for, each once, in the order of their first query."""
        return list(dict.fromkeys([promql.split('namespace="')[1][:6] for promql in self.asked]))


def outcome_of(answer: NamespaceReading | PrometheusError) -> str:
    return answer.fault if isinstance(answer, PrometheusError) else "answered"


def wanted(namespace: str = "team-a", *policies: ReactivePolicy) -> Wanted:
    return Wanted(namespace, tuple([Asker(policy, PODS) for policy in policies or (POLICY,)]))


def teams(letters: str) -> list[Wanted]:
    return [wanted(f"team-{letter}") for letter in letters]


async def ask(
    sampler: Sampler, *each: Wanted, within_s: float | None = None
) -> list[NamespaceSamples]:
    async with aclosing(sampler.sample(each, NOW, within_s=within_s)) as found:
        return [samples async for samples in found]


async def ask_once(
    prometheus: FakePrometheus, *policies: ReactivePolicy, device_label: str = "gpu_uuid"
) -> NamespaceSamples:
    sampler = Sampler(prometheus, device_label=device_label)
    (samples,) = await ask(sampler, wanted("team-a", *policies))
    return samples


# --- what is asked ---


async def test_a_policy_asks_at_most_four_questions_about_a_namespace() -> None:
    prometheus = FakePrometheus()

    await ask_once(prometheus)

    assert sorted(prometheus.asked) == sorted(
        [
            f'max by (namespace, pod, container, gpu_uuid) ({function}({metric}{{namespace="team-a"'
            "}[10m]))"
            for metric in ("sm", "fb")
            for function in ("avg_over_time", "max_over_time")
        ]
    )
    assert prometheus.times == {NOW}


@pytest.mark.parametrize(
    ("other", "more"),
    [
        pytest.param(make_signals("other"), 0, id="the-same"),
        pytest.param(make_signals("other", upsize=5), 2, id="another-window"),
        pytest.param(replace(POLICY, key=replace(POLICY.key, name="x"), weight=7), 0, id="weight"),
        pytest.param(
            make_policy("other", compute=make_settings("sm"), memory=make_settings("fb2")),
            2,
            id="another-metric",
        ),
    ],
)
async def test_policies_share_the_questions_that_are_the_same(
    other: ReactivePolicy, more: int
) -> None:
    prometheus = FakePrometheus({"sm": [sample()]})

    samples = await ask_once(prometheus, POLICY, other)

    assert len(prometheus.asked) == len(set(prometheus.asked)) == 4 + more
    for policy in (POLICY, other):
        readings = samples.readings(policy)
        assert [readings.is_asked(*question) for question in QUESTIONS] == [True] * 4
        assert readings.devices(COMPUTE, UPSIZE) == {("llm-0", "main"): Percents((Decimal(80),))}


async def test_a_policy_that_nobody_asked_for_has_no_readings() -> None:
    samples = await ask_once(FakePrometheus())

    assert not samples.readings(make_signals("stranger")).is_asked(COMPUTE, UPSIZE)


async def test_each_namespace_is_asked_about_by_itself() -> None:
    prometheus = FakePrometheus({'"team-a"': [sample()], '"team-b"': []})

    first, second = await ask(Sampler(prometheus), *teams("ba"))

    assert (first.namespace, second.namespace) == ("team-a", "team-b")
    want = {("llm-0", "main"): Percents((Decimal(80),))}
    assert first.readings(POLICY).devices(COMPUTE, UPSIZE) == want
    assert second.readings(POLICY).devices(COMPUTE, UPSIZE) == {}


@pytest.mark.parametrize("concurrency", [1, 3, 4])
async def test_so_many_questions_are_under_way_at_most(concurrency: int) -> None:
    prometheus = FakePrometheus()

    await ask(Sampler(prometheus, concurrency=concurrency), *teams("abcdefgh"))

    assert len(prometheus.asked) == 32
    assert prometheus.most_under_way == concurrency


async def test_answers_do_not_pile_up_while_nobody_looks_at_them() -> None:
    """A cluster's samples are many; those of some namespaces at a time are few."""
    prometheus = FakePrometheus()
    async with aclosing(Sampler(prometheus).sample(teams("abcdefghijkl"), NOW)) as found:
        await anext(found)
        for _ in range(100):
            await asyncio.sleep(0)

        assert prometheus.namespaces() == ["team-a", "team-b", "team-c", "team-d"]


async def test_whoever_stops_listening_stops_the_questions() -> None:
    prometheus = FakePrometheus()
    async with aclosing(Sampler(prometheus).sample(teams("abcdef"), NOW)) as found:
        await anext(found)
        prometheus.open.clear()
        await asyncio.sleep(0)

    assert prometheus.under_way == 0


# --- when it fails ---


async def test_a_question_without_an_answer_counts_as_not_asked() -> None:
    """The others are answered; what became of this one is kept."""
    prometheus = FakePrometheus({"max_over_time(fb": BROKEN, "sm": [sample()]})

    samples = await ask_once(prometheus)

    readings = samples.readings(POLICY)
    assert {question for question in QUESTIONS if not readings.is_asked(*question)} == {
        (MEMORY, SCALE_BACK)
    }
    assert samples.fault(POLICY) is BROKEN
    assert samples.reasons(POLICY, PODS) == ("memory (scaleBack): Prometheus: Failed: HTTP 500",)


async def test_an_answered_round_has_no_fault() -> None:
    samples = await ask_once(FakePrometheus())

    assert samples.fault(POLICY) is None
    assert samples.reasons(POLICY, PODS) == ()
    assert not samples.is_left_out


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(AWAY, id="unreachable"),
        pytest.param(PrometheusError(PrometheusFault.TIMEOUT, "no answer"), id="timeout"),
        pytest.param(PrometheusError(PrometheusFault.NO_TOKEN, "no token"), id="no-token"),
        pytest.param(PrometheusError(PrometheusFault.REDIRECTED, "elsewhere"), id="redirected"),
        pytest.param(PrometheusError(PrometheusFault.REFUSED, "who?", status=401), id="401"),
        pytest.param(PrometheusError(PrometheusFault.REFUSED, "no", status=403), id="403"),
        pytest.param(PrometheusError(PrometheusFault.REFUSED, "later", status=429), id="429"),
    ],
)
async def test_nothing_more_is_asked_of_a_server_that_is_away(error: PrometheusError) -> None:
    """Each further question would take as long. All namespaces are told why they know nothing."""
    prometheus = FakePrometheus({"namespace": error})

    found = await ask(Sampler(prometheus, concurrency=1), *teams("abc"))

    assert len(prometheus.asked) == 1
    assert [samples.namespace for samples in found] == ["team-a", "team-b", "team-c"]
    assert [samples.is_left_out for samples in found] == [False, True, True]
    for samples in found:
        fault = samples.fault(POLICY)
        assert fault is not None
        assert fault.fault is error.fault
        assert not any(samples.readings(POLICY).is_asked(*question) for question in QUESTIONS)
    assert found[1].reasons(POLICY, PODS) == (
        "compute (upsize), compute (scaleBack), memory (upsize), memory (scaleBack): Prometheus: "
        f"{error.fault}: not asked, after this: {error.message}",
    )


async def test_a_fault_of_one_question_does_not_stop_the_others() -> None:
    refused = PrometheusError(PrometheusFault.REFUSED, "HTTP 422", status=422)
    prometheus = FakePrometheus({'fb{namespace="team-a"': refused})

    found = await ask(Sampler(prometheus, concurrency=1), *teams("abc"))

    assert len(prometheus.asked) == 12
    assert [samples.fault(POLICY) for samples in found] == [refused, None, None]


async def test_a_server_that_fails_all_the_time_is_not_asked_to_the_end() -> None:
    prometheus = FakePrometheus({"namespace": BROKEN})

    found = await ask(Sampler(prometheus, concurrency=1), *teams("abcdef"))

    assert len(prometheus.asked) == 8
    assert [samples.is_left_out for samples in found] == [False, False, True, True, True, True]


async def test_an_answer_between_faults_shows_that_somebody_is_there() -> None:
    prometheus = FakePrometheus({"sm": [], "fb": BROKEN})

    await ask(Sampler(prometheus, concurrency=1), *teams("abcdef"))

    assert len(prometheus.asked) == 24


async def test_a_round_ends_when_its_time_is_over() -> None:
    prometheus = FakePrometheus()
    prometheus.open.clear()

    found = await ask(Sampler(prometheus, concurrency=2), *teams("abc"), within_s=0.05)

    assert len(prometheus.asked) == 2
    assert prometheus.under_way == 0
    faults = [samples.fault(POLICY) for samples in found]
    assert [fault and fault.fault for fault in faults] == [PrometheusFault.TIMEOUT] * 3
    assert "the time for all questions is over" in str(faults[0])


async def test_the_next_round_begins_with_those_that_had_no_turn() -> None:
    """Else one question that is too much would keep everybody after it unanswered for ever."""
    prometheus = FakePrometheus({'"team-a"': AWAY})
    sampler = Sampler(prometheus, concurrency=1)

    first = await ask(sampler, *teams("abcd"))
    prometheus.asked.clear()
    second = await ask(sampler, *teams("abcd"))

    assert [samples.namespace for samples in first if samples.is_left_out] == [
        "team-b",
        "team-c",
        "team-d",
    ]
    assert [samples.namespace for samples in second] == ["team-b", "team-c", "team-d", "team-a"]
    assert prometheus.namespaces() == ["team-b", "team-c", "team-d", "team-a"]
    assert [samples.fault(POLICY) is None for samples in second] == [True, True, True, False]


async def test_a_round_that_came_to_its_end_is_followed_by_one_in_order() -> None:
    prometheus = FakePrometheus({'"team-a"': AWAY})
    sampler = Sampler(prometheus, concurrency=1)

    await ask(sampler, *teams("abc"))
    prometheus.answers.clear()
    await ask(sampler, *teams("abc"))
    third = await ask(sampler, *teams("abc"))

    assert [samples.namespace for samples in third] == ["team-a", "team-b", "team-c"]


SLOW = PrometheusError(PrometheusFault.TIMEOUT, "no whole answer within 30 s")
REFUSED = PrometheusError(PrometheusFault.REFUSED, "too many samples", status=422)
# Their queries have windows of their own.
HEAVY = make_signals("a-heavy", upsize=600, scale_back=600)
HEAVIER = make_signals("a-heavier", upsize=660, scale_back=660)
FAULTS = [
    pytest.param({"[10h": SLOW}, id="one-that-is-too-slow"),
    pytest.param({"[10h]": REFUSED, "[11h]": REFUSED}, id="eight-that-are-refused"),
]


def each_asks(*policies: ReactivePolicy, tried: tuple[str, ...] = ()) -> Wanted:
    return Wanted("team-a", tuple([Asker(each, PODS, each.key.name in tried) for each in policies]))


@pytest.mark.parametrize("answers", FAULTS)
async def test_what_a_policy_that_is_tried_asks_for_keeps_nobody_waiting(
    answers: Mapping[str, PrometheusError],
) -> None:
    prometheus = FakePrometheus(answers)
    sampler = Sampler(prometheus, concurrency=1)

    for _ in range(4):
        (samples,) = await ask(
            sampler, each_asks(HEAVY, HEAVIER, POLICY, tried=("a-heavy", "a-heavier"))
        )

        assert samples.fault(POLICY) is None
        assert samples.readings(POLICY).is_asked(COMPUTE, UPSIZE)
        assert samples.fault(HEAVY) is not None


@pytest.mark.parametrize("answers", FAULTS)
async def test_a_question_that_had_no_answer_keeps_nobody_waiting_the_next_time(
    answers: Mapping[str, PrometheusError],
) -> None:
    """Any author of a policy in the namespace could stop all others by it."""
    prometheus = FakePrometheus(answers)
    sampler = Sampler(prometheus, concurrency=1)
    wants = each_asks(HEAVY, HEAVIER, POLICY)

    rounds = [(await ask(sampler, wants))[0].fault(POLICY) for _ in range(6)]

    # Of each of the two policies the first time is not foreseen.
    assert rounds[2:] == [None] * 4


async def test_a_question_that_is_answered_again_is_asked_like_any_other() -> None:
    prometheus = FakePrometheus({"sm": SLOW})
    sampler = Sampler(prometheus, concurrency=1)
    await ask(sampler, wanted())
    prometheus.answers.clear()

    first, second = [(await ask(sampler, wanted()))[0] for _ in range(2)]

    assert (first.fault(POLICY), second.fault(POLICY)) == (None, None)


async def test_policies_that_are_tried_take_turns() -> None:
    prometheus = FakePrometheus({"[10h]": SLOW})
    sampler = Sampler(prometheus, concurrency=1)
    trials = ("a-heavy", "a-heavier")
    wants = each_asks(HEAVY, HEAVIER, POLICY, tried=trials)

    faults = [(await ask(sampler, wants))[0].fault(HEAVIER) for _ in range(4)]

    assert faults[0] is not None
    assert faults[1:] == [None, None, None]


async def test_namespaces_with_a_question_that_had_no_answer_take_turns() -> None:
    """The last one recovers, while those before it are still too much."""
    prometheus = FakePrometheus({'"team-a"': SLOW, '"team-b"': SLOW, '"team-c"': SLOW})
    sampler = Sampler(prometheus, concurrency=1)
    for _ in range(12):
        await ask(sampler, *teams("abcd"))
    del prometheus.answers['"team-c"']

    rounds = [await ask(sampler, *teams("abcd")) for _ in range(4)]

    def is_answered(found: list[NamespaceSamples], namespace: str) -> bool:
        (samples,) = [each for each in found if each.namespace == namespace]
        return samples.fault(POLICY) is None

    assert [is_answered(found, "team-d") for found in rounds] == [True] * 4
    assert any(is_answered(found, "team-c") for found in rounds)
    assert is_answered(rounds[-1], "team-c")


async def test_what_is_asked_apart_has_half_of_the_rounds_time_at_most() -> None:
    """The other one is answered at once, and its own time is not used up."""
    prometheus = FakePrometheus()
    held = FakePrometheus()
    held.open.clear()

    class Both:
        async def query(
            self, promql: str, *, at: datetime, within_s: float | None = None
        ) -> tuple[Sample, ...]:
            return await (held if "[10h]" in promql else prometheus).query(promql, at=at)

    (samples,) = await ask(
        Sampler(Both()), each_asks(HEAVY, POLICY, tried=("a-heavy",)), within_s=0.1
    )

    assert len(held.asked) == 1
    assert samples.fault(POLICY) is None
    fault = samples.fault(HEAVY)
    assert fault is not None
    assert fault.message.endswith("the time for questions that are asked apart is over")


async def test_a_policy_knows_of_the_pods_that_it_asked_for_only() -> None:
    prometheus = FakePrometheus({"sm": [sample(), sample(pod="llm-1")]})
    each = (Asker(POLICY, frozenset({"llm-0"})), Asker(HEAVY, frozenset({"llm-1"})))

    (samples,) = await ask(Sampler(prometheus), Wanted("team-a", each))

    found = [samples.readings(policy).devices(COMPUTE, UPSIZE) for policy in (POLICY, HEAVY)]
    assert found == [{(pod, "main"): Percents((Decimal(80),))} for pod in ("llm-0", "llm-1")]


async def test_every_query_that_was_sent_is_counted() -> None:
    counts: Counter[str] = Counter()
    prometheus = FakePrometheus({"avg_over_time(fb": BROKEN, '"team-b"': AWAY})
    sampler = Sampler(
        prometheus, concurrency=1, on_query=lambda answer, _: counts.update([outcome_of(answer)])
    )

    await ask(sampler, *teams("abc"))

    assert counts == {"answered": 3, "Failed": 1, "Unreachable": 1}


# --- what is odd about answers ---


async def test_series_without_a_device_are_told_to_whom_they_are_of() -> None:
    """Of a container with two GPUs they look like those of one."""
    prometheus = FakePrometheus({"sm": [sample(device=""), sample(pod="llm-1")]})

    samples = await ask_once(prometheus)

    assert samples.reasons(POLICY, ["llm-0"]) == (
        "compute (upsize), compute (scaleBack): 1 series of sm have no label gpu_uuid, so that"
        " several devices would look like one",
    )
    assert samples.reasons(POLICY, ["llm-1"]) == ()


async def test_a_device_label_that_the_exporter_does_not_have_is_named() -> None:
    samples = await ask_once(FakePrometheus({"sm": [sample()]}), device_label="UUID")

    assert "no label UUID" in samples.reasons(POLICY, PODS)[0]


@pytest.mark.parametrize(
    ("odd", "want"),
    [
        pytest.param(sample(pod=""), "1 series of sm name no pod", id="no-pod"),
        pytest.param(sample(None), "1 series of sm have no usable value", id="nan"),
        pytest.param(
            sample(namespace="team-b"), "1 series of sm are of another namespace", id="namespace"
        ),
    ],
)
async def test_series_that_are_not_used_are_counted(odd: Sample, want: str) -> None:
    samples = await ask_once(FakePrometheus({"sm": [odd]}))

    assert samples.reasons(POLICY, PODS) == (f"compute (upsize), compute (scaleBack): {want}",)


async def test_a_policy_that_can_not_be_asked_for_keeps_no_other_waiting() -> None:
    """The CRD refuses it; somebody else's CRD may not."""
    broken = make_policy("broken", compute=make_settings("no metric"))

    samples = await ask_once(FakePrometheus(), broken, POLICY)

    assert samples.reasons(broken, PODS) == (
        "Prometheus is not asked: metric: 'no metric' is no name of Prometheus",
    )
    assert not samples.readings(broken).is_asked(COMPUTE, UPSIZE)
    assert samples.readings(POLICY).is_asked(COMPUTE, UPSIZE)


# --- for whom ---


def test_each_namespace_is_wanted_once_with_all_policies_and_living_pods() -> None:
    database = make_object("StatefulSet", "db")
    other = make_object("Deployment", "web", namespace="team-b")
    cluster = make_cluster(
        make_policy_document("one", namespace="team-a"),
        make_policy_document("two", namespace="team-a", scope={"workloadTypes": ["StatefulSet"]}),
        make_policy_document("three", namespace="team-b"),
        database,
        make_object("StatefulSet", "cache"),
        other,
        make_running_pod("db-0", owner=database),
        make_running_pod("db-1", owner=database, deleted=True),
    )

    (found,) = wanted_of(observe(cluster), DEFAULT_PRIORITIES, multi_policy=True)

    assert found.namespace == "team-a"
    assert sorted(asker.policy.key.name for asker in found.askers) == ["one", "two"]
    assert {asker.pods for asker in found.askers} == {frozenset({"db-0"})}


def test_policies_that_are_passed_over_ask_nothing_and_some_are_tried() -> None:
    database = make_object("StatefulSet", "db")
    trials = [
        make_policy_document(f"trial-{number}", namespace="team-a", mode="Recommend")
        for number in range(4)
    ]
    cluster = make_cluster(
        *[make_policy_document(name, namespace="team-a") for name in ("one", "two")],
        *trials,
        database,
        make_running_pod("db-0", owner=database),
    )

    (found,) = wanted_of(observe(cluster), DEFAULT_PRIORITIES, multi_policy=False)

    assert TRIED_MAX == 2
    assert [(asker.policy.key.name, asker.is_tried) for asker in found.askers] == [
        ("one", False),
        ("trial-0", True),
        ("trial-1", True),
    ]


def test_a_workload_without_pods_keeps_what_it_has() -> None:
    """As between an eviction and the next pod: there is nothing to ask, and nothing to lose."""
    state = make_state({"main": "2"}, COMPUTE, baseline={"main": "1"})

    evaluation = decide(POLICY, state, [], NOTHING_TO_ASK, NOW)

    assert (evaluation.change, evaluation.state) == (Change.KEPT, state)
    assert evaluation.reasons == ("the previous recommendation stays: there is no pod to look at",)


# --- faults that nobody has foreseen ---


class Unlikely(frozenset[str]):
    """Names of pods that can't be looked at."""

    def __contains__(self, name: object) -> bool:
        raise LookupError(name)

    def __or__(self, other: Any) -> Any:
        raise LookupError


@pytest.mark.parametrize(
    ("askers", "fault"),
    [
        pytest.param((Asker(POLICY, Unlikely()),), PrometheusFault.BAD_ANSWER, id="an-answer"),
        pytest.param(
            (Asker(POLICY, Unlikely()), Asker(make_signals("b"), frozenset())),
            PrometheusFault.UNREACHABLE,
            id="a-namespace",
        ),
    ],
)
async def test_what_fails_in_one_namespace_keeps_no_other_from_its_turn(
    askers: tuple[Asker, ...], fault: PrometheusFault
) -> None:
    prometheus = FakePrometheus({'"team-a"': [sample()], '"team-b"': [sample(namespace="team-b")]})
    second = make_signals(namespace="team-b")

    spoilt, fine = await ask(
        Sampler(prometheus),
        Wanted("team-a", askers),
        Wanted("team-b", (Asker(second, frozenset({"llm-0"})),)),
    )

    found = spoilt.fault(POLICY)
    assert found is not None
    assert (found.fault, found.message.partition(" (")[0]) == (
        fault,
        "nothing can be asked: LookupError",
    )
    assert not spoilt.readings(POLICY).is_asked(COMPUTE, UPSIZE)
    assert spoilt.reasons(POLICY, ["llm-0"])
    assert fine.fault(second) is None
    assert fine.readings(second).devices(COMPUTE, UPSIZE)
