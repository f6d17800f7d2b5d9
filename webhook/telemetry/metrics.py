"""Every metric, in one list. Labels come from closed sets: no name of an object or user."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from webhook.model.decision import Decision, Outcome
from webhook.model.request import Operation

# One more series for each of ours, that says when it was first counted. Nobody asks.
disable_created_metrics()  # type: ignore[no-untyped-call]  # not annotated upstream

# From half a millisecond to the longest time that an API server waits for us by default.
DURATION_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0)

ROUND_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

PATHS = ("/mutate", "/validate", "/api/", "/healthz", "/readyz", "/metrics")
OTHER = "other"


class Rejection(StrEnum):
    """Why a request was no review that we could answer."""

    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    CONTENT_TYPE = "content_type"
    METHOD = "method"
    PATH = "path"
    SLOW = "slow"
    # Not for what was sent, but for what came with it.
    BUSY = "busy"
    # Hung up before its turn came, or had to go while its body did.
    GONE = "gone"
    CERTIFICATE = "certificate"


class Metrics:
    """The metrics of one process, in a registry of their own (the global one is everybody's)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

        self.review_seconds = Histogram(
            "gatewright_review_duration_seconds",
            "Time to answer one admission review.",
            ["phase", "operation", "outcome"],
            buckets=DURATION_BUCKETS_S,
            registry=self.registry,
        )
        self.reviews = self._counter(
            "gatewright_reviews_total",
            "Admission reviews answered. dry_run: the caller wants no effect.",
            ["phase", "outcome", "dry_run"],
        )
        self.reviews_running = self._gauge(
            "gatewright_reviews_running", "Admission reviews that are being answered."
        )
        self.violations = self._counter(
            "gatewright_violations_total", "Broken rules, by rule.", ["rule"]
        )
        self.changes = self._counter(
            "gatewright_changes_total", "Values written by mutation, by rule.", ["rule"]
        )
        self.query_failures = self._counter(
            "gatewright_query_failures_total", "Queries of mappings that failed on an object."
        )
        self.rejected = self._counter(
            "gatewright_requests_rejected_total",
            "Requests that were no review that can be answered, by reason.",
            ["reason"],
        )
        self.http_requests = self._counter(
            "gatewright_http_requests_total", "HTTP requests answered.", ["path", "code"]
        )
        self.connections_shed = self._counter(
            "gatewright_connections_shed_total",
            "Connections for which there was no room: the one that was idle for longest, or a new"
            " one where all others were being answered. no_files: a try to accept one where the"
            " process could open no file. outcome: ended, refused, no_files.",
            ["outcome"],
        )
        # Looking a series up by its labels costs as much as counting in it, on every review.
        self._review_seconds_of = cache(self.review_seconds.labels)
        self._reviews_of = cache(self.reviews.labels)
        self._violations_of = cache(self.violations.labels)
        self._changes_of = cache(self.changes.labels)
        self._http_requests_of = cache(self.http_requests.labels)
        self.snapshot_info = self._gauge(
            "gatewright_snapshot_info", "The snapshot in force; always 1.", ["revision"]
        )
        self.snapshot_time = self._gauge(
            "gatewright_snapshot_timestamp_seconds", "When the snapshot in force was put there."
        )
        self.documents = self._gauge(
            "gatewright_documents", "Documents in force, by kind.", ["kind"]
        )
        self.document_problems = self._gauge(
            "gatewright_document_problems",
            "Problems of documents. error: not in force as written.",
            ["severity"],
        )
        self.load_failures = self._counter(
            "gatewright_policy_load_failures_total",
            "Looks at the policies that found them unreadable as a whole.",
        )
        self.watch_connected = self._gauge(
            "gatewright_watch_connected",
            "Whether a watch of the API server is open, by resource.",
            ["resource"],
        )
        self.watch_objects = self._gauge(
            "gatewright_watch_objects", "Objects that are known, by resource.", ["resource"]
        )
        self.watch_relists = self._counter(
            "gatewright_watch_relists_total",
            "Lists after the first: the watch could not go on where it was.",
            ["resource"],
        )
        self.watch_failures = self._counter(
            "gatewright_watch_failures_total",
            "Lists and watches that failed, or ended before their time.",
            ["resource"],
        )
        self.status_writes = self._counter(
            "gatewright_status_writes_total",
            "Writes of a document's status. outcome: written, conflict, failed.",
            ["outcome"],
        )
        self.certificate_not_after = self._gauge(
            "gatewright_certificate_not_after_timestamp_seconds",
            "When the serving certificate in use ends.",
        )
        self.certificate_failures = self._counter(
            "gatewright_certificate_reload_failures_total",
            "Changed certificates that could not be used.",
        )
        self.authority_not_after = self._gauge(
            "gatewright_certificate_authority_not_after_timestamp_seconds",
            "When the authority that signed it ends; NaN where that is not known.",
        )
        self.authority_not_after.set(math.nan)
        self.certificate_writes = self._counter(
            "gatewright_certificate_writes_total",
            "Writes of the Secret with the certificates. outcome: written, conflict, failed.",
            ["outcome"],
        )

        self.events = self._counter(
            "gatewright_events_total",
            "Events about denials. outcome: created, updated, dropped, failed.",
            ["outcome"],
        )
        self.scans = self._counter(
            "gatewright_scans_total",
            "Looks of the leader at what already runs. outcome: done, failed.",
            ["outcome"],
        )
        self.scan_time = self._gauge(
            "gatewright_scan_timestamp_seconds",
            "When the last such look ended; 0 if there is none.",
        )
        self.scan_seconds = self._gauge(
            "gatewright_scan_duration_seconds", "How long the last such look took."
        )
        self.scan_objects = self._gauge(
            "gatewright_scan_objects", "Objects that the last such look judged."
        )
        self.scan_unlisted_kinds = self._gauge(
            "gatewright_scan_unlisted_kinds",
            "Kinds that the last such look was not allowed to list.",
        )
        self.open_violations = self._gauge(
            "gatewright_open_violations",
            "What runs and breaks a rule. result: fail, warn (of policies only tried), error.",
            ["result"],
        )
        self.report_writes = self._counter(
            "gatewright_report_writes_total",
            "Writes of policy reports. outcome: written, removed, conflict, failed.",
            ["outcome"],
        )

    def observe_review(
        self,
        *,
        phase: str,
        operation: Operation | None,
        outcome: Outcome,
        dry_run: bool,
        duration_s: float,
        decision: Decision | None,
    ) -> None:
        """Count one answer. *operation* is None where the review could not be read."""
        # Others are not sent unless somebody registers them by hand.
        is_usual = operation in (Operation.CREATE, Operation.UPDATE)
        shown = operation.value if operation and is_usual else OTHER
        self._review_seconds_of(phase, shown, outcome.value).observe(duration_s)
        self._reviews_of(phase, outcome.value, "true" if dry_run else "false").inc()
        if decision is None:
            return
        for rule, count in Tally(broken.rule for broken in decision.violations).items():
            self._violations_of(rule.value).inc(count)
        for rule, count in Tally(change.rule for change in decision.changes).items():
            self._changes_of(rule.value).inc(count)

    def observe_http(self, path: str, code: int) -> None:
        """Count one HTTP answer; paths that are not ours are one."""
        self._http_requests_of(path if path in PATHS else OTHER, str(code)).inc()

    def show_snapshot(
        self,
        revision: str,
        *,
        time_s: float,
        documents: Mapping[str, int],
        errors: int,
        warnings: int,
    ) -> None:
        """Show what is in force since *time_s* (Unix time): *documents* by kind."""
        # The label changes with every reload: without this each revision stays for ever.
        self.snapshot_info.clear()
        self.snapshot_info.labels(revision).set(1)
        self.snapshot_time.set(time_s)
        self.documents.clear()
        for kind, count in documents.items():
            self.documents.labels(kind).set(count)
        self.document_problems.labels("error").set(errors)
        self.document_problems.labels("warning").set(warnings)

    def forget_scan(self) -> None:
        """Show no look at what runs: another replica has it."""
        for gauge in (self.scan_time, self.scan_seconds, self.scan_objects):
            gauge.set(0)
        self.scan_unlisted_kinds.set(0)
        self.open_violations.clear()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition text in a format that *accept* allows, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)


