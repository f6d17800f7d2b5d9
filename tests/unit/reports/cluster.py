"""An API server with some kinds and report CRDs, as far as reports need one."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import orjson

from webhook.errors import KubeError

JsonObject = dict[str, Any]

_REPORT = re.compile(
    r"/apis/(?P<group>[^/]+)/v1alpha\d(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/?]+))?"
)

RESOURCES: Mapping[str, tuple[tuple[str, str, bool], ...]] = {
    "/api/v1": (("pods", "Pod", True),),
    "/apis/acme.io/v1": (("acmejobs", "AcmeJob", True),),
    "/apis/apps/v1": (("deployments", "Deployment", True),),
    "/apis/wgpolicyk8s.io/v1alpha2": (
        ("policyreports", "PolicyReport", True),
        ("clusterpolicyreports", "ClusterPolicyReport", False),
    ),
    "/apis/openreports.io/v1alpha1": (
        ("reports", "Report", True),
        ("clusterreports", "ClusterReport", False),
    ),
}
WGPOLICY, OPENREPORTS = "wgpolicyk8s.io", "openreports.io"


class FakeCluster:
    """
    *reports* are by group and namespace; `writes` says what was written, as `PUT team-a`.

    *faults* are raised in place of the answer to a call, by method and the start of the path.
    """

    def __init__(self, *objects: JsonObject, apis: tuple[str, ...] = (WGPOLICY,)) -> None:
        self.objects = list(objects)
        self.apis = set(apis)
        self.reports: dict[tuple[str, str], JsonObject] = {}
        self.others: dict[str, JsonObject] = {}
        self.writes: list[str] = []
        self.lists = 0
        self.faults: dict[tuple[str, str], KubeError] = {}
        self._version = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = "application/json",
        timeout_s: float = 10.0,
    ) -> bytes:
        for (of, start), fault in self.faults.items():
            if method == of and path.startswith(start):
                raise fault
        if path in self.others:
            return orjson.dumps(self.others[path])
        if method == "GET" and path in RESOURCES:
            return self._discover(path)
        if method == "GET" and path.startswith("/apis/") and path.count("/") == 2:
            group = path.rpartition("/")[2]
            found = [root.rpartition("/")[2] for root in RESOURCES if f"/{group}/" in root]
            return orjson.dumps({"versions": [{"version": version} for version in found]})
        if any(path.startswith(f"/apis/{group}/") for group in (WGPOLICY, OPENREPORTS)):
            return self._answer_report(method, path, body)
        if method == "GET":
            self.lists += 1
            plural = path.rpartition("/")[2]
            kind = {"pods": "Pod", "deployments": "Deployment", "acmejobs": "AcmeJob"}[plural]
            items = [copy.deepcopy(item) for item in self.objects if item["kind"] == kind]
            return orjson.dumps({"metadata": {}, "items": items})
        raise AssertionError(f"{method} {path} was not expected")

    def results(self, namespace: str, group: str = WGPOLICY) -> list[JsonObject]:
        found: list[JsonObject] = self.reports[group, namespace]["results"]
        return found

    def edit(self, namespace: str, **content: Any) -> None:
        """Change a report as somebody with kubectl would."""
        self._version += 1
        report = self.reports[WGPOLICY, namespace]
        report.update(content)
        report["metadata"]["resourceVersion"] = str(self._version)

    def _discover(self, path: str) -> bytes:
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        if group in (WGPOLICY, OPENREPORTS) and group not in self.apis:
            raise KubeError(404, "NotFound", "no such group")
        return orjson.dumps(
            {
                "resources": [
                    {"name": name, "kind": kind, "namespaced": namespaced, "verbs": ["list"]}
                    for name, kind, namespaced in RESOURCES[path]
                ]
            }
        )

    def _answer_report(self, method: str, path: str, body: Any) -> bytes:
        found = _REPORT.fullmatch(path)
        assert found is not None, path
        group, namespace = found["group"], found["namespace"] or ""
        if group not in self.apis:
            raise KubeError(404, "NotFound", "no such kind")
        if method == "GET":
            is_cluster = found["plural"].startswith("cluster")
            items = [
                {"metadata": report["metadata"]}
                for (of, inside), report in self.reports.items()
                if of == group and (not inside) == is_cluster
            ]
            return orjson.dumps({"metadata": {}, "items": items})
        there = self.reports.get((group, namespace))
        self._check(method, body, there)
        self.writes.append(f"{method} {namespace}")
        self._version += 1
        if method == "DELETE":
            del self.reports[group, namespace]
            return b"{}"
        stored = orjson.loads(orjson.dumps(body))
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.reports[group, namespace] = stored
        return orjson.dumps(stored)

    def _check(self, method: str, body: Any, there: JsonObject | None) -> None:
        if method == "POST":
            if there is not None:
                raise KubeError(409, "AlreadyExists", "there is one")
            return
        if there is None:
            raise KubeError(404, "NotFound", "there is none")
        part = body["preconditions" if method == "DELETE" else "metadata"]
        if part["resourceVersion"] != there["metadata"]["resourceVersion"]:
            raise KubeError(409, "Conflict", "it has changed")
