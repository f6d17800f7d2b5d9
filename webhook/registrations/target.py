"""One of the two objects: whether it is as it should be, and what is done where it isn't."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from webhook.errors import KubeError
from webhook.registrations.objects import (
    FIELD_MANAGER,
    SeenConfiguration,
    apply_body,
    as_seen,
    decode_configuration,
    differences,
    missing_entries,
    path_of,
)
from webhook.registrations.wanted import Configuration, Filling
from webhook.telemetry.metrics import ServerMetrics

log = logging.getLogger("gatewright.registrations")

APPLY = "application/apply-patch+yaml"

# So many repairs are made at once: an operator tries things out. Whoever goes on is answered twice
# a minute, and told of: if he answers as well, neither of us must cost the API server much.
REPAIRS_AT_ONCE = 6
REPAIR_PERIOD_S = 30.0

# After a write that failed, unless something changes before.
_RETRY_S = 15.0
# So often everything is asked for again, where the API server did not take all of it.
_REFUSED_S = 300.0

# After one that met another's: what he wrote is on its way to us.
_CONFLICT_S = 1.0


# What was sent can't be stored, now or later.
_INVALID = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


class Writer(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = ...,
    ) -> bytes: ...


class Repairs:
    """How many repairs may be made: one more each period, up to a number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(REPAIRS_AT_ONCE)
        self._counted_at = clock()
        self._contested = False

    @property
    def wait_s(self) -> float:
        """How long the next one has to wait, in seconds."""
        self._count()
        return max(0.0, 1.0 - self._left) * REPAIR_PERIOD_S

    @property
    def are_contested(self) -> bool:
        """Whether there were too many, and no quiet time of two periods since."""
        self._count()
        self._contested = self._left < 1.0 or (self._contested and self._left < 2.0)
        return self._contested

    def note(self) -> None:
        """One was made."""
        self._count()
        self._left -= 1.0

    def _count(self) -> None:
        now = self._clock()
        grown = self._left + (now - self._counted_at) / REPAIR_PERIOD_S
        self._left, self._counted_at = min(float(REPAIRS_AT_ONCE), grown), now


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    What an object should say.

    *confirmed* is what is left of *fillings* without what may not be there; None if that is all.
    """

    fillings: Mapping[str, Filling]
    ca_pem: bytes | None
    confirmed: Mapping[str, Filling] | None = None


class _Fallback(IntEnum):
    """What is asked for, where the API server takes no more: one bad rule must not stop all."""

    NOTHING_LESS = 0
    CONFIRMED = 1
    # Rules as they are there. Without the authority nobody could call us at all.
    AUTHORITY = 2


class Target:
    """Keeps one of the objects, whose *name* the chart gives, as it is wanted."""

    def __init__(
        self,
        client: Writer,
        configuration: Configuration,
        name: str,
        metrics: ServerMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._name = name
        self._metrics = metrics
        self._repairs = Repairs(clock)
        # What was written last, into which object, and what came of it.
        self._written: Wanted | None = None
        self._written_into: SeenConfiguration | None = None
        self._result: SeenConfiguration | None = None
        self._clock = clock
        # What is wanted, and what is asked for instead since that was refused.
        self._asked: Wanted | None = None
        self._refused_at = 0.0
        self._fallback = _Fallback.NOTHING_LESS
        # What was said in the log, so that it is said once.
        self._told: set[str] = set()

    async def keep(self, seen: SeenConfiguration | None, wanted: Wanted) -> float | None:
        """
        Make the object, of which *seen* is the newest that the watch has told, as it is *wanted*.

        Returns after how many seconds to come again although nothing has changed; None: never.
        """
        self._metrics.registration_present.labels(self._configuration).set(seen is not None)
        if seen is None:
            self._tell("absent", "the registration is not there; nobody calls for reviews")
            return None
        self._forget("absent")
        before, result = self._written_into, self._result
        if result is not None and seen.version == (before and before.version):
            # The watch is behind.
            seen = result
        wanted = self._reduced(wanted, seen)
        missing = missing_entries(seen, wanted.fillings)
        if missing:
            self._tell(f"missing {missing}", "the registration lacks entries", entries=missing)
        lacking = differences(seen, wanted.fillings, wanted.ca_pem)
        contested = self._repairs.are_contested
        self._metrics.registration_contested.labels(self._configuration).set(contested)
        if not lacking:
            if self._fallback is _Fallback.NOTHING_LESS:
                self._metrics.registration_time.labels(self._configuration).set_to_current_time()
            if not contested:
                self._forget("contested")
            return None
        if result is not None and seen.version == result.version and wanted == self._written:
            # Not what we wrote, although nobody has written since.
            return None
        is_repair = wanted == self._written and before is not None and before.uid == seen.uid
        if is_repair and self._repairs.wait_s:
            self._tell(
                "contested",
                "somebody else keeps changing the registration; it is put right less often",
                writers=seen.writers,
                differences=lacking,
            )
            return self._repairs.wait_s
        return await self._write(seen, wanted, lacking, is_repair=is_repair)

    def end(self) -> None:
        """Whoever leads now shows how it is."""
        for gauge in (
            self._metrics.registration_present,
            self._metrics.registration_contested,
            self._metrics.registration_time,
        ):
            gauge.clear()

    async def _write(
        self, seen: SeenConfiguration, wanted: Wanted, lacking: list[str], *, is_repair: bool
    ) -> float | None:
        if is_repair:
            self._repairs.note()
        try:
            answer = await self._client.request(
                "PATCH",
                f"{path_of(self._configuration)}/{quote(self._name, safe='')}",
                params={"fieldManager": FIELD_MANAGER, "force": "true"},
                body=apply_body(self._configuration, seen, wanted.fillings, wanted.ca_pem),
                content_type=APPLY,
            )
            result = decode_configuration(answer)
        except (KubeError, msgspec.DecodeError) as error:
            return self._failed(error)
        if self._fallback is _Fallback.NOTHING_LESS:
            self._forget("refused")
        self._forget("failed")
        self._written, self._written_into, self._result = wanted, seen, result
        self._count("repaired" if is_repair else "written")
        extra = {"configuration": self._name, "differences": lacking}
        if is_repair:
            log.warning(
                "the registration was changed by somebody else, and put right",
                extra={**extra, "writers": seen.writers},
            )
        else:
            log.info("the registration was filled in", extra=extra)
        left = differences(result, wanted.fillings, wanted.ca_pem)
        if left:
            self._tell(f"left {left}", "the registration did not take everything", differences=left)
        return 0.0

    def _reduced(self, wanted: Wanted, seen: SeenConfiguration) -> Wanted:
        """What to ask for, after the API server refused *wanted*; all of it if it didn't."""
        is_old = self._clock() - self._refused_at > _REFUSED_S
        if wanted != self._asked or is_old:
            self._asked = wanted
            self._fallback = _Fallback.NOTHING_LESS
        match self._fallback:
            case _Fallback.CONFIRMED if wanted.confirmed is not None:
                left_out = sorted(_resources(wanted.fillings) - _resources(wanted.confirmed))
                self._tell(f"without {left_out}", "not registered", resources=left_out)
                return Wanted(wanted.confirmed, wanted.ca_pem)
            case _Fallback.AUTHORITY:
                return Wanted(as_seen(seen, wanted.fillings), wanted.ca_pem)
            case _:
                return wanted

    def _fall_back(self) -> None:
        self._refused_at = self._clock()
        asked = self._asked
        has_less = asked is not None and asked.confirmed not in (None, asked.fillings)
        if self._fallback is _Fallback.NOTHING_LESS and has_less:
            self._fallback = _Fallback.CONFIRMED
        else:
            self._fallback = _Fallback.AUTHORITY

    def _failed(self, error: KubeError | msgspec.DecodeError) -> float:
        if isinstance(error, KubeError) and error.status in (
            HTTPStatus.NOT_FOUND,
            HTTPStatus.CONFLICT,
        ):
            # It has changed or is gone: the watch will say so.
            self._count("conflict")
            return _CONFLICT_S
        self._count("failed")
        is_invalid = isinstance(error, KubeError) and error.status in _INVALID
        if is_invalid and self._fallback is not _Fallback.AUTHORITY:
            self._tell(
                "refused",
                "the API server doesn't take all that is to be registered; the rest goes on",
                problem=str(error)[:500],
            )
            self._fall_back()
            return 0.0
        self._tell("failed", "the registration can't be written", problem=str(error)[:500])
        return _RETRY_S

    def _count(self, outcome: str) -> None:
        self._metrics.registration_writes.labels(self._configuration, outcome).inc()

    def _tell(self, what: str, text: str, **extra: Any) -> None:
        if what not in self._told:
            self._told.add(what)
            log.warning(text, extra={"configuration": self._name, **extra})

    def _forget(self, what: str) -> None:
        self._told.discard(what)


def _resources(fillings: Mapping[str, Filling]) -> set[str]:
    """What *fillings* have rules for, as texts like `apps/v1/deployments`."""
    return {
        "/".join(filter(None, (group, version, resource)))
        for filling in fillings.values()
        for rule in filling.rules
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }
