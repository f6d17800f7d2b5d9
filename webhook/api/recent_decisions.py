"""The last denials and mutations of this replica, for `GET /api/v1/decisions`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from webhook.admission.texts import to_json
from webhook.model.decision import Outcome

# Some hours of a usual cluster. Most records have about 1 KiB, none more than 15.
MAX_DECISIONS = 2000
MAX_BYTES = 4 * 2**20

KEPT_OUTCOMES = (Outcome.DENIED.value, Outcome.MUTATED.value)


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """Which decisions are wanted; what is left out (``""``, None) excludes nothing."""

    outcome: str = ""
    namespace: str = ""
    policy: str = ""
    # A kind alone, or with its group and version as in `GroupVersionKind.__str__`.
    kind: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class KeptDecision:
    """One decision record as JSON, with what it is searched by. *number* counts from 1."""

    number: int
    time: datetime
    outcome: str
    namespace: str
    kinds: tuple[str, str]
    policies: frozenset[str]
    json: bytes

    def fits(self, wanted: DecisionFilter) -> bool:
        return (
            wanted.outcome in ("", self.outcome)
            and wanted.namespace in ("", self.namespace)
            and (not wanted.policy or wanted.policy in self.policies)
            and (not wanted.kind or wanted.kind in self.kinds)
            and (wanted.since is None or self.time >= wanted.since)
        )


class RecentDecisions:
    """Keeps a bounded number of records, and a bounded size; the oldest go first."""

    def __init__(self, max_decisions: int = MAX_DECISIONS, max_bytes: int = MAX_BYTES) -> None:
        self._max_decisions = max_decisions
        self._max_bytes = max_bytes
        self._kept: deque[KeptDecision] = deque()
        self._used_bytes = 0
        self._count = 0

    def add(self, record: Mapping[str, Any], time: datetime | None = None) -> None:
        """Keep *record* (`admission.record.decision_record`) if it is a denial or a mutation."""
        if record["outcome"] not in KEPT_OUTCOMES:
            return
        time = time or datetime.now(UTC)
        stamp = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._count += 1
        kept = KeptDecision(
            number=self._count,
            time=time,
            outcome=record["outcome"],
            namespace=record["namespace"],
            kinds=_kinds_of(record["kind"]),
            policies=_policies_of(record),
            json=to_json({"time": stamp, **record}),
        )
        self._kept.append(kept)
        self._used_bytes += len(kept.json)
        while len(self._kept) > self._max_decisions or self._used_bytes > self._max_bytes:
            self._used_bytes -= len(self._kept.popleft().json)

    def find(self, wanted: DecisionFilter, *, before: int | None = None) -> Iterator[KeptDecision]:
        """Those that fit, the newest first; with *before*, those of a lower number only."""
        for kept in reversed(self._kept):
            if (before is None or kept.number < before) and kept.fits(wanted):
                yield kept


def _kinds_of(kind: Mapping[str, str]) -> tuple[str, str]:
    parts = (kind["group"], kind["version"], kind["kind"])
    return kind["kind"], "/".join([part for part in parts if part])


def _policies_of(record: Mapping[str, Any]) -> frozenset[str]:
    """The policies that changed or refused something. Those that were only asked don't count."""
    return frozenset(
        [
            entry["policy"]
            for key in ("violations", "changes", "previews")
            for entry in record.get(key, ())
        ]
    )


def decode_kept(kept: KeptDecision) -> Any:
    """The record as it was."""
    return orjson.loads(kept.json)
