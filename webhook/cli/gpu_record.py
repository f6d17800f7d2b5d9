"""`gatewright gpu record`: a scenario out of a cluster and its Prometheus."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import orjson

from webhook.admission.texts import clean
from webhook.cli.cluster import open_client
from webhook.cli.gpu_cluster import WorkloadName, parse_workload
from webhook.cli.gpu_explain import fetch_recommendations
from webhook.cli.printing import complain
from webhook.clients.discovery import Discovery
from webhook.clients.kube import KubeClient
from webhook.clients.listing import ObjectLister
from webhook.clients.prometheus import PrometheusClient
from webhook.clients.prometheus_access import PrometheusCredentials
from webhook.errors import KubeError, ManifestError, PrometheusError, SettingsError, SpecError
from webhook.model.manifests import dump_yaml, load_file
from webhook.model.rightsizing.documents import SINGLETONS, is_rightsizing, key_of
from webhook.model.rightsizing.durations import parse_duration
from webhook.model.rightsizing.policies import GROUP_VERSION, DocumentKey, ReactivePolicy
from webhook.model.rightsizing.recommendations import GpuRecommendation
from webhook.model.rightsizing.times import read_time
from webhook.reactive.decisions.choose import contributors, tried
from webhook.reactive.decisions.scopes import objection
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.documents import PLURALS, SeenReactive, decode_document
from webhook.reactive.observation.kinds import (
    WORKLOAD_KINDS,
    SeenWorkload,
    WorkloadKind,
    decode_workload,
)
from webhook.reactive.observation.mapped import MAPPINGS, decode_mapping, mapped_kinds
from webhook.reactive.observation.pods import SeenPod, decode_pod
from webhook.reactive.observation.workloads import ObservedWorkload, observe
from webhook.reactive.scenarios.recording import MAX_COPIES, record, scenario_of, span_of
from webhook.store.gpu_objects import SeenOwner, decode_owner

# A sample a minute, and a query for each: a week is ten thousand of them for each signal.
_MAX_DURATION = timedelta(days=31)
_MAX_CHARS = 400
_SIBLINGS = {"ReplicaSet": "/apis/apps/v1", "Job": "/apis/batch/v1"}
_KEPT_METADATA = ("name", "namespace", "annotations", "labels", "creationTimestamp", "generation")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Manifests = Mapping[DocumentKey, Mapping[str, Any]]


def run(args: argparse.Namespace) -> int:
    wanted = parse_workload(args.workload)
    duration = _duration(args.duration, "--duration")
    if not timedelta(0) < duration <= _MAX_DURATION:
        raise SettingsError("--duration must be more than 0, and 31 days at most")
    step = None if args.step is None else _duration(args.step, "--step")
    if step is not None and step <= timedelta(0):
        raise SettingsError("--step must be more than 0")
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    start = now - duration if args.start is None else _time(args.start)
    if args.prometheus_token_file is not None and args.prometheus_url is None:
        raise SettingsError("--prometheus-token-file goes with --prometheus-url")
    given = None if args.policies is None else _read_policies(args.policies)
    client = open_client(args)
    recorder = _Recorder(args, client, wanted, given)
    documents = asyncio.run(recorder.record(start, start + duration, step))
    sys.stdout.write(dump_yaml(documents))
    return 0


def _duration(text: str, flag: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{flag}: {error}") from None


def _time(text: str) -> datetime:
    try:
        return read_time(text)
    except ValueError as error:
        raise SettingsError(f"--from: {error}") from None


def _read_policies(path: Path) -> Manifests:
    try:
        manifests = [manifest.value for manifest in load_file(path)]
    except ManifestError as error:
        raise SettingsError(str(error)) from error
    found = {}
    for manifest in manifests:
        # A scenario may be among them, of an earlier time.
        if isinstance(manifest, dict) and is_rightsizing(manifest):
            found[key_of(manifest)] = manifest
    return found


@dataclass(slots=True)
class _Recorder:
    """One recording; its calls end with it."""

    args: argparse.Namespace
    client: KubeClient
    wanted: WorkloadName
    given: Manifests | None

    async def record(
        self, start: datetime, end: datetime, step: timedelta | None
    ) -> list[Mapping[str, Any]]:
        """
        The documents of the scenario's file.

        Raises:
            SettingsError: something can't be read, or no policy concerns the workload.
        """
        try:
            return await self._record(start, end, step)
        except KubeError as error:
            raise SettingsError(f"the cluster can't be asked: {error}") from error
        except (PrometheusError, SpecError) as error:
            raise SettingsError(f"Prometheus can't be asked: {error}") from error
        finally:
            await self.client.close()

    async def _record(
        self, start: datetime, end: datetime, step: timedelta | None
    ) -> list[Mapping[str, Any]]:
        manifests = await self._documents() if self.given is None else self.given
        cluster = await self._cluster(manifests)
        observed = self._observed(cluster)
        settings = cluster.settings
        ranked = (
            *contributors(observed.policies, cluster.precedence, multi_policy=True),
            *tried(observed.policies, cluster.precedence, multi_policy=True),
        )
        policy = ranked[0]
        alike = [each for each in ranked if _sources(each) == _sources(policy)]
        for left in ranked:
            if left not in alike:
                complain(f"warning: {left.key} is left out: it asks for other metrics")
        span = span_of(policy, start, end)
        names = [pod.pod_name for pod in observed.pods if pod.is_evidence]
        if not names:
            complain("warning: no pod of the workload runs now, so that nothing is recorded")
        prometheus = self._prometheus(
            self.args.prometheus_url or settings.prometheus_url,
            settings.request_timeout.total_seconds(),
        )
        try:
            recorded = await record(
                prometheus,
                policy,
                self.wanted.namespace,
                names,
                span,
                device_label=self.args.device_label,
            )
        finally:
            await prometheus.close()
        if any(
            copy.is_merged for each in recorded.values() for own in each.values() for copy in own
        ):
            complain(
                f"warning: a series has more than {MAX_COPIES} copies, some of which are recorded"
                " as one"
            )
        if not any(recorded.values()):
            complain("warning: Prometheus has no samples of its pods in that time")
        scenario = scenario_of(
            observed,
            await self._recommendation(observed),
            policy,
            recorded,
            span,
            step or settings.check_interval,
        )
        kept = {each.key for each in alike} | {each.strategy for each in alike}
        return [
            *[
                _cleaned(manifest)
                for key, manifest in manifests.items()
                if key in kept or key.kind in SINGLETONS
            ],
            scenario,
        ]

    def _prometheus(self, url: str, timeout_s: float) -> PrometheusClient:
        token_file = self.args.prometheus_token_file
        credentials = PrometheusCredentials(url, token_file=token_file) if token_file else None
        return PrometheusClient(
            url, timeout_s=timeout_s, credentials=credentials, ca_file=self.args.prometheus_ca
        )

    async def _recommendation(self, observed: ObservedWorkload) -> GpuRecommendation | None:
        try:
            found = await fetch_recommendations(self.client, self.wanted.namespace)
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        ref = observed.workload.ref
        return next((each for each in found if each.workload.uid == ref.uid), None)

    # -- the cluster ------------------------------------------------------------------------

    async def _cluster(self, manifests: Manifests) -> Cluster:
        """As the reconciler would see it, as far as the workload is concerned."""
        workload = await self._workload(manifests)
        pods: list[SeenPod] = [
            decode_pod(raw) for raw in await self._list_beside("/api/v1", "pods")
        ]
        replica_sets: list[SeenOwner] = [
            decode_owner(raw)
            for raw in await self._list_beside(_SIBLINGS["ReplicaSet"], "replicasets")
        ]
        workloads: dict[str, dict[str, SeenWorkload]] = {workload.type: {workload.name: workload}}
        if workload.type in ("CronJob", "AnalysisRun"):
            kind = WORKLOAD_KINDS["Job"]
            jobs = [
                decode_workload(raw, kind, kind.versions[0])
                for raw in await self._list_beside(_SIBLINGS["Job"], "jobs")
            ]
            workloads["Job"] = {job.name: job for job in jobs}
        documents = [_decoded(key, manifest) for key, manifest in manifests.items()]
        return Cluster(
            documents={seen.key: seen for seen in documents},
            workloads=workloads,
            replica_sets={seen.name: seen for seen in replica_sets},
            pods={pod.name: pod for pod in pods},
        )

    def _observed(self, cluster: Cluster) -> ObservedWorkload:
        for each in observe(cluster):
            workload = each.workload
            if workload.workload_name == self.wanted.name:
                return each
        for seen in cluster.documents.values():
            if seen.document is None:
                complain(f"{seen.key}: {clean(seen.problem, _MAX_CHARS)}")
        protected = cluster.settings.protected_namespaces
        (workload,) = [
            found
            for found_by_name in cluster.workloads.values()
            for found in found_by_name.values()
            if found.workload_name == self.wanted.name
        ][:1]
        for policy in cluster.policies:
            complain(clean(objection(policy, workload.scoped, protected), _MAX_CHARS))
        raise SettingsError(f"no policy concerns {workload}; --policies FILE gives one")

    async def _workload(self, manifests: Manifests) -> SeenWorkload:
        wanted = self.wanted
        found: list[SeenWorkload] = []
        for kind in await self._kinds(manifests):
            for version in kind.versions:
                path = f"/apis/{kind.group}/{version}/namespaces/{quote(wanted.namespace, safe='')}"
                raw = await self._get(f"{path}/{kind.plural}/{quote(wanted.name, safe='')}")
                if raw is not None:
                    found.append(decode_workload(raw, kind, version))
                    break
        if not found:
            raise SettingsError(f"there is no workload {wanted}")
        if len(found) > 1:
            kinds = ", ".join([each.type for each in found])
            raise SettingsError(f"{wanted} is of several kinds ({kinds}): say which")
        return found[0]

    async def _kinds(self, manifests: Manifests) -> Sequence[WorkloadKind]:
        """
        The kinds that the workload may be of: all that have the wanted name.

        Where none is wanted, those that every cluster has in mind: the nine, and what policies
        name.
        """
        mapped = mapped_kinds([decode_mapping(raw) for raw in await self._list(MAPPINGS.path)])
        wanted = self.wanted
        short = [each for each in WORKLOAD_KINDS.values() if wanted.may_be(each.kind, each.group)]
        named = {
            type_
            for key, manifest in manifests.items()
            if isinstance(policy := _decoded(key, manifest).document, ReactivePolicy)
            for type_ in policy.scope.workload_types
        }
        others = [
            kind
            for type_, kind in mapped.items()
            if wanted.may_be(kind.kind, kind.group) and (wanted.kind or type_ in named)
        ]
        discovery = Discovery(self.client)
        versions = {version for kind in others for version in kind.unlooked()}
        served = {version: await discovery.resources_of(version) for version in sorted(versions)}
        located = [kind.served(served) for kind in others]
        return [*short, *[kind for kind in located if kind is not None]]

    async def _documents(self) -> Manifests:
        found: dict[DocumentKey, Mapping[str, Any]] = {}
        for kind, plural in PLURALS.items():
            for raw in await self._list(f"/apis/{GROUP_VERSION}/{plural}"):
                manifest = {**orjson.loads(raw), "apiVersion": GROUP_VERSION, "kind": kind}
                found[key_of(manifest)] = manifest
        return found

    async def _list_beside(self, group: str, plural: str) -> Sequence[bytes]:
        """What lies in the namespace of the workload."""
        return await self._list(
            f"{group}/namespaces/{quote(self.wanted.namespace, safe='')}/{plural}"
        )

    async def _list(self, path: str) -> Sequence[bytes]:
        """Nothing where there is no such kind."""
        try:
            return [raw async for raw in ObjectLister(self.client).raw_objects(path)]
        except KubeError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return []
            raise

    async def _get(self, path: str) -> bytes | None:
        """None where there is nothing of that name or kind."""
        try:
            return await self.client.request("GET", path, timeout_s=60.0)
        except KubeError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise


def _decoded(key: DocumentKey, manifest: Mapping[str, Any]) -> SeenReactive:
    metadata = {**manifest["metadata"], "namespace": key.namespace}
    try:
        return decode_document(msgspec.json.encode({**manifest, "metadata": metadata}), key.kind)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{key} can't be read: {error}") from error


def _sources(policy: ReactivePolicy) -> object:
    return {signal: settings.source for signal, settings in policy.signals.items()}


def _cleaned(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what a server added, and without a copy of itself."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key in _KEPT_METADATA}
    annotations = dict(metadata.pop("annotations", None) or {})
    annotations.pop(_LAST_APPLIED, None)
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": GROUP_VERSION,
        "kind": manifest["kind"],
        "metadata": metadata,
        "spec": manifest.get("spec"),
    }
