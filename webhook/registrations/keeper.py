"""Keeps our registrations as they should be. Of several replicas only the leader does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import quote

from webhook.clients.discovery import Discovery, ServedResource
from webhook.clients.informer import Informer, Resource, Timing
from webhook.clients.kube import KubeClient
from webhook.model.kinds import why_never_registered
from webhook.registrations.objects import (
    PLURALS,
    SeenConfiguration,
    decode_configuration,
    path_of,
)
from webhook.registrations.target import Target, Wanted
from webhook.registrations.wanted import (
    Configuration,
    Fillings,
    build_fillings,
    needed_versions,
)
from webhook.store.served import LOOK_PERIOD_S, ServedGroups
from webhook.store.snapshot import Current, Snapshot
from webhook.telemetry.metrics import Metrics, ServerMetrics
from webhook.tls.bundle import AuthorityBundle

log = logging.getLogger("gatewright.registrations")

# Changes that come together are written together.
_GATHER_S = 0.2
# All is looked at so often although nothing was heard: it is cheap, and shows that we are alive.
_LOOK_S = 10.0


@dataclass(frozen=True, slots=True)
class RegistrationTiming:
    """In seconds: how long changes are gathered, and how often what is served is looked at."""

    gather: float = _GATHER_S
    look: float = LOOK_PERIOD_S


@dataclass(frozen=True, slots=True)
class _Built:
    """What was made of what is in force and served: all of it, and what is sure to be there."""

    snapshot: Snapshot
    served: Mapping[str, Mapping[str, ServedResource]]
    fillings: Fillings
    confirmed: Fillings


class TwoLooks:
    """
    What is served, as the last two looks together say.

    An API server that has just begun may not know a CRD yet, and what is no longer registered is
    let through unseen. What is registered for nothing matches nothing.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[Mapping[str, ServedResource]]]) -> None:
        self._fetch = fetch
        self._last: dict[str, Mapping[str, ServedResource]] = {}

    async def fetch(self, api_version: str) -> Mapping[str, ServedResource]:
        """
        Raises:
            KubeError, StoreError: the API server did not say.
        """
        found = await self._fetch(api_version)
        before = self._last.get(api_version, {})
        self._last[api_version] = found
        return {**before, **found}


class RegistrationsKeeper:
    """
    Keeps the objects of the given *names* at what *current* and *bundle* ask for.

    Objects that are not there are not made: the chart owns them, and whoever takes it away must not
    find them again.
    """

    def __init__(
        self,
        client: KubeClient,
        current: Current,
        bundle: AuthorityBundle,
        names: Mapping[Configuration, str],
        *,
        metrics: Metrics,
        server_metrics: ServerMetrics,
        timing: RegistrationTiming = RegistrationTiming(),
        watch_timing: Timing | None = None,
    ) -> None:
        self._client = client
        self._current = current
        self._bundle = bundle
        self._names = names
        self._metrics = metrics
        self._server_metrics = server_metrics
        self._timing = timing
        self._watch_timing = watch_timing
        self._changed = asyncio.Event()
        self._never: set[str] = set()
        self._built: _Built | None = None
        bundle.on_change(self._changed.set)

    def look(self) -> None:
        """Look soon at whether what is in force has changed. For the event loop's thread."""
        if self._built is None or self._built.snapshot is not self._current.snapshot:
            self._changed.set()

    async def run(self) -> NoReturn:
        """Keep them until cancelled. No failure ends it."""
        served = ServedGroups(
            TwoLooks(Discovery(self._client).resources_of).fetch,
            lambda: needed_versions(self._current.snapshot),
            self._changed.set,
            period_s=self._timing.look,
        )
        with self._watches() as watches:
            targets = {
                configuration: Target(
                    self._client, configuration, self._names[configuration], self._server_metrics
                )
                for configuration in watches
            }
            try:
                async with asyncio.TaskGroup() as group:
                    for watch in watches.values():
                        group.create_task(watch.run(), name=f"watch {watch.resource.name}")
                    group.create_task(served.run(), name="look at what is served")
                    group.create_task(
                        self._keep(watches, targets, served), name="keep registrations"
                    )
            finally:
                for target in targets.values():
                    target.end()
        raise AssertionError("unreachable")

    async def _keep(
        self,
        watches: Mapping[Configuration, Informer[SeenConfiguration]],
        targets: Mapping[Configuration, Target],
        served: ServedGroups[Mapping[str, ServedResource]],
    ) -> NoReturn:
        while True:
            await served.complete()
            self._changed.clear()
            built = self._build(served.known)
            waits = [_LOOK_S]
            for configuration, target in targets.items():
                watch = watches[configuration]
                if not watch.synced.is_set():
                    continue
                wait_s = await target.keep(
                    watch.objects.get(self._names[configuration]),
                    Wanted(
                        built.fillings[configuration],
                        self._bundle.pem,
                        built.confirmed[configuration],
                    ),
                )
                waits += [] if wait_s is None else [wait_s]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(waits)):
                    await self._changed.wait()
            await asyncio.sleep(self._timing.gather)

    def _build(self, served: Mapping[str, Mapping[str, ServedResource]]) -> _Built:
        """Anew only if something has changed."""
        snapshot = self._current.snapshot
        built = self._built
        if built is None or built.snapshot is not snapshot or built.served is not served:
            built = self._built = _Built(
                snapshot,
                served,
                build_fillings(snapshot, served),
                build_fillings(snapshot, served, only_confirmed=True),
            )
            for kind in snapshot.concerned_kinds:
                why = why_never_registered(kind)
                if why and str(kind) not in self._never:
                    self._never.add(str(kind))
                    log.warning(
                        "never registered, although there is a policy",
                        extra={"kind": str(kind), "reason": why},
                    )
        return built

    @contextlib.contextmanager
    def _watches(self) -> Iterator[Mapping[Configuration, Informer[SeenConfiguration]]]:
        """Of each object by its name, which is all that we need the right for."""
        watches: dict[Configuration, Informer[SeenConfiguration]] = {}
        for configuration, name in self._names.items():
            path = f"{path_of(configuration)}?fieldSelector=metadata.name%3D{quote(name, safe='')}"
            watches[configuration] = Informer(
                self._client,
                Resource(PLURALS[configuration], path),
                decode_configuration,
                metrics=self._metrics,
                on_event=self._changed.set,
                timing=self._watch_timing,
            )
        try:
            yield watches
        finally:
            # A replica that follows watches nothing, and has lost nothing either.
            for watch in watches.values():
                for metric in (self._metrics.watch_connected, self._metrics.watch_objects):
                    with contextlib.suppress(KeyError):
                        metric.remove(watch.resource.name)
