"""The alerts fire when they should and not before, by the real Prometheus' own test of rules."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.build import provide_binaries
from tests.controlplane.recipes import prometheus_recipe
from tests.unit.telemetry.test_dashboard import FILES, panels

JsonObject = dict[str, Any]

SERVER = 'job="gatewright", instance="10.0.0.1:8080", namespace="gatewright", pod="a"'
OTHER = 'job="gatewright", instance="10.0.0.2:8080", namespace="gatewright", pod="b"'
RECONCILER = 'job="gatewright", instance="10.0.0.1:8081", namespace="gatewright", pod="a"'

WEEK_S, DAY_S = 7 * 86400, 86400


def promtool(directory: Path, *arguments: str) -> str:
    """What promtool prints; a failure fails the test with it."""
    done = subprocess.run(
        [provide_binaries(prometheus_recipe()) / "promtool", *arguments],
        env={"HOME": str(directory), "PATH": os.defpath},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def series(name: str, labels: str, values: str) -> JsonObject:
    return {"series": f"{name}{{{labels}}}", "values": values}


def healthy(of: str) -> list[JsonObject]:
    """What a server shows that is well and leads, for two hours."""
    return [
        series("gatewright_snapshot_timestamp_seconds", of, "1000x120"),
        series("gatewright_leader", of, "1x120"),
        series("gatewright_reviews_total", f'{of}, outcome="allowed", dry_run="false"', "0+60x120"),
        series("gatewright_snapshot_info", f'{of}, revision="r1"', "1x120"),
        series("gatewright_certificate_not_after_timestamp_seconds", of, f"{9 * WEEK_S}x120"),
        *[
            series("gatewright_registration_present", f'{of}, configuration="{one}"', "1x120")
            for one in ("mutating", "validating")
        ],
    ]


def without(name: str, samples: list[JsonObject]) -> list[JsonObject]:
    return [one for one in samples if not one["series"].startswith(name)]


def counter(name: str, labels: str, values: str = "0+6x120") -> JsonObject:
    return series(name, f"{SERVER}, {labels}", values)


RECONCILES = [
    series("gatewright_leader", RECONCILER, "1x120"),
    series("gatewright_webhook_healthy", RECONCILER, "1x120"),
]

# (what there is beside a healthy server, in place of which of its metrics, what fires after 90 min)
CASES = {
    "all-is-well": ([*RECONCILES], "", []),
    "no-server": ([], "gatewright", ["GatewrightAbsent"]),
    "reviews-fail": (
        [counter("gatewright_reviews_total", 'outcome="failed", dry_run="false"')],
        "",
        ["GatewrightReviewsFailing"],
    ),
    "requests-are-shed": (
        [counter("gatewright_requests_rejected_total", 'reason="busy"')],
        "",
        ["GatewrightShedsRequests"],
    ),
    "connections-are-shed": (
        [counter("gatewright_connections_shed_total", 'outcome="ended"')],
        "",
        ["GatewrightShedsConnections"],
    ),
    "a-document-is-broken": (
        [counter("gatewright_document_problems", 'severity="error"', "1x120")],
        "",
        ["GatewrightDocumentsNotInForce"],
    ),
    "a-watch-is-down": (
        [counter("gatewright_watch_connected", 'resource="gvkpolicies"', "0x120")],
        "",
        ["GatewrightSnapshotOld"],
    ),
    "a-watch-of-a-kind-that-need-not-be-there-is-down": (
        [counter("gatewright_watch_connected", 'resource="queues"', "0x120")],
        "",
        [],
    ),
    "replicas-disagree": (
        [series("gatewright_snapshot_info", f'{OTHER}, revision="r2"', "1x120")],
        "",
        ["GatewrightReplicasDisagree"],
    ),
    "the-certificate-ends-in-six-days": (
        [series("gatewright_certificate_not_after_timestamp_seconds", SERVER, f"{6 * DAY_S}x120")],
        "gatewright_certificate_not_after",
        ["GatewrightCertificateEnds"],
    ),
    "nobody-leads": (
        [series("gatewright_leader", SERVER, "0x120"), *RECONCILES],
        "gatewright_leader",
        ["GatewrightServerWithoutLeader"],
    ),
    "a-registration-is-gone": (
        [
            counter("gatewright_registration_present", 'configuration="mutating"', "0x120"),
            counter("gatewright_registration_present", 'configuration="validating"', "1x120"),
        ],
        "gatewright_registration_present",
        ["GatewrightRegistrationAbsent"],
    ),
    "somebody-changes-a-registration": (
        [counter("gatewright_registration_contested", 'configuration="mutating"', "1x120")],
        "",
        ["GatewrightRegistrationContested"],
    ),
    "what-runs-cannot-be-read": (
        [counter("gatewright_scans_total", 'outcome="failed"', "0+1x120")],
        "",
        ["GatewrightReportsOld"],
    ),
    "no-reconciler-leads": (
        [
            series("gatewright_leader", RECONCILER, "0x120"),
            series("gatewright_webhook_healthy", RECONCILER, "0x120"),
        ],
        "",
        ["GatewrightReconcilerWithoutLeader"],
    ),
    "prometheus-is-away": (
        [
            *RECONCILES,
            series(
                "gatewright_prometheus_queries_total",
                f'{RECONCILER}, outcome="unreachable"',
                "0+2x120",
            ),
        ],
        "",
        ["GatewrightPrometheusUnreachable"],
    ),
    "denials-as-ever": (
        [counter("gatewright_reviews_total", 'outcome="denied", dry_run="false"', "0+60x120")],
        "",
        [],
    ),
    "many-denials-at-once": (
        [
            counter(
                "gatewright_reviews_total", 'outcome="denied", dry_run="false"', "0+1x62 62+600x58"
            )
        ],
        "",
        ["GatewrightDenialSpike"],
    ),
}


def test_the_rules_are_fit_for_prometheus(tmp_path: Path) -> None:
    assert "SUCCESS" in promtool(tmp_path, "check", "rules", str(FILES / "alerts.yaml"))


@pytest.mark.parametrize("case", CASES)
def test_alerts_fire_when_they_should(case: str, tmp_path: Path) -> None:
    samples, in_place_of, want = CASES[case]
    known = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    names = [rule["alert"] for group in known for rule in group["rules"]]
    base = without(in_place_of, healthy(SERVER)) if in_place_of else healthy(SERVER)
    fired = [
        # promtool would compare all labels. Two registrations or replicas may make two of one.
        {
            "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) >= bool 1',
            "eval_time": "90m",
            "exp_samples": [{"labels": "{}", "value": 1}] if name in want else [],
        }
        for name in names
    ]
    test = {
        "rule_files": [str(FILES / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": [*base, *samples], "promql_expr_test": fired}],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))

    assert "SUCCESS" in promtool(tmp_path, "test", "rules", str(tmp_path / "test.yaml"))


def test_every_query_of_the_dashboard_can_be_asked(tmp_path: Path) -> None:
    rules = [
        {
            "record": f"panel:{panel['id']}:{number}",
            "expr": target["expr"]
            .replace("$__rate_interval", "5m")
            .replace("$namespace", "gatewright"),
        }
        for panel in panels()
        for number, target in enumerate(panel["targets"])
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    assert f"SUCCESS: {len(rules)} rules found" in promtool(tmp_path, "check", "rules", str(file))
