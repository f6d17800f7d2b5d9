"""A cluster and a Prometheus in memory, as far as a round speaks to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn

from tests.builders import JsonObject
from tests.gpu_cluster import make_cluster
from tests.gpu_documents import METRICS
from webhook.errors import KubeError, NotReadyError, PrometheusError
from webhook.model.rightsizing.policies import GlobalSettings
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.documents import StoredRecommendation, decode_recommendation
from webhook.reactive.observation.sampling import Sampler

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_RECOMMENDATIONS = "/apis/policy.gatewright.io/v1alpha1/namespaces/"


class FakeKube:
    """
    An API server with recommendations, kept under optimistic concurrency, and pods to evict.

    *faults* are by method and the end of the path (`("POST", "/eviction")`). What ends with *hanging*
    is never answered.
    """

    def __init__(self) -> None:
        self.recommendations: dict[str, JsonObject] = {}
        self.evicted: list[str] = []
        self.statuses: dict[str, JsonObject] = {}
        self.mutates = True
        self.faults: dict[tuple[str, str], Exception] = {}
        self.hanging = ""
        self.calls: list[tuple[str, str]] = []
        self._version = 100

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
    ) -> bytes:
        await asyncio.sleep(0)
        self.calls.append((method, path))
        for (verb, end), fault in self.faults.items():
            if method == verb and path.endswith(end):
                raise fault
        if self.hanging and path.endswith(self.hanging):
            await asyncio.Event().wait()
        return json.dumps(self._answer(method, path, body)).encode()

    def _answer(self, method: str, path: str, body: Any) -> JsonObject:
        if path.endswith("/pods?dryRun=All"):
            annotations = {"gatewright.io/probed": "960c"} if self.mutates else {}
            return {**body, "metadata": {**body["metadata"], "annotations": annotations}}
        if path.endswith("/eviction"):
            self.evicted.append(body["metadata"]["name"])
            return {}
        if path.startswith("/openapi/"):
            return {}
        if method == "PATCH":
            self.statuses[path] = body["status"]
            return {}
        assert path.startswith(_RECOMMENDATIONS), path
        return self._recommendation(method, path.removesuffix("/status"), body)

    def _recommendation(self, method: str, path: str, body: Any) -> JsonObject:
        namespace = path.removeprefix(_RECOMMENDATIONS).partition("/")[0]
        name = body["metadata"]["name"] if method == "POST" else path.rpartition("/")[2]
        key = f"{namespace}/{name}"
        known = self.recommendations.get(key)
        if method == "POST":
            if known is not None:
                raise KubeError(409, "AlreadyExists", "it is there")
            known = {**body, "metadata": {**body["metadata"], "uid": f"uid-{key}"}}
        elif known is None:
            raise KubeError(404, "NotFound", "no recommendation")
        else:
            wanted = body["preconditions"] if method == "DELETE" else body["metadata"]
            if wanted["resourceVersion"] != known["metadata"]["resourceVersion"]:
                raise KubeError(409, "Conflict", "somebody else was faster")
        if method == "DELETE":
            return self.recommendations.pop(key)
        if method == "PUT":
            known = {**known, "status": body["status"]}
        return self.put(key, known)

    def put(self, key: str, manifest: JsonObject) -> JsonObject:
        """Store *manifest* in a new version, which is returned."""
        self._version += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self._version)}
        self.recommendations[key] = {**manifest, "metadata": metadata}
        return self.recommendations[key]

    @property
    def seen(self) -> Mapping[str, StoredRecommendation]:
        """The recommendations as a watch tells them."""
        return {
            key: decode_recommendation(json.dumps(manifest).encode())
            for key, manifest in self.recommendations.items()
        }


class FakeView:
    """What is known of a cluster with *objects*; with *behind* it is what was there then."""

    def __init__(self, kube: FakeKube, *objects: JsonObject, **more: Any) -> None:
        self.kube = kube
        self.objects = list(objects)
        self.more = {"rooms": {}, **more}
        self.policies_changed = asyncio.Event()
        self.obstacle = ""
        self.behind: Mapping[str, StoredRecommendation] | None = None

    async def run(self) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def settled(self) -> None:
        pass

    def take(self) -> Cluster:
        if self.obstacle:
            raise NotReadyError(self.obstacle)
        known = self.kube.seen if self.behind is None else self.behind
        return make_cluster(*self.objects, recommendations=known, **self.more)


class FakePrometheus:
    """
    Answers for one namespace: *percents* by signal, pod and container, or *error*.

    It is its own source of samplers.
    """

    def __init__(self, namespace: str = "team-a") -> None:
        self.namespace = namespace
        self.percents: dict[str, dict[str, dict[str, str | None]]] = {"compute": {}, "memory": {}}
        self.error: PrometheusError | None = None
        # What no client should raise.
        self.unforeseen: Exception | None = None
        self.queries = 0
        self._sampler = Sampler(self)

    def load(self, pod: str, *, compute: str | None, memory: str | None = "10") -> None:
        """What main of *pod* uses, in percent; None: a value that is no number."""
        self.percents["compute"][pod] = {"main": compute}
        self.percents["memory"][pod] = {"main": memory}

    def sampler(self, settings: GlobalSettings) -> Sampler:
        return self._sampler

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]:
        self.queries += 1
        if self.error is not None:
            raise self.error
        if self.unforeseen is not None:
            raise self.unforeseen
        signal = next(signal for signal, (metric, _) in METRICS.items() if metric in promql)
        return tuple(
            [
                Sample(
                    {
                        "namespace": self.namespace,
                        "pod": pod,
                        "container": container,
                        "gpu_uuid": "0",
                    },
                    None if percent is None else Decimal(percent),
                )
                for pod, containers in self.percents[signal].items()
                for container, percent in containers.items()
            ]
        )
