"""
Our queries against a real Prometheus, whose history is filled in.

All series of all tests are filled in at once, each test with a metric of its own.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import pytest_asyncio

from tests.controlplane.errors import CommandError
from tests.controlplane.openmetrics import Series, Value
from tests.controlplane.prometheus import Prometheus
from webhook.clients.prometheus import PrometheusClient
from webhook.errors import PrometheusError, PrometheusFault
from webhook.model.rightsizing.policies import Direction, MetricSource
from webhook.reactive.decisions import windows
from webhook.reactive.decisions.queries import (
    FUNCTIONS,
    NamespaceReading,
    Skip,
    build_query,
    read_samples,
)

T = datetime(2026, 1, 1, 1, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MS = timedelta(milliseconds=1)
PODS = frozenset({"llm-0", "llm-1"})
KEY = ("llm-0", "inference", "GPU-0")

# Prometheus computes in doubles, of 15 to 17 digits, and we exactly.
NEAR = Decimal("1e-12")


def labelled(
    *,
    namespace: str = "team-a",
    pod: str = "llm-0",
    container: str = "inference",
    gpu_uuid: str = "GPU-0",
    **more: str,
) -> dict[str, str]:
    return {
        "namespace": namespace,
        "pod": pod,
        "container": container,
        "gpu_uuid": gpu_uuid,
        **more,
    }


def minutely(*values: Value, until: datetime = T) -> list[tuple[datetime, Value]]:
    """One a minute, the last of them at *until*."""
    first = until - (len(values) - 1) * MINUTE
    return [(first + number * MINUTE, value) for number, value in enumerate(values)]


def random_series() -> list[Series]:
    """50 series with gaps, steps, noise, NaN and infinities; some are copies of others."""
    rng = random.Random(7)
    made = []
    for number in range(50):
        samples: list[tuple[datetime, Value]] = []
        at = T - timedelta(minutes=rng.randint(5, 40))
        while at <= T + 2 * MINUTE:
            if rng.random() < 0.9:
                value: Value = rng.choice(
                    [
                        Decimal(rng.randint(0, 10**12)).scaleb(-9),
                        Decimal(rng.randint(0, 130)),
                        Decimal(rng.randint(0, 1000)).scaleb(-9),
                    ]
                )
                odd = rng.random()
                if number % 5 == 0 and odd < 0.1:
                    value = rng.choice(["NaN", "+Inf", "-Inf", "-5"])
                samples.append((at, value))
            # On the whole minute, or near it by a millisecond or much.
            at += MINUTE + rng.choice([0, 0, 0, -1, 1, 15_000]) * MS
        labels = labelled(
            pod=f"llm-{number % 2}",
            container=f"c{number % 7}",
            gpu_uuid=f"GPU-{number % 3}",
            instance=f"exporter-{number}",
        )
        made.append(Series("random", labels, samples))
    return made


RANDOM = random_series()

HISTORY: Sequence[Series] = (
    Series("steady", labelled(), minutely(*[80.0] * 20)),
    # For the mean a sum that doubles can't hold; for the maximum one value among others.
    Series("fine", labelled(), minutely(Decimal("0.1"), Decimal("0.2"), Decimal("99.999999999"))),
    Series(
        "renamed",
        {
            "namespace": "gpu-operator",
            "pod": "exporter-x",
            "container": "exporter",
            "exported_namespace": "team-a",
            "exported_pod": "llm-0",
            "exported_container": "inference",
            "UUID": "GPU-0",
        },
        minutely(70.0),
    ),
    # Two exporters, of which one stopped early: first the mean of each, then the larger.
    Series("copied", labelled(instance="a"), minutely(10.0, 20.0, 30.0)),
    Series("copied", labelled(instance="b"), minutely(90.0, 10.0, until=T - MINUTE)),
    Series("two_namespaces", labelled(), minutely(11.0)),
    Series("two_namespaces", labelled(namespace="team-b"), minutely(99.0)),
    Series("absent", labelled(pod=""), minutely(1.0)),
    Series("absent", labelled(container=""), minutely(2.0)),
    Series("absent", {"pod": "llm-0", "container": "inference"}, minutely(3.0)),
    Series("absent", labelled(pod="llm-1", gpu_uuid=""), minutely(4.0)),
    Series("absent", labelled(pod="somebody-elses"), minutely(5.0)),
    Series("odd", labelled(container="nan"), minutely("NaN", "NaN")),
    Series("odd", labelled(container="infinite"), minutely("+Inf", 1.0)),
    Series("odd", labelled(container="negative"), minutely("-5", "-5")),
    Series("odd", labelled(container="huge"), minutely("1e308", "1e308")),
    Series("odd", labelled(container="mixed", instance="a"), minutely("NaN", "NaN")),
    Series("odd", labelled(container="mixed", instance="b"), minutely(40.0, 40.0)),
    # Values that tell which samples were counted.
    Series(
        "border",
        labelled(),
        [
            (T - 10 * MINUTE - MS, 32.0),
            (T - 10 * MINUTE, 16.0),
            (T - 10 * MINUTE + MS, 8.0),
            (T - MS, 4.0),
            (T, 2.0),
            (T + MS, 64.0),
        ],
    ),
    Series("quoted", labelled(namespace='a"b\\c\nd'), minutely(5.0)),
    *RANDOM,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"))
    prometheus.backfill(*HISTORY)
    with prometheus.start():
        yield prometheus


@pytest_asyncio.fixture
async def client(server: Prometheus) -> AsyncIterator[PrometheusClient]:
    client = PrometheusClient(server.url)
    yield client
    await client.close()


async def read(
    client: PrometheusClient,
    metric: str,
    direction: Direction = Direction.UPSIZE,
    *,
    at: datetime = T,
    window: timedelta = 10 * MINUTE,
    namespace: str = "team-a",
    prefix: str = "",
    device_label: str = "gpu_uuid",
) -> NamespaceReading:
    source = MetricSource(metric, f"{prefix}namespace", f"{prefix}pod", f"{prefix}container")
    query = build_query(
        source,
        namespace=namespace,
        function=FUNCTIONS[direction],
        window=window,
        device_label=device_label,
    )
    return read_samples(query, await client.query(query.promql, at=at), PODS)


async def test_a_steady_series_is_its_value(client: PrometheusClient) -> None:
    reading = await read(client, "steady")

    assert reading == NamespaceReading({KEY: Decimal(80)}, {}, 0)


async def test_there_is_nothing_where_nothing_was(client: PrometheusClient) -> None:
    """The last value must not live on: half an hour later it is no sample."""
    assert await read(client, "steady", at=T + 30 * MINUTE) == NamespaceReading()
    assert await read(client, "no_such_metric") == NamespaceReading()


async def test_digits_to_a_billionth_arrive(client: PrometheusClient) -> None:
    largest = (await read(client, "fine", Direction.SCALE_BACK)).values[KEY]
    mean = (await read(client, "fine")).values[KEY]

    assert largest == Decimal("99.999999999")
    assert abs(mean - Decimal("100.299999999") / 3) < NEAR


async def test_labels_that_were_renamed_are_found_by_configuration_only(
    client: PrometheusClient,
) -> None:
    """Trial B28, a and b."""
    found = await read(client, "renamed", prefix="exported_", device_label="UUID")

    assert found.values == {KEY: Decimal(70)}
    assert (await read(client, "renamed")).values == {}


async def test_copies_are_averaged_each_for_itself_and_the_larger_counts(
    client: PrometheusClient,
) -> None:
    reading = await read(client, "copied")

    assert reading.values == {KEY: Decimal(50)}


async def test_namespaces_with_pods_of_one_name_are_never_mixed(client: PrometheusClient) -> None:
    """Trial B28, e."""
    assert (await read(client, "two_namespaces")).values == {KEY: Decimal(11)}
    other = await read(client, "two_namespaces", namespace="team-b")
    assert other.values == {KEY: Decimal(99)}


async def test_series_without_labels_are_used_for_nobody(client: PrometheusClient) -> None:
    """Trial B28, c, d and f. Without its namespace a series isn't even found."""
    reading = await read(client, "absent")

    assert reading.values == {("llm-1", "inference", ""): Decimal(4)}
    assert reading.skipped == {Skip.NO_POD: 1, Skip.NO_CONTAINER: 1}
    assert reading.without_device == 1


