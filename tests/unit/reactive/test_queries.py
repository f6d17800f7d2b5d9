"""What is asked of Prometheus for a namespace, and how its answer is read."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from itertools import permutations

import pytest

from webhook.errors import SpecError
from webhook.model.rightsizing.policies import (
    Direction,
    MetricSource,
    ScaleBack,
    Signal,
    SignalSettings,
    Upsize,
)
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.decisions.queries import (
    NamespaceQuery,
    Skip,
    WindowFunction,
    build_queries,
    build_query,
    format_range,
    quote_text,
    read_samples,
)

SOURCE = MetricSource("gpu_percent", "namespace", "pod", "container")


def make_query(
    *,
    source: MetricSource = SOURCE,
    namespace: str = "team-a",
    window: timedelta = timedelta(minutes=10),
    device_label: str = "gpu_uuid",
) -> NamespaceQuery:
    return build_query(
        source,
        namespace=namespace,
        function=WindowFunction.MEAN,
        window=window,
        device_label=device_label,
    )


def make_sample(
    value: str | None = "80",
    *,
    namespace: str = "team-a",
    pod: str = "llm-0",
    container: str = "inference",
    device: str = "GPU-0",
) -> Sample:
    labels = {"namespace": namespace, "pod": pod, "container": container, "gpu_uuid": device}
    present = {name: text for name, text in labels.items() if text}
    return Sample(present, None if value is None else Decimal(value))


def test_upsize_asks_for_the_mean_and_scale_back_for_the_maximum() -> None:
    settings = SignalSettings(
        SOURCE,
        Upsize(window=timedelta(minutes=5)),
        ScaleBack(window=timedelta(hours=1, minutes=30)),
    )

    queries = build_queries({Signal.COMPUTE: settings}, namespace="team-a")

    assert {key: query.promql for key, query in queries.items()} == {
        (Signal.COMPUTE, Direction.UPSIZE): (
            "max by (namespace, pod, container, gpu_uuid) "
            '(avg_over_time(gpu_percent{namespace="team-a"}[5m]))'
        ),
        (Signal.COMPUTE, Direction.SCALE_BACK): (
            "max by (namespace, pod, container, gpu_uuid) "
            '(max_over_time(gpu_percent{namespace="team-a"}[1h30m]))'
        ),
    }


def test_labels_that_the_exporter_renamed_are_asked_for_by_their_new_names() -> None:
    """Trial B28."""
    source = MetricSource("m", "exported_namespace", "exported_pod", "exported_container")

    query = make_query(source=source, device_label="UUID")

    assert query.promql == (
        "max by (exported_namespace, exported_pod, exported_container, UUID) "
        '(avg_over_time(m{exported_namespace="team-a"}[10m]))'
    )


def test_policies_that_ask_the_same_share_one_query() -> None:
    """At most four a namespace, however many policies there are."""
    settings = {signal: SignalSettings(SOURCE) for signal in Signal}
    others = {signal: SignalSettings(SOURCE, Upsize(threshold_percent=150)) for signal in Signal}

    asked = {
        query
        for signals in (settings, others)
        for query in build_queries(signals, namespace="team-a").values()
    }

    # Both signals have one metric here, so that two directions are all there is.
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("source", "device_label", "path"),
    [
        pytest.param(MetricSource("", "n", "p", "c"), "d", "metric", id="empty"),
        pytest.param(MetricSource("m) or (up", "n", "p", "c"), "d", "metric", id="metric"),
        pytest.param(MetricSource("m", "n=~", "p", "c"), "d", "namespaceLabel", id="namespace"),
        pytest.param(MetricSource("m", "n", "p, x", "c"), "d", "podLabel", id="pod"),
        pytest.param(MetricSource("m", "n", "p", "c:c"), "d", "containerLabel", id="container"),
        pytest.param(MetricSource("m", "n", "p", "c\n"), "d", "containerLabel", id="line-end"),
        pytest.param(MetricSource("m", "n", "p", "c"), "", "the device label", id="device"),
    ],
)
def test_a_name_that_is_none_of_prometheus_never_gets_into_a_query(
    source: MetricSource, device_label: str, path: str
) -> None:
    with pytest.raises(SpecError, match="is no name of Prometheus") as e:
        make_query(source=source, device_label=device_label)

    assert e.value.path == path


@pytest.mark.parametrize(
    "window",
    [
        pytest.param(timedelta(0), id="none"),
        pytest.param(timedelta(minutes=-10), id="backwards"),
        pytest.param(timedelta(microseconds=999), id="less-than-prometheus-can-tell"),
    ],
)
def test_a_window_that_is_none_is_an_error(window: timedelta) -> None:
    with pytest.raises(SpecError, match="too short"):
        make_query(window=window)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("team-a", '"team-a"', id="plain"),
        pytest.param('"} or up{x="', r'"\"} or up{x=\""', id="quotes"),
        pytest.param("a\\", r'"a\\"', id="backslash"),
        pytest.param("a\nb\tc\x00", r'"a\u000ab\u0009c\u0000"', id="control-characters"),
        pytest.param("größe", '"größe"', id="letters"),
    ],
)
def test_a_label_value_cannot_leave_its_quotes(text: str, want: str) -> None:
    assert quote_text(text) == want


@pytest.mark.parametrize(
    ("duration", "want"),
    [
        pytest.param(timedelta(minutes=1), "1m", id="minute"),
        pytest.param(timedelta(seconds=90), "1m30s", id="minute-and-a-half"),
        pytest.param(timedelta(hours=25), "25h", id="more-than-a-day"),
        pytest.param(timedelta(minutes=1, microseconds=500_999), "1m500ms", id="cut-to-milliseconds"),
        pytest.param(timedelta(days=400), "9600h", id="more-than-a-year"),
    ],
)  # fmt: skip
def test_a_duration_is_written_as_prometheus_reads_it(duration: timedelta, want: str) -> None:
    assert format_range(duration) == want


def test_values_are_by_pod_container_and_device() -> None:
    reading = read_samples(
        make_query(),
        [
            make_sample("80"),
            make_sample("0.000000001", device="GPU-1"),
            make_sample("0", container="sidecar"),
            make_sample("7", pod="llm-1"),
        ],
        {"llm-0", "llm-1"},
    )

    assert reading.values == {
        ("llm-0", "inference", "GPU-0"): Decimal(80),
        ("llm-0", "inference", "GPU-1"): Decimal("1e-9"),
        ("llm-0", "sidecar", "GPU-0"): Decimal(0),
        ("llm-1", "inference", "GPU-0"): Decimal(7),
    }
    assert (reading.skipped, reading.without_device) == ({}, 0)


def test_pods_that_nobody_asked_for_are_passed_over_and_not_counted() -> None:
    """The exporter itself among them, where a series names it."""
    samples = [make_sample(pod="exporter"), make_sample(None, pod="exporter", container="")]

    reading = read_samples(make_query(), samples, {"llm-0"})

    assert (reading.values, reading.skipped) == ({}, {})


@pytest.mark.parametrize(
    ("sample", "skip"),
    [
        pytest.param(make_sample(pod=""), Skip.NO_POD, id="no-pod"),
        pytest.param(make_sample(container=""), Skip.NO_CONTAINER, id="pod-without-container"),
        pytest.param(make_sample(namespace="team-b"), Skip.OTHER_NAMESPACE, id="other-namespace"),
        pytest.param(make_sample(namespace=""), Skip.OTHER_NAMESPACE, id="no-namespace"),
        pytest.param(make_sample(None), Skip.UNUSABLE, id="nan"),
        pytest.param(
            Sample({"namespace": "team-a", "pod": "", "container": ""}, Decimal(1)),
            Skip.NO_POD,
            id="empty-texts",
        ),
    ],
)
def test_a_series_that_names_no_container_of_ours_is_counted_and_not_used(
    sample: Sample, skip: Skip
) -> None:
    """Trials B27 and B28."""
    reading = read_samples(
        make_query(), [sample, make_sample("40", pod="llm-1")], {"llm-0", "llm-1"}
    )

    assert reading.values == {("llm-1", "inference", "GPU-0"): Decimal(40)}
    assert reading.skipped == {skip: 1}


def test_of_copies_the_largest_counts_in_any_order() -> None:
    copies = [make_sample(value) for value in ("40", "80.5", None)]

    for order in permutations(copies):
        reading = read_samples(make_query(), order, {"llm-0"})
        assert reading.values == {("llm-0", "inference", "GPU-0"): Decimal("80.5")}
        assert reading.skipped == {Skip.UNUSABLE: 1}


def test_series_without_a_device_are_used_and_counted() -> None:
    """Those of two devices look like one, which somebody should hear of."""
    samples = [make_sample("30", device=""), make_sample("50", device="")]

    reading = read_samples(make_query(), samples, {"llm-0"})

    assert reading.values == {("llm-0", "inference", ""): Decimal(50)}
    assert reading.without_device == 2


def test_labels_that_were_not_configured_attribute_nothing() -> None:
    """Trial B28: the plain labels are the exporter's where the others are `exported_`."""
    source = MetricSource("m", "exported_namespace", "exported_pod", "exported_container")

    reading = read_samples(make_query(source=source), [make_sample()], {"llm-0"})

    assert reading.values == {}
    assert reading.skipped == {Skip.OTHER_NAMESPACE: 1}
