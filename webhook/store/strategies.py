"""The strategies for GPUs that a cluster has, so that a policy can be told that its is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from webhook.clients.informer import Informer, Resource, Timing
from webhook.clients.kube import KubeClient
from webhook.model.rightsizing.documents import key_of
from webhook.model.rightsizing.policies import GROUP, GROUP_VERSION, DocumentKey, Strategy
from webhook.store.rightsizing import read_strategy
from webhook.telemetry.metrics import Metrics

_PLURALS: Mapping[str, str] = {
    "AutomationStrategy": "automationstrategies",
    "ClusterAutomationStrategy": "clusterautomationstrategies",
}


@dataclass(frozen=True, slots=True)
class SeenStrategy:
    """One strategy; *strategy* is None where it can't be read."""

    name: str
    resource_version: str
    key: DocumentKey
    strategy: Strategy | None

    @property
    def change_key(self) -> object:
        return self.strategy


class StrategyWatch:
    """Follows the strategies of a cluster, which need not know such kinds."""

    def __init__(
        self, client: KubeClient, *, metrics: Metrics, timing: Timing | None = None
    ) -> None:
        self._informers = [
            Informer[SeenStrategy](
                client,
                Resource(f"{plural}.{GROUP}", f"/apis/{GROUP_VERSION}/{plural}", optional=True),
                lambda raw, kind=kind: _decode(raw, kind),  # type: ignore[misc]  # mypy#15459
                metrics=metrics,
                timing=timing,
            )
            for kind, plural in _PLURALS.items()
        ]

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"watch {informer.resource.name}")

    def known(self) -> Mapping[DocumentKey, Strategy | None] | None:
        """All that there are; None until both kinds were listed once."""
        if not all(informer.synced.is_set() for informer in self._informers):
            return None
        return {
            seen.key: seen.strategy
            for informer in self._informers
            for seen in informer.objects.values()
        }


def _decode(raw: bytes, kind: str) -> SeenStrategy:
    manifest = msgspec.json.decode(raw)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
        raise msgspec.DecodeError(f"no {kind}")
    # Items of a list don't say what they are.
    manifest = {**manifest, "apiVersion": GROUP_VERSION, "kind": kind}
    key = key_of(manifest)
    version = manifest["metadata"].get("resourceVersion")
    return SeenStrategy(
        f"{key.namespace}/{key.name}",
        version if isinstance(version, str) else "",
        key,
        read_strategy(manifest),
    )
