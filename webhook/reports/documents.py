"""
The findings of a namespace -> a report, in either of the APIs for such.

Both have the same results under other names: `wgpolicyk8s.io/v1alpha2` of the Kubernetes policy
working group, and `openreports.io/v1alpha1`, which it became.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webhook.admission.texts import to_json
from webhook.reports.findings import MAX_RESULTS, NamespaceFindings, Result, Subject, Verdict

SOURCE = "gatewright"
# There is one in a namespace, so it needs no other name.
NAME = "gatewright"
MANAGED_BY = ("app.kubernetes.io/managed-by", "gatewright")
# Of what the report says, without its times: whether it has to be written is seen by that.
HASH_ANNOTATION = "policy.gatewright.io/content-hash"
OMITTED_ANNOTATION = "policy.gatewright.io/omitted-results"

# etcd takes 1.5 MiB; the rest is for what the API server adds.
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReportApi:
    """One of the APIs: what a report is called in a namespace, and outside of all."""

    group: str
    version: str
    kind: str
    plural: str
    cluster_kind: str
    cluster_plural: str
    # Whether a report has a source of its own, beside those of its results.
    has_source: bool

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


OPEN_REPORTS = ReportApi(
    "openreports.io", "v1alpha1", "Report", "reports", "ClusterReport", "clusterreports", True
)
POLICY_REPORTS = ReportApi(
    "wgpolicyk8s.io",
    "v1alpha2",
    "PolicyReport",
    "policyreports",
    "ClusterPolicyReport",
    "clusterpolicyreports",
    False,
)
# Where both are installed, the first is written.
REPORT_APIS = (OPEN_REPORTS, POLICY_REPORTS)


@dataclass(frozen=True, slots=True)
class Report:
    """One report as it should be, without what it is told by the cluster."""

    namespace: str
    document: dict[str, Any]
    content_hash: str


def build_report(
    api: ReportApi,
    namespace: str,
    found: NamespaceFindings,
    *,
    owner: Mapping[str, Any] | None,
    time: datetime,
) -> Report:
    """
    The report of *namespace* (`""`: of what lies in none). *owner* is its ownerReference.

    At most `MAX_RESULTS` and `MAX_BYTES`; the summary counts what was left out as well, and an
    annotation says how much that is. Equal findings give an equal hash, whatever *time* is.
    """
    results: list[dict[str, Any]] = []
    size = 0
    for result in found.results[:MAX_RESULTS]:
        entry = _result(result)
        size += len(to_json(entry)) + 1
        if size > MAX_BYTES:
            break
        results.append(entry)
    omitted = found.total - len(results)
    content: dict[str, Any] = {
        **({"source": SOURCE} if api.has_source else {}),
        "summary": {
            "pass": 0,
            "fail": found.counts[Verdict.FAIL],
            "warn": found.counts[Verdict.WARN],
            "error": found.counts[Verdict.ERROR],
            "skip": 0,
        },
        **({"scope": _scope(namespace)} if namespace else {}),
    }
    owners = [dict(owner)] if owner is not None else []
    content_hash = hashlib.sha256(to_json([api.api_version, content, results, owners])).hexdigest()
    stamp = {"seconds": int(time.timestamp()), "nanos": 0}
    document = {
        "apiVersion": api.api_version,
        "kind": api.kind if namespace else api.cluster_kind,
        "metadata": {
            "name": NAME,
            **({"namespace": namespace} if namespace else {}),
            "labels": dict([MANAGED_BY]),
            "annotations": {
                HASH_ANNOTATION: content_hash[:32],
                **({OMITTED_ANNOTATION: str(omitted)} if omitted else {}),
            },
            **({"ownerReferences": owners} if owners else {}),
        },
        **content,
        "results": [{**entry, "timestamp": stamp} for entry in results],
    }
    return Report(namespace, document, content_hash[:32])


def _result(result: Result) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "source": SOURCE,
        "policy": result.policy,
        "result": result.verdict.value,
        # What is only tried does not count.
        "scored": result.verdict is Verdict.FAIL,
        "message": result.message,
        "resources": [_reference(result.subject)],
    }
    if result.rule:
        entry["rule"] = result.rule
    if result.properties:
        entry["properties"] = dict(result.properties)
    return entry


def _reference(subject: Subject) -> dict[str, str]:
    reference = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
    }
    return {key: text for key, text in reference.items() if text}


def _scope(namespace: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Namespace", "name": namespace}
