"""
Which of several replicas leads: the one that holds a Lease and keeps renewing it.

Times are measured on the own monotonic clock only: what another replica wrote as its time is
never compared with ours, as clocks differ and jump. A Lease is free when it hasn't changed under
our eyes for as long as it lasts.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from webhook.errors import KubeError

log = logging.getLogger("gatewright.lease")

_RELEASE_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """
    How long things take, in seconds.

    A leader that could not renew for *renew_deadline* stops leading, well before the others may
    take over after *duration*. Between two tries lies *retry*, and up to a fifth more by chance.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


class LeaseCalls(Protocol):
    """What is needed of a client of the API server."""

    async def request(
        self, method: str, path: str, *, body: Any = None, timeout_s: float = 10.0
    ) -> bytes:
        """The body of the answer to one call."""


def new_identity() -> str:
    """A name for this process: a restarted one must not take itself for the one before."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Takes part in an election for as long as `run` runs."""

    def __init__(
        self,
        client: LeaseCalls,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming = LeaseTiming(),
        owner: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*owner* is an ownerReference for a Lease that is made here."""
        self._client = client
        self._name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases"
        self._path = f"{self._collection}/{quote(name)}"
        self._identity = identity
        self._timing = timing
        self._owner = owner
        self._clock = clock
        self._leads = False
        # The state of the Lease that was last seen to be new, and when.
        self._seen: object = None
        self._seen_at = 0.0

    @property
    def leads(self) -> bool:
        """Whether this replica leads now."""
        return self._leads

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """
        Wait for the Lease, and run *lead* while it is held; anew each time that it is won.

        *lead* is cancelled when the Lease is lost. Ends when *lead* does, with its exception if it
        has one, or when cancelled; the Lease is given up then, so that another needn't wait.
        """
        try:
            while True:
                await self._acquire()
                if await self._lead(lead):
                    return
                log.warning("no longer the leader", extra={"lease": self._name})
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while True:
            if await self._try():
                break
            await asyncio.sleep(self._pause_s())
        self._leads = True
        log.info("leading", extra={"lease": self._name, "identity": self._identity})

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Whether *lead* ended by itself; False if the Lease was lost meanwhile."""
        work = asyncio.ensure_future(lead())
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return False
            await work
            return True
        finally:
            self._leads = False
            for task in (work, renewing):
                task.cancel()
            await asyncio.gather(work, renewing, return_exceptions=True)

    async def _renew(self) -> None:
        """Keep the Lease until that is no longer possible."""
        renewed_at = self._clock()
        while True:
            await asyncio.sleep(self._pause_s())
            asked_at = self._clock()
            left_s = renewed_at + self._timing.renew_deadline - asked_at
            if left_s <= 0:
                return
            try:
                async with asyncio.timeout(left_s):
                    held = await self._try()
            except TimeoutError:
                return
            if held:
                renewed_at = asked_at
            elif self._is_others():
                return

    def _pause_s(self) -> float:
        return self._timing.retry * random.uniform(1.0, 1.2)

    def _is_others(self) -> bool:
        return isinstance(self._seen, tuple) and self._seen[0] not in ("", self._identity)

    async def _try(self) -> bool:
        """Whether the Lease is ours now. A fault is said in the log, and means no."""
        try:
            return await self._take()
        except KubeError as error:
            if error.status != HTTPStatus.CONFLICT:
                log.warning(
                    "the lease can't be read or written",
                    extra={"lease": self._name, "error": str(error)},
                )
            return False

    async def _take(self) -> bool:
        try:
            lease, spec = await self._request("GET", self._path)
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            await self._request("POST", self._collection, self._new())
            self._see(self._identity, "")
            return True
        holder = str(spec.get("holderIdentity") or "")
        self._see(holder, str(spec.get("renewTime") or ""))
        if holder not in ("", self._identity):
            if self._clock() - self._seen_at < self._timing.duration:
                return False
            log.info("the leader has gone", extra={"lease": self._name, "identity": holder})
        lease["spec"] = {**spec, **self._held(spec, is_new=holder != self._identity)}
        await self._request("PUT", self._path, lease)
        self._see(self._identity, lease["spec"]["renewTime"])
        return True

    def _see(self, holder: str, renewed: str) -> None:
        if (holder, renewed) != self._seen:
            self._seen = (holder, renewed)
            self._seen_at = self._clock()

    def _new(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self._name}
        if self._owner is not None:
            metadata["ownerReferences"] = [dict(self._owner)]
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": self._held({"leaseTransitions": -1}, is_new=True),
        }

    def _held(self, before: Mapping[str, Any], *, is_new: bool) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        held: dict[str, Any] = {
            "holderIdentity": self._identity,
            # A whole number of at least one is asked for.
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "renewTime": now,
        }
        if is_new:
            changes = before.get("leaseTransitions")
            held["acquireTime"] = now
            held["leaseTransitions"] = (changes if isinstance(changes, int) else 0) + 1
        return held

    async def _release(self) -> None:
        """Give the Lease up, if it is ours: the next leader needn't wait for it to run out."""
        if self._seen is None:
            return
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                lease, spec = await self._request("GET", self._path)
                if spec.get("holderIdentity") != self._identity:
                    return
                lease["spec"] = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._request("PUT", self._path, lease)
        except (KubeError, TimeoutError) as error:
            # It runs out by itself.
            log.info("the lease was not given up", extra={"error": str(error)})

    async def _request(
        self, method: str, path: str, body: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """
        The Lease that a call answers with, and its spec.

        Raises:
            KubeError: the call failed, or the answer is none of an API server, but a proxy's page.
        """
        answer = await self._client.request(
            method, path, body=body, timeout_s=self._timing.renew_deadline / 2
        )
        try:
            lease = orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise KubeError(0, "Unreadable", f"no answer of an API server: {error}") from None
        is_lease = isinstance(lease, dict) and lease.get("kind") == "Lease"
        spec = (lease.get("spec") or {}) if is_lease else None
        if not isinstance(spec, dict):
            raise KubeError(0, "Unreadable", "the answer is no Lease")
        return lease, spec
