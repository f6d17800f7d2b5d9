"""What `serve` tells in the cluster beside its answers: Events, and reports of what runs."""

from __future__ import annotations

import socket

from webhook.cli.stores import ServedStore
from webhook.clients.events import EventWriter
from webhook.mapping.evaluator import JqWorker
from webhook.registrations.reach import ALWAYS_LEFT_OUT
from webhook.reports.keeper import ReportsKeeper, ScanTiming
from webhook.reports.writing import ReportCalls
from webhook.settings import ServeSettings
from webhook.store.snapshot import Current
from webhook.telemetry.metrics import Metrics


def build_event_writer(
    settings: ServeSettings, store: ServedStore, metrics: Metrics
) -> EventWriter | None:
    """What tells refusals; None where they are not told, or there is no cluster."""
    if store.client is None or not settings.events:
        return None
    # In a cluster that is the name of the Pod.
    return EventWriter(store.client, metrics, replica=socket.gethostname())


def build_reports_keeper(
    settings: ServeSettings, client: ReportCalls, current: Current, jq: JqWorker, metrics: Metrics
) -> ReportsKeeper | None:
    """What keeps the reports, for the leader; None where there are to be none."""
    if not settings.policy_reports:
        return None
    return ReportsKeeper(
        client,
        current,
        jq,
        metrics,
        timing=ScanTiming.every(settings.scan_period.total_seconds()),
        # What lies in no namespace is in "", which our own is as well where it is not known.
        excluded={*ALWAYS_LEFT_OUT, settings.own_namespace, *settings.excluded_namespaces} - {""},
        owner=settings.validating_configuration,
    )
