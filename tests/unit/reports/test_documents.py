"""A report says the same in both APIs, and fits into etcd."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from webhook.reports.documents import (
    HASH_ANNOTATION,
    MAX_BYTES,
    OMITTED_ANNOTATION,
    OPEN_REPORTS,
    POLICY_REPORTS,
    Report,
    ReportApi,
    build_report,
)
from webhook.reports.findings import NamespaceFindings, Result, Subject, Verdict

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
OWNER = {"apiVersion": "v1", "kind": "Namespace", "name": "gatewright", "uid": "1"}


def result(name: str = "train", verdict: Verdict = Verdict.FAIL, **more: Any) -> Result:
    subject = Subject("v1", "Pod", "team-a", name, "uid-1")
    values = {"policy": "baseline", "rule": "image.pattern", "message": "wrong", **more}
    return Result(verdict, subject, **values)


def report(*results: Result, api: ReportApi = POLICY_REPORTS, **more: Any) -> Report:
    found = NamespaceFindings()
    for one in results:
        found.add(one, keep=True)
    values: dict[str, Any] = {"owner": OWNER, "time": NOON, **more}
    return build_report(api, values.pop("namespace", "team-a"), found, **values)


@pytest.mark.parametrize(
    ("api", "version", "kind"),
    [
        pytest.param(POLICY_REPORTS, "wgpolicyk8s.io/v1alpha2", "PolicyReport", id="wgpolicy"),
        pytest.param(OPEN_REPORTS, "openreports.io/v1alpha1", "Report", id="openreports"),
    ],
)
def test_a_result_has_what_the_tools_show(api: ReportApi, version: str, kind: str) -> None:
    document = report(result(properties=(("mode", "Enforce"),)), api=api).document

    assert (document["apiVersion"], document["kind"]) == (version, kind)
    assert document["summary"] == {"pass": 0, "fail": 1, "warn": 0, "error": 0, "skip": 0}
    assert document["results"] == [
        {
            "source": "gatewright",
            "policy": "baseline",
            "rule": "image.pattern",
            "result": "fail",
            "scored": True,
            "message": "wrong",
            "properties": {"mode": "Enforce"},
            "resources": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": "team-a",
                    "name": "train",
                    "uid": "uid-1",
                }
            ],
            "timestamp": {"seconds": int(NOON.timestamp()), "nanos": 0},
        }
    ]
    assert document["metadata"]["ownerReferences"] == [OWNER]


def test_what_is_only_tried_does_not_count_as_scored() -> None:
    document = report(result(verdict=Verdict.WARN)).document

    assert [(one["result"], one["scored"]) for one in document["results"]] == [("warn", False)]
    assert document["summary"]["warn"] == 1


def test_what_lies_in_no_namespace_has_a_report_of_its_own() -> None:
    document = report(result(), namespace="").document

    assert document["kind"] == "ClusterPolicyReport"
    assert "namespace" not in document["metadata"]
    assert "scope" not in document


def test_what_was_left_out_is_counted_and_said() -> None:
    document = report(*[result(f"train-{n}") for n in range(600)]).document

    assert len(document["results"]) == 500
    assert document["summary"]["fail"] == 600
    assert document["metadata"]["annotations"][OMITTED_ANNOTATION] == "100"


def test_the_largest_report_fits_into_etcd() -> None:
    long = "ü" * 500
    many = [result(f"train-{n}", message=long, policy="p" * 253, rule=long) for n in range(500)]

    document = report(*many).document

    assert len(orjson.dumps(document)) < MAX_BYTES + 64 * 1024
    left_out = int(document["metadata"]["annotations"][OMITTED_ANNOTATION])
    assert len(document["results"]) == 500 - left_out


def test_only_what_it_says_makes_another_hash() -> None:
    first = report(result())

    assert report(result(), time=NOON + timedelta(hours=1)).content_hash == first.content_hash
    assert first.document["metadata"]["annotations"][HASH_ANNOTATION] == first.content_hash
    others = [
        report(result("other")),
        report(result(verdict=Verdict.WARN)),
        report(result(), result("other")),
        report(result(), api=OPEN_REPORTS),
        report(result(), owner=None),
        report(result(), owner={**OWNER, "uid": "2"}),
    ]
    assert first.content_hash not in [other.content_hash for other in others]
