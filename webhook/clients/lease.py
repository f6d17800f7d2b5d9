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

# Of a Lease, what whoever holds it leads for; see `LeaderElector`.
PURPOSE = "gatewright.io/leads-for"
# Longer ones are no purpose of ours.
_PURPOSE_MAX_CHARS = 1024

# The field is a signed integer of 32 bits: the API server refuses more.
_MAX_TRANSITIONS = 2**31 - 1


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
        purpose: str = "",
        on_failure: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        *owner* is an ownerReference for a Lease that is made here. *purpose* says what the holder
        leads for: replicas that share a Lease and not the purpose are told of in the log, as what
        one of them is for is never done while the other leads. *on_failure* is called after each
        try that failed, but for those in which another replica was faster.
        """
        self._client = client
        self._name = name
        self._collection = (
            f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        )
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._identity = identity
        self._timing = timing
        self._owner = owner
        self._purpose = purpose
        self._told_purpose = ""
        self._on_failure = on_failure
        self._told = ""
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
        """Whether the Lease is ours now. A fault is said in the log once, and means no."""
        try:
            taken = await self._take()
        except KubeError as error:
            if error.status != HTTPStatus.CONFLICT:
                self._on_failure()
                self._tell(error)
            return False
        self._told = ""
        return taken

    def _tell(self, error: KubeError) -> None:
        """Not with every try: without the right, all will fail."""
        if error.reason != self._told:
            self._told = error.reason
            log.warning(
                "the lease can't be read or written",
                extra={"lease": self._name, "error": str(error)},
            )

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
            self._compare_purpose(lease, holder)
            if self._clock() - self._seen_at < self._timing.duration:
                return False
            log.info("the leader has gone", extra={"lease": self._name, "identity": holder})
        is_new = holder != self._identity
        held = self._held(spec, is_new=is_new)
        self._write_purpose(lease)
        try:
            await self._request("PUT", self._path, {**lease, "spec": {**spec, **held}})
        except KubeError as error:
            # What somebody has written beside it does not go with it.
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            held = self._held(spec, is_new=True)
            await self._request("PUT", self._path, {**lease, "spec": held})
        self._see(self._identity, held["renewTime"])
        return True

    def _write_purpose(self, lease: dict[str, Any]) -> None:
        if self._purpose:
            metadata = lease.setdefault("metadata", {})
            annotations = metadata.get("annotations")
            metadata["annotations"] = {
                **(annotations if isinstance(annotations, dict) else {}),
                PURPOSE: self._purpose,
            }

    def _compare_purpose(self, lease: Mapping[str, Any], holder: str) -> None:
        annotations = (lease.get("metadata") or {}).get("annotations")
        theirs = annotations.get(PURPOSE) if isinstance(annotations, dict) else None
        if not self._purpose or not isinstance(theirs, str) or theirs == self._purpose:
            self._told_purpose = ""
        elif theirs != self._told_purpose:
            self._told_purpose = theirs
            log.warning(
                "the leader is of another release, and does nothing for this one: give each its"
                " own --deployment, or a namespace of its own",
                extra={
                    "lease": self._name,
                    "identity": holder,
                    "leadsFor": theirs[:_PURPOSE_MAX_CHARS],
                    "wanted": self._purpose,
                },
            )

    def _see(self, holder: str, renewed: str) -> None:
        if (holder, renewed) != self._seen:
            self._seen = (holder, renewed)
            self._seen_at = self._clock()

    def _new(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self._name}
        if self._owner is not None:
            metadata["ownerReferences"] = [dict(self._owner)]
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": self._held({"leaseTransitions": -1}, is_new=True),
        }
        self._write_purpose(lease)
        return lease

    def _held(self, before: Mapping[str, Any], *, is_new: bool) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        held: dict[str, Any] = {
            "holderIdentity": self._identity,
            # A whole number of at least one is asked for.
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "renewTime": now,
        }
        if is_new:
            held["acquireTime"] = now
            held["leaseTransitions"] = _next_number(before.get("leaseTransitions"))
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


def _next_number(transitions: Any) -> int:
    """Of the terms. Whoever edits it must not keep the next leader from writing its own."""
    is_number = isinstance(transitions, int) and not isinstance(transitions, bool)
    return transitions + 1 if is_number and -1 <= transitions < _MAX_TRANSITIONS else 0