class ServerMetrics:
    """What `serve` with a cluster has beside *metrics*, in the registry of these."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self.leader = Gauge("gatewright_leader", "Whether this replica leads.", registry=registry)
        self.lease_failures = _lease_failures(registry)
        self.registration_writes = Counter(
            "gatewright_registration_writes_total",
            "Writes of our webhook configurations. outcome: written, repaired (somebody else had"
            " changed it), conflict, failed.",
            ["configuration", "outcome"],
            registry=registry,
        )
        self.registration_present = Gauge(
            "gatewright_registration_present",
            "Whether our webhook configuration is there; at the leader.",
            ["configuration"],
            registry=registry,
        )
        self.registration_contested = Gauge(
            "gatewright_registration_contested",
            "Whether somebody else keeps changing what we fill in; at the leader.",
            ["configuration"],
            registry=registry,
        )
        self.registration_time = Gauge(
            "gatewright_registration_checked_timestamp_seconds",
            "When our webhook configuration was last seen to be as it should; at the leader.",
            ["configuration"],
            registry=registry,
        )


def _lease_failures(registry: CollectorRegistry) -> Counter:
    return Counter(
        "gatewright_lease_failures_total",
        "Tries to take or keep the Lease of the leader that failed.",
        registry=registry,
    )


class ReconcilerMetrics:
    """The metrics of `reconcile`, in the registry of *metrics*."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self.leader = Gauge("gatewright_leader", "Whether this replica leads.", registry=registry)
        self.lease_failures = _lease_failures(registry)
        self.rounds = Counter(
            "gatewright_reconcile_rounds_total",
            "Looks at all workloads. outcome: done, not_ready, failed.",
            ["outcome"],
            registry=registry,
        )
        self.round_seconds = Histogram(
            "gatewright_reconcile_round_duration_seconds",
            "Time for one look at all workloads.",
            buckets=ROUND_BUCKETS_S,
            registry=registry,
        )
        self.workloads = Gauge(
            "gatewright_gpu_workloads",
            "Workloads with GPUs that a policy concerns, in the last round.",
            registry=registry,
        )
        self.evaluations = Counter(
            "gatewright_gpu_evaluations_total",
            "Evaluations of a policy for a workload."
            " outcome: upsize, scaleBack, kept, none, not_evaluated, failed.",
            ["outcome"],
            registry=registry,
        )
        self.queries = Counter(
            "gatewright_prometheus_queries_total",
            "Queries to Prometheus. outcome: answered, unusable (there were series, and none that"
            " could be used), or what was wrong.",
            ["outcome"],
            registry=registry,
        )
        self.skipped_series = Counter(
            "gatewright_prometheus_skipped_series_total",
            "Series in answers of Prometheus that were not used. reason: otherNamespace, noPod,"
            " noContainer, unusable (no number, an infinity, a negative value).",
            ["reason"],
            registry=registry,
        )
        self.query_seconds = Histogram(
            "gatewright_prometheus_query_duration_seconds",
            "Time for one query to Prometheus.",
            buckets=DURATION_BUCKETS_S,
            registry=registry,
        )
        self.writes = Counter(
            "gatewright_recommendation_writes_total",
            "Writes of recommendations and of statuses of policies."
            " outcome: written, conflict, failed.",
            ["outcome"],
            registry=registry,
        )
        self.evictions = Counter(
            "gatewright_evictions_total",
            "Evictions asked for. outcome: evicted, gone, budget, refused, failed.",
            ["outcome"],
            registry=registry,
        )
        self.probes = Counter(
            "gatewright_webhook_probes_total",
            "Probes of the webhook. outcome: passed, failed.",
            ["outcome"],
            registry=registry,
        )
        self.webhook_healthy = Gauge(
            "gatewright_webhook_healthy",
            "Whether the webhook mutates pods, by its probes.",
            registry=registry,
        )