@pytest.mark.parametrize("direction", list(Direction))
async def test_what_is_no_usage_is_no_sample(
    client: PrometheusClient, direction: Direction
) -> None:
    """Trial B27: of a copy with NaN and one with 40, the 40 counts, and not their mean."""
    reading = await read(client, "odd", direction)

    assert reading.values == {
        ("llm-0", "mixed", "GPU-0"): Decimal(40),
        ("llm-0", "huge", "GPU-0"): Decimal("1e308"),
    }
    assert reading.skipped == {Skip.UNUSABLE: 3}


@pytest.mark.parametrize(
    ("at", "want"),
    [
        pytest.param(T - MS, {16, 8, 4}, id="just-before"),
        pytest.param(T, {8, 4, 2}, id="at"),
        pytest.param(T + MS, {4, 2, 64}, id="just-after"),
    ],
)
async def test_a_window_has_its_end_in_it_and_its_beginning_not(
    client: PrometheusClient, at: datetime, want: set[int]
) -> None:
    """As since Prometheus 3; the one before counted a sample at the beginning too."""
    mean = (await read(client, "border", at=at)).values[KEY]
    largest = (await read(client, "border", Direction.SCALE_BACK, at=at)).values[KEY]

    assert abs(mean - Decimal(sum(want)) / len(want)) < NEAR
    assert largest == max(want)


