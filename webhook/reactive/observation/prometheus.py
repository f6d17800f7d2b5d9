"""The Prometheus that is configured now, as rounds ask it."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

from webhook.clients.prometheus import PrometheusClient
from webhook.clients.prometheus_access import PrometheusCredentials
from webhook.errors import PrometheusError, PrometheusFault, SettingsError
from webhook.model.rightsizing.policies import GlobalSettings
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.decisions.queries import DEVICE_LABEL, NamespaceReading
from webhook.reactive.observation.asking import Asking
from webhook.reactive.observation.sampling import Sampler
from webhook.telemetry.metrics import ReconcilerMetrics


class _Unusable:
    """In the place of a Prometheus whose URL is none: every question has that for its answer."""

    def __init__(self, error: PrometheusError) -> None:
        self._error = error

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]:
        raise self._error


class PrometheusSource:
    """
    Makes a client anew when the settings name another Prometheus.

    *url* counts before that of the GlobalConfiguration, and the *token_file* is for it alone: a
    document must not have our token sent to wherever it says.
    """

    def __init__(
        self,
        *,
        metrics: ReconcilerMetrics,
        url: str = "",
        token_file: Path | None = None,
        ca_file: Path | None = None,
        device_label: str = DEVICE_LABEL,
    ) -> None:
        """
        Raises:
            SettingsError: the file of authorities or the URL can't be used.
        """
        self._metrics = metrics
        self._url = url
        self._credentials = (
            PrometheusCredentials(url, token_file=token_file) if token_file else None
        )
        self._ca_file = ca_file
        self._device_label = device_label
        self._made_for: tuple[str, float] | None = None
        self._client: PrometheusClient | None = None
        self._closing: list[PrometheusClient] = []
        self._sampler: Sampler | None = None
        # What is wrong with our own settings is said at once.
        if url:
            self._make(url, 30.0)

    @property
    def client(self) -> PrometheusClient | None:
        """How it is asked now; None before the first round, and where the URL is none."""
        return self._client

    def sampler(self, settings: GlobalSettings) -> Sampler:
        """The sampler for *settings*; the same one as long as they say the same."""
        wanted = (self._url or settings.prometheus_url, settings.request_timeout.total_seconds())
        if self._sampler is None or wanted != self._made_for:
            if self._client is not None:
                self._closing.append(self._client)
                self._client = None
            asking: Asking
            # Whatever keeps us from making one, the next round tries again.
            self._made_for = None
            try:
                asking = self._client = self._make(*wanted)
                self._made_for = wanted
            except PrometheusError as error:
                # The same URL would be none again.
                asking = _Unusable(error)
                self._made_for = wanted
            except SettingsError as error:
                # A file of ours has gone since the beginning, and may come back.
                asking = _Unusable(PrometheusError(PrometheusFault.UNREACHABLE, str(error)))
            self._sampler = Sampler(
                asking,
                device_label=self._device_label,
                on_query=partial(count_query, self._metrics),
            )
        return self._sampler

    def _make(self, url: str, timeout_s: float) -> PrometheusClient:
        return PrometheusClient(
            url, timeout_s=timeout_s, credentials=self._credentials, ca_file=self._ca_file
        )

    async def close(self) -> None:
        """End all queries and connections."""
        for client in (*self._closing, *([self._client] if self._client is not None else [])):
            await client.close()


def count_query(
    metrics: ReconcilerMetrics, answer: NamespaceReading | PrometheusError, seconds: float
) -> None:
    """Count a query that came to *answer*, and the series in it that were not used."""
    metrics.query_seconds.observe(seconds)
    if isinstance(answer, PrometheusError):
        metrics.queries.labels(str(answer.fault)).inc()
        return
    metrics.queries.labels("unusable" if answer.is_unusable else "answered").inc()
    for skip, count in answer.skipped.items():
        metrics.skipped_series.labels(str(skip)).inc(count)
