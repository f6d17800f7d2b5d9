"""Every metric, in one list. Labels come from closed sets: no name of an object or user."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from enum import StrEnum

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
            "Changed certificate files that could not be used.",
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
        self.review_seconds.labels(phase, shown, outcome.value).observe(duration_s)
        self.reviews.labels(phase, outcome.value, "true" if dry_run else "false").inc()
        if decision is None:
            return
        for rule, count in Tally(broken.rule for broken in decision.violations).items():
            self.violations.labels(rule.value).inc(count)
        for rule, count in Tally(change.rule for change in decision.changes).items():
            self.changes.labels(rule.value).inc(count)

    def observe_http(self, path: str, code: int) -> None:
        """Count one HTTP answer; paths that are not ours are one."""
        self.http_requests.labels(path if path in PATHS else OTHER, str(code)).inc()

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

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition text in a format that *accept* allows, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)


class ReconcilerMetrics:
    """The metrics of `reconcile`, in the registry of *metrics*."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self.leader = Gauge("gatewright_leader", "Whether this replica leads.", registry=registry)
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
            " outcome: upsize, scaleBack, kept, none, not_evaluated.",
            ["outcome"],
            registry=registry,
        )
        self.queries = Counter(
            "gatewright_prometheus_queries_total",
            "Queries to Prometheus. outcome: answered, or what was wrong.",
            ["outcome"],
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
