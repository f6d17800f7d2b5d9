"""
Authority and certificate in one Secret of the cluster, which all replicas keep and follow.

The Secret is the truth: whoever finds none makes one, whoever was too late reads it again, and a
write counts only if nobody has written since we read. Each replica looks at it every few seconds,
and any of them does the step that is due.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from webhook.errors import CertificateError, KubeError, WebhookError
from webhook.telemetry.metrics import Metrics
from webhook.tls.bundle import HeldBundle
from webhook.tls.held import (
    CERTIFICATE,
    KEY,
    NAMES,
    Held,
    bundle_pem,
    find_voucher,
    read_certificates,
    read_held,
    secret_data,
)
from webhook.tls.rotation import Lifetimes, Step, next_step

log = logging.getLogger("gatewright.tls")

# Who has it is ours to write, and nobody else's Secret is.
LABELS = {"gatewright.io/certificates": "own"}

# "Every replica follows within seconds", at the price of one small read from each.
_POLL_MAX_S = 5.0
_BACK_OFF_MAX_S = 10.0

# Gives an ownerReference for a Secret that is made here, or None.
Owner = Callable[[], Awaitable[Mapping[str, Any] | None]]


class SecretCalls(Protocol):
    """What is needed of a client of the API server."""

    async def request(
        self, method: str, path: str, *, body: Any = None, timeout_s: float = 10.0
    ) -> bytes:
        """The body of the answer to one call."""


@dataclass(frozen=True, slots=True)
class ServedPair:
    """What to serve: certificate (with its chain) and key in PEM, and until when each lasts."""

    certificate_pem: bytes
    key_pem: bytes
    bundle_pem: bytes
    authority_not_after: datetime


class _WrittenError(Exception):
    """Somebody else has written first."""


async def _nobody() -> None:
    return None


def _none_found(_certificate_pem: bytes, _key_pem: bytes) -> str:
    return ""


class SecretKeeper:
    """Keeps one Secret and hands on what it holds, for as long as `run` runs."""

    def __init__(
        self,
        client: SecretCalls,
        *,
        namespace: str,
        name: str,
        hosts: Sequence[str],
        lifetimes: Lifetimes,
        take: Callable[[ServedPair], None],
        find_fault: Callable[[bytes, bytes], str] = _none_found,
        metrics: Metrics,
        owner: Owner = _nobody,
        poll_s: float | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """
        *take* is given each usable pair, once. If it raises `WebhookError`, all that was served
        stays, and it is given the pair again. *find_fault* says of a certificate and its key why
        nobody can serve them; ``""`` if somebody can. *poll_s* is the time between two looks, in
        seconds; None: as *lifetimes* ask for.
        """
        self.bundle = HeldBundle()
        self._client = client
        self._collection = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets"
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._name = name
        self._shown = f"Secret {namespace}/{name}"
        self._hosts = hosts
        self._lifetimes = lifetimes
        self._take = take
        self._find_fault = find_fault
        self._metrics = metrics
        self._owner = owner
        self._clock = clock
        # A new authority is in every replica long before it signs.
        quarter_s = lifetimes.distribution.total_seconds() / 4
        self._poll_s = min(_POLL_MAX_S, max(0.5, quarter_s)) if poll_s is None else poll_s
        # What is served now, all of it, if it is ours: a Secret that is lost is written again.
        self._kept: Mapping[str, bytes] = {}
        self._served: Mapping[str, bytes] = {}
        self._has_pair = asyncio.Event()
        self._writes = True
        self._said = ""
        # When each authority was first seen here, by its serial number. A clock that jumps is none
        # to go by.
        self._seen_at_s: dict[int, float] = {}
        self._refused: Mapping[str, bytes] = {}
        self.obstacle = f"waiting for the certificate in {self._shown}"

    async def first(self) -> None:
        """Wait until there is a pair that is served. `obstacle` says what is in the way."""
        await self._has_pair.wait()

    def stop_writing(self) -> None:
        """Only follow from now on: who is about to end must not bring back what was deleted."""
        self._writes = False

    async def run(self) -> None:
        """Keep and follow the Secret until cancelled."""
        failures = 0
        while True:
            try:
                pause_s = await self._keep()
                failures = 0
            except Exception as error:  # noqa: BLE001  # whatever is in a Secret, see below
                # It must not end the one who could mend it.
                failures += 1
                pause_s = min(_BACK_OFF_MAX_S, 2.0 ** min(failures, 6) / 4)
                self._say(f"{self._shown} {_problem(error)}")
            await asyncio.sleep(pause_s * random.uniform(0.9, 1.1))

    async def _keep(self) -> float:
        """Look once, and do what is due. How long to wait until the next look, in seconds."""
        # Who has served nothing yet is waited for. The others meet at the same moment, and most of
        # them find the step done when their turn comes.
        is_urgent = not self._served
        try:
            again = await self._look(may_write=is_urgent)
            if again is None:
                await asyncio.sleep(random.uniform(0.0, self._poll_s))
                again = await self._look(may_write=True)
        except _WrittenError:
            return 0.05
        if again is None:
            return self._poll_s
        left_s = (again - self._clock()).total_seconds()
        return min(self._poll_s, max(0.1, left_s))

    async def _look(self, *, may_write: bool) -> datetime | None:
        """When to look again; None if a step is due that was not done."""
        now = self._clock()
        secret = await self._read()
        if secret is not None and not _is_ours(secret):
            return self._follow(secret, now)
        found = secret_data(secret) if secret is not None else {}
        held = self._read_held(found, now)
        if secret is not None:
            self._use(found, held, now, is_ours=True)
        step = self._step(found, held, now)
        if step.data is None:
            self._say("")
            return step.again
        if not may_write or not self._writes:
            return None
        await self._write(secret, step)
        written = {**found, **step.data}
        self._use(written, self._read_held(written, now), now, is_ours=True)
        self._say("")
        return step.again

    def _step(self, found: Mapping[str, bytes], held: Held, now: datetime) -> Step:
        if held.leaf is None and self._kept:
            kept = read_held(self._kept, now)
            if kept.leaf is not None:
                # What we serve is what callers know.
                step = self._next_step(kept, now)
                why = "the one that is served is written again"
                lost = "; ".join(held.problems) if found else "it was deleted"
                return Step({**self._kept, **(step.data or {})}, (f"{lost}: {why}",), step.again)
        return self._next_step(held, now)

    def _next_step(self, held: Held, now: datetime) -> Step:
        known_since = None
        if held.signer is not None:
            serial = held.signer.certificate.serial_number
            now_s = time.monotonic()
            seen_at_s = self._seen_at_s.get(serial, now_s)
            self._seen_at_s = {serial: seen_at_s}
            known_since = now - timedelta(seconds=now_s - seen_at_s)
        return next_step(held, now, self._lifetimes, self._hosts, known_since=known_since)

    def _follow(self, secret: Mapping[str, Any], now: datetime) -> datetime:
        """Serve from a *secret* that is somebody else's, and never write it."""
        data = secret_data(secret)
        held = self._read_held(data, now)
        label = ", ".join(f"{key}={value}" for key, value in LABELS.items())
        if held.leaf is None:
            raise CertificateError(
                f"is not ours (it has no label {label}) and holds nothing to serve"
                f" ({'; '.join(held.problems)}); delete it, or name another one"
            )
        self._use(data, held, now, is_ours=False)
        self._say(f"{self._shown} is not ours (it has no label {label}): followed, never renewed")
        return held.leaf.certificate.not_valid_after_utc

    def _read_held(self, data: Mapping[str, bytes], now: datetime) -> Held:
        """As `read_held`; a pair that can't be served is none."""
        held = read_held(data, now)
        if held.leaf is None or _chosen(data) == self._served:
            return held
        fault = self._find_fault(data[CERTIFICATE], data[KEY])
        if not fault:
            return held
        problem = f"{CERTIFICATE} with {KEY} can't be served: {fault}"
        return replace(held, leaf=None, problems=(*held.problems, problem))

    def _use(self, data: Mapping[str, bytes], held: Held, now: datetime, *, is_ours: bool) -> None:
        """Serve what *held* has, if it is something else than what is served."""
        chosen = _chosen(data)
        if held.leaf is None:
            self._refuse(chosen, "; ".join(held.problems))
            return
        if chosen != self._served and not self._is_too_early(held, now):
            authority = find_voucher(read_certificates(data[CERTIFICATE]), held.authorities)
            assert authority is not None  # or it would be no leaf
            pair = ServedPair(
                data[CERTIFICATE],
                data[KEY],
                bundle_pem(held.authorities),
                authority.not_valid_after_utc,
            )
            try:
                self._take(pair)
            except WebhookError as error:
                self._refuse(chosen, str(error))
                return
            self._served = chosen
            for problem in held.problems:
                log.warning("%s: %s", self._shown, problem)
        self._kept = chosen if is_ours else {}
        self.obstacle = ""
        self._has_pair.set()
        self.bundle.replace(bundle_pem(held.authorities))

    def _is_too_early(self, held: Held, now: datetime) -> bool:
        """
        Whether the certificate begins later while the one in use is good, and known by the bundle.

        Whoever made it has a clock that is ahead. Ours may be behind, but callers have not
        complained of what is in use.
        """
        if held.leaf is None or held.leaf.certificate.not_valid_before_utc <= now:
            return False
        if not self._served:
            return False
        chain = read_certificates(self._served[CERTIFICATE])
        leaf = chain[0]
        is_good = leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc
        return is_good and find_voucher(chain, held.authorities) is not None

    def _refuse(self, data: Mapping[str, bytes], problem: str) -> None:
        """Say once that *data* is of no use."""
        if data == self._refused:
            return
        self._refused = data
        self._metrics.certificate_failures.inc()
        what = "the one in use stays" if self._served else "there is none to serve yet"
        text = f"{self._shown} has no usable certificate, {what}: {problem}"
        log.error(text)
        if not self._served:
            self.obstacle = text

    async def _read(self) -> dict[str, Any] | None:
        try:
            answer = await self._client.request("GET", self._path)
        except KubeError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        try:
            secret = orjson.loads(answer)
        except orjson.JSONDecodeError:
            secret = None
        if not isinstance(secret, dict) or secret.get("kind") != "Secret":
            raise KubeError(0, "Unreadable", "the answer is no Secret")
        return secret

    async def _write(self, secret: dict[str, Any] | None, step: Step) -> None:
        """
        Write *step* into *secret*, or make it where there is none.

        Raises:
            _WrittenError: somebody else has written first.
            KubeError: the API server refused, or did not answer.
        """
        owner = await self._owner()
        body = _body(secret, self._name, step.data or {}, owner)
        method, path = ("POST", self._collection) if secret is None else ("PUT", self._path)
        try:
            await self._client.request(method, path, body=body)
        except KubeError as error:
            # Between reading and writing it may have been deleted as well.
            gone = secret is not None and error.status == HTTPStatus.NOT_FOUND
            if gone or error.status == HTTPStatus.CONFLICT:
                self._metrics.certificate_writes.labels("conflict").inc()
                raise _WrittenError from None
            self._metrics.certificate_writes.labels("failed").inc()
            raise
        self._metrics.certificate_writes.labels("written").inc()
        log.info("%s is written: %s", self._shown, "; ".join(step.why))

    def _say(self, obstacle: str) -> None:
        """Log *obstacle* when it is another one; it is in the way only until a pair is served."""
        if not self._has_pair.is_set() and obstacle:
            self.obstacle = obstacle
        if obstacle == self._said:
            return
        self._said = obstacle
        if obstacle:
            log.warning(obstacle)
        else:
            log.info("%s is as it should be again", self._shown)


def _problem(error: Exception) -> str:
    if isinstance(error, CertificateError):
        return str(error)
    if isinstance(error, KubeError):
        return f"can't be read or written: {error}"
    # The text of a library may quote what it has read.
    log.error("fault while a Secret is kept", exc_info=error)
    return f"can't be kept: {type(error).__name__}"


def _chosen(data: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Of a Secret what is about certificates."""
    return {name: data[name] for name in NAMES if name in data}


def _is_ours(secret: Mapping[str, Any]) -> bool:
    labels = (secret.get("metadata") or {}).get("labels") or {}
    return all(labels.get(key) == value for key, value in LABELS.items())


def _body(
    secret: Mapping[str, Any] | None,
    name: str,
    data: Mapping[str, bytes],
    owner: Mapping[str, Any] | None,
) -> dict[str, Any]:
    if secret is None:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": LABELS},
            "type": "kubernetes.io/tls",
        }
    metadata = dict(secret["metadata"])
    if owner is not None and not metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [dict(owner)]
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {**secret, "metadata": metadata, "data": {**(secret.get("data") or {}), **encoded}}