async def test_a_namespace_of_any_text_finds_its_series(client: PrometheusClient) -> None:
    reading = await read(client, "quoted", namespace='a"b\\c\nd')

    assert reading.values == {KEY: Decimal(5)}


def copies_of(metric: Sequence[Series]) -> list[windows.Series]:
    copies = []
    for series in metric:
        labels = series.labels
        samples = sorted(series.samples, key=lambda sample: sample[0])
        copies.append(
            windows.Series(
                (labels["pod"], labels["container"], labels["gpu_uuid"]),
                [at for at, _ in samples],
                [windows.parse_sample(str(value)) for _, value in samples],
            )
        )
    return copies


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("window", [MINUTE, 2 * MINUTE + 15_000 * MS, 10 * MINUTE, 60 * MINUTE])
@pytest.mark.parametrize("minute", [-30, -7, 0, 1])
async def test_our_own_windows_say_what_prometheus_says(
    client: PrometheusClient, direction: Direction, window: timedelta, minute: int
) -> None:
    """So that `simulate` decides as the reconciler does."""
    at = T + minute * MINUTE
    reading = await read(client, "random", direction, at=at, window=window)

    ours = windows.read_window(direction, copies_of(RANDOM), at, window)

    assert ours
    assert reading.values.keys() == ours.keys()
    for key, value in ours.items():
        assert abs(reading.values[key] - value) < Decimal("1e-9")


async def test_a_query_that_prometheus_refuses_says_why(client: PrometheusClient) -> None:
    with pytest.raises(PrometheusError, match=r"HTTP 400 Bad Request: .*parse error") as e:
        await client.query("max by (", at=T)
    assert e.value.fault is PrometheusFault.REFUSED


@pytest.mark.parametrize(
    ("promql", "kind"),
    [("1", "scalar"), ('"text"', "string"), ("steady[10m]", "matrix")],
)
async def test_what_yields_no_vector_is_an_error(
    client: PrometheusClient, promql: str, kind: str
) -> None:
    with pytest.raises(PrometheusError, match=f"the result is of type {kind}") as e:
        await client.query(promql, at=T)
    assert e.value.fault is PrometheusFault.BAD_ANSWER


def test_history_that_promtool_refuses_says_why(server: Prometheus) -> None:
    with pytest.raises(CommandError, match=r"promtool tsdb failed: .*invalid syntax"):
        server.backfill(Series("broken", labelled(), minutely("many")))


async def test_history_can_be_added_while_it_runs(server: Prometheus) -> None:
    """For tests that go on: the URL stays, and so does what was there."""
    url = server.url
    server.backfill(Series("later", labelled(), minutely(33.0, until=T + 600 * MINUTE)))

    assert server.url == url
    client = PrometheusClient(url)
    try:
        later = await read(client, "later", at=T + 600 * MINUTE)
        before = await read(client, "steady")
    finally:
        await client.close()
    assert later.values == {KEY: Decimal(33)}
    assert before.values == {KEY: Decimal(80)}
