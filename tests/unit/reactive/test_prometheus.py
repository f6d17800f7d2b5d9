"""Which Prometheus is asked, and with whose token."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from webhook.errors import PrometheusError, SettingsError
from webhook.model.rightsizing.policies import GlobalSettings
from webhook.reactive.observation.prometheus import PrometheusSource
from webhook.telemetry.metrics import Metrics, ReconcilerMetrics

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
