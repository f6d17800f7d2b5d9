from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from webhook.model.decision import Change, Decision, Outcome, Rule, Source, Violation
from webhook.model.request import Operation
from webhook.model.scopes import Scope
from webhook.telemetry.metrics import Metrics, Rejection

SOURCE = Source("guardrails", Scope.TENANT)


def make_violation(rule: Rule) -> Violation:
    return Violation(("spec",), "field", "", "", rule, "wrong", 1, "", SOURCE)


def make_change(rule: Rule) -> Change:
    return Change(("spec",), "field", "", "", rule, None, 1, SOURCE)


def observe(metrics: Metrics, decision: Decision | None = None, **fields: object) -> None:
    values = {
        "phase": "mutate",
        "operation": Operation.CREATE,
        "outcome": Outcome.ALLOWED,
        "dry_run": False,
        "duration_s": 0.002,
        **fields,
    }
    metrics.observe_review(decision=decision, **values)  # type: ignore[arg-type]  # by name


def series(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text, _ = metrics.render()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return series(metrics).get((name, tuple(sorted(labels.items()))))


def test_a_review_is_counted_and_timed() -> None:
    metrics = Metrics()

    observe(metrics, outcome=Outcome.DENIED)

    labels = {"phase": "mutate", "operation": "CREATE", "outcome": "denied"}
    assert value(metrics, "gatewright_review_duration_seconds_count", **labels) == 1
    assert value(metrics, "gatewright_review_duration_seconds_sum", **labels) == 0.002
    assert (
        value(
            metrics, "gatewright_reviews_total", phase="mutate", outcome="denied", dry_run="false"
        )
        == 1
    )


def test_a_dry_run_is_told_apart() -> None:
    metrics = Metrics()

    observe(metrics, dry_run=True)

    labels = {"phase": "mutate", "outcome": "allowed", "dry_run": "true"}
    assert value(metrics, "gatewright_reviews_total", **labels) == 1


def test_violations_and_changes_are_counted_by_rule() -> None:
    metrics = Metrics()
    decision = Decision(
        False,
        violations=tuple(map(make_violation, (Rule.MAX, Rule.MAX, Rule.BLOCKED))),
        changes=(make_change(Rule.SET),),
    )

    observe(metrics, decision)

    assert value(metrics, "gatewright_violations_total", rule="max") == 2
    assert value(metrics, "gatewright_violations_total", rule="blocked") == 1
    assert value(metrics, "gatewright_changes_total", rule="set") == 1


def test_only_one_revision_is_shown_at_a_time() -> None:
    metrics = Metrics()

    for revision in ("one", "two"):
        metrics.show_snapshot(
            revision, time_s=1000.0, documents={"GVKPolicy": 2}, errors=1, warnings=3
        )

    assert value(metrics, "gatewright_snapshot_info", revision="one") is None
    assert value(metrics, "gatewright_snapshot_info", revision="two") == 1
    assert value(metrics, "gatewright_snapshot_timestamp_seconds") == 1000
    assert value(metrics, "gatewright_documents", kind="GVKPolicy") == 2
    assert value(metrics, "gatewright_document_problems", severity="error") == 1
    assert value(metrics, "gatewright_document_problems", severity="warning") == 3


def test_a_kind_that_is_gone_is_no_longer_shown() -> None:
    metrics = Metrics()
    metrics.show_snapshot("a", time_s=0, documents={"Formatter": 1}, errors=0, warnings=0)

    metrics.show_snapshot("b", time_s=0, documents={}, errors=0, warnings=0)

    assert value(metrics, "gatewright_documents", kind="Formatter") is None


def test_paths_that_are_not_ours_are_one() -> None:
    metrics = Metrics()

    for path in ("/mutate", "/a", "/b", ""):
        metrics.observe_http(path, 404)

    assert value(metrics, "gatewright_http_requests_total", path="/mutate", code="404") == 1
    assert value(metrics, "gatewright_http_requests_total", path="other", code="404") == 3


def test_even_all_labels_together_make_no_more_than_a_few_hundred_series() -> None:
    """The worst that any traffic can do: every value of every label has been seen."""
    metrics = Metrics()
    everything = Decision(
        False,
        violations=tuple(map(make_violation, Rule)),
        changes=tuple(map(make_change, Rule)),
    )

    for phase in ("mutate", "validate"):
        for operation in Operation:
            for outcome in Outcome:
                for dry_run in (True, False):
                    observe(
                        metrics,
                        everything,
                        phase=phase,
                        operation=operation,
                        outcome=outcome,
                        dry_run=dry_run,
                    )
    for reason in Rejection:
        metrics.rejected.labels(reason).inc()

    assert len(series(metrics)) < 450


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param("", "text/plain", id="nothing"),
        pytest.param("*/*", "text/plain", id="anything"),
        pytest.param("application/openmetrics-text", "application/openmetrics-text", id="open"),
    ],
)
def test_the_text_comes_in_the_format_that_was_asked_for(accept: str, content_type: str) -> None:
    text, got = Metrics().render(accept)

    assert got.startswith(content_type)
    assert b"gatewright_reviews_running 0.0" in text


def test_two_processes_worth_of_metrics_do_not_share_a_registry() -> None:
    first, second = Metrics(), Metrics()

    observe(first)

    labels = {"phase": "mutate", "outcome": "allowed", "dry_run": "false"}
    assert value(second, "gatewright_reviews_total", **labels) is None
