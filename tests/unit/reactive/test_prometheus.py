"""Which Prometheus is asked, and with whose token."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from webhook.clients.prometheus import PrometheusClient
from webhook.errors import PrometheusError, SettingsError
from webhook.model.rightsizing.policies import GlobalSettings, MetricSource
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.decisions.queries import Skip, WindowFunction, build_query, read_samples
from webhook.reactive.observation.prometheus import PrometheusSource, count_query
from webhook.telemetry.metrics import Metrics, ReconcilerMetrics
from webhook.tls.directory import ensure_development_certificate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_source(url: str = "", token_file: Path | None = None) -> PrometheusSource:
    return PrometheusSource(metrics=ReconcilerMetrics(Metrics()), url=url, token_file=token_file)


def asked(source: PrometheusSource, settings: GlobalSettings) -> tuple[str, bool]:
    """The URL, and whether a token goes with it."""
    source.sampler(settings)
    client = source.client
    assert client is not None
    return client.url, client.shows_credentials


async def test_the_url_of_the_document_is_asked_without_a_token() -> None:
    settings = GlobalSettings(prometheus_url="http://prometheus.example:9090")

    assert asked(make_source(), settings) == ("http://prometheus.example:9090", False)


async def test_a_url_of_our_own_counts_before_it_and_has_our_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc")
    settings = GlobalSettings(prometheus_url="http://elsewhere.example")

    source = make_source("https://ours.example", token)

    assert asked(source, settings) == ("https://ours.example", True)


async def test_a_changed_setting_makes_a_new_sampler_and_an_equal_one_does_not() -> None:
    source = make_source()
    first = source.sampler(GlobalSettings())

    assert source.sampler(GlobalSettings()) is first
    assert source.sampler(GlobalSettings(request_timeout=timedelta(seconds=5))) is not first
    await source.close()


async def test_a_url_that_is_none_answers_with_that() -> None:
    source = make_source()
    sampler = source.sampler(GlobalSettings(prometheus_url="prometheus"))

    assert source.client is None
    assert sampler is source.sampler(GlobalSettings(prometheus_url="prometheus"))


async def test_authorities_that_are_gone_for_a_while_are_no_end_of_a_round(tmp_path: Path) -> None:
    """The file is read again in the next round."""
    source = PrometheusSource(
        metrics=ReconcilerMetrics(Metrics()), ca_file=tmp_path / "authorities.pem"
    )
    settings = GlobalSettings(prometheus_url="http://prometheus")

    source.sampler(settings)
    assert source.client is None
    made = ensure_development_certificate(tmp_path, ("127.0.0.1",))
    made.ca.rename(tmp_path / "authorities.pem")

    assert asked(source, settings) == ("http://prometheus", False)
    await source.close()


class Failing(PrometheusSource):
    """Makes no client while *fault* is there."""

    fault: Exception | None = None

    def _make(self, url: str, timeout_s: float) -> PrometheusClient:
        if self.fault is not None:
            raise self.fault
        return super()._make(url, timeout_s)


async def test_a_client_that_can_not_be_made_is_tried_again_and_the_old_one_is_not_asked() -> None:
    """Whatever it was, also what nobody has foreseen."""
    source = Failing(metrics=ReconcilerMetrics(Metrics()))
    old = source.sampler(GlobalSettings(prometheus_url="http://old"))
    new = GlobalSettings(prometheus_url="http://new")
    source.fault = LookupError("spoilt")
    for _ in range(2):
        with pytest.raises(LookupError):
            source.sampler(new)
        assert source.client is None
    source.fault = None

    assert source.sampler(new) is not old
    assert asked(source, new) == ("http://new", False)
    await source.close()


GOOD = Sample({"namespace": "team-a", "pod": "llm-0", "container": "main"}, Decimal(1))
NOT_A_NUMBER = Sample(GOOD.labels, None)
NAMELESS = Sample({"namespace": "team-a"}, Decimal(1))
UNCONTAINED = Sample({"namespace": "team-a", "pod": "llm-0"}, Decimal(1))


@pytest.mark.parametrize(
    ("samples", "outcome", "skipped"),
    [
        pytest.param([GOOD], "answered", {}, id="good"),
        pytest.param([], "answered", {}, id="nothing-there"),
        pytest.param([GOOD, NOT_A_NUMBER], "answered", {"unusable": 1}, id="one-of-two"),
        pytest.param([NOT_A_NUMBER, NOT_A_NUMBER], "unusable", {"unusable": 2}, id="no-numbers"),
        pytest.param(
            [NAMELESS, UNCONTAINED], "unusable", {"noPod": 1, "noContainer": 1}, id="no-labels"
        ),
    ],
)
def test_series_that_are_not_used_are_counted_by_the_reason(
    samples: list[Sample], outcome: str, skipped: dict[str, int]
) -> None:
    metrics = Metrics()
    query = build_query(
        MetricSource("gpu", "namespace", "pod", "container"),
        namespace="team-a",
        function=WindowFunction.MEAN,
        window=timedelta(minutes=1),
    )

    count_query(ReconcilerMetrics(metrics), read_samples(query, samples, {"llm-0"}), 0.1)

    def value(name: str, **labels: str) -> float:
        return metrics.registry.get_sample_value(name, labels) or 0.0

    outcomes = ("answered", "unusable")
    counted = [value("gatewright_prometheus_queries_total", outcome=each) for each in outcomes]
    assert counted == [float(outcome == each) for each in outcomes]
    name = "gatewright_prometheus_skipped_series_total"
    found = {str(skip): value(name, reason=skip) for skip in Skip}
    assert {reason: count for reason, count in found.items() if count} == skipped


@pytest.mark.parametrize("url", ["prometheus", "http://user:pass@ours.example"])
def test_a_url_of_our_own_that_is_none_is_said_at_once(url: str) -> None:
    with pytest.raises(PrometheusError):
        make_source(url)


def test_authorities_that_are_not_there_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        PrometheusSource(
            metrics=ReconcilerMetrics(Metrics()),
            url="https://ours.example",
            ca_file=tmp_path / "none.pem",
        )
