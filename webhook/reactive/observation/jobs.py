"""
Whether a Job makes another pod in the place of one that is evicted.

To a Job that is a pod which failed: it makes so many others as its `backoffLimit` says, unless its
`podFailurePolicy` says something about disruptions (Kubernetes: "Jobs", "Pod failure policy").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from webhook.model.counts import read_count

# On a pod of an indexed Job, where failures count by index.
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"

_DEFAULT_BACKOFF_LIMIT = 6
_ENDING = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
_DISRUPTION = "DisruptionTarget"
# Of a container that is told to end, or is ended, by signals 15 and 9.
_SIGNALLED = frozenset({143, 137})


class Retries(msgspec.Struct, frozen=True, gc=False):
    """
    How many pods of a Job may fail from now on so that it still makes another one: *left* of all,
    and *per_index* of one index since the beginning; None is no bound. *never* is why it makes none
    at all, ``""`` where it may.
    """

    left: int | None = None
    per_index: int | None = None
    never: str = ""

    def refusal(self, annotations: Mapping[str, Any]) -> str:
        """Why there would be no other pod for one with these *annotations*; ``""`` if there is."""
        if self.never:
            return self.never
        if self.left is not None and self.left < 1:
            return "no pod of it may fail any more (backoffLimit)"
        if self.per_index is None:
            return ""
        failed = read_count(annotations.get(INDEX_FAILURES, "0"))
        if failed is None:
            return f"{INDEX_FAILURES} of the pod is no number (backoffLimitPerIndex)"
        if failed >= self.per_index:
            return "no pod of its index may fail any more (backoffLimitPerIndex)"
        return ""


class _ExitCodes(msgspec.Struct, gc=False):
    operator: str = ""
    values: list[int] | None = None

    @property
    def fits_a_signal(self) -> bool:
        values = self.values or ()
        if self.operator == "In":
            return not _SIGNALLED.isdisjoint(values)
        return not _SIGNALLED.issubset(values)


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = "True"


class _Rule(msgspec.Struct, gc=False):
    action: str = ""
    exit_codes: _ExitCodes | None = msgspec.field(default=None, name="onExitCodes")
    conditions: list[_Condition] | None = msgspec.field(default=None, name="onPodConditions")

    @property
    def fits_an_eviction(self) -> bool:
        if self.exit_codes is not None:
            return self.exit_codes.fits_a_signal
        return _holds(self.conditions, (_DISRUPTION,))


class _FailurePolicy(msgspec.Struct, gc=False):
    rules: list[_Rule] | None = None


class JobSpec(msgspec.Struct, gc=False):
    backoff_limit: int | None = msgspec.field(default=None, name="backoffLimit")
    backoff_limit_per_index: int | None = msgspec.field(default=None, name="backoffLimitPerIndex")
    completions: int | None = None
    suspend: bool | None = None
    failure_policy: _FailurePolicy | None = msgspec.field(default=None, name="podFailurePolicy")


class _Uncounted(msgspec.Struct, gc=False):
    failed: list[str] | None = None


class JobStatus(msgspec.Struct, gc=False):
    failed: int | None = None
    succeeded: int | None = None
    conditions: list[_Condition] | None = None
    uncounted: _Uncounted | None = msgspec.field(default=None, name="uncountedTerminatedPods")


def read_retries(spec: JobSpec, status: JobStatus) -> Retries:
    """What *spec* allows from now on."""
    if _holds(status.conditions, _ENDING):
        return Retries(never="it ends")
    if spec.suspend:
        return Retries(never="it is suspended")
    if spec.completions is None and status.succeeded:
        return Retries(never="a pod of it has succeeded, and it gives no number of completions")
    match _action(spec.failure_policy):
        case "Ignore":
            return Retries()
        case "FailJob" | "FailIndex" as action:
            return Retries(never=f"its podFailurePolicy wants {action} for an evicted pod")
    uncounted = status.uncounted and status.uncounted.failed
    failed = (status.failed or 0) + len(uncounted or ())
    limit = spec.backoff_limit
    if limit is None:
        # The API server fills it in. With a limit for each index it means all that there are.
        limit = _DEFAULT_BACKOFF_LIMIT if spec.backoff_limit_per_index is None else None
    return Retries(None if limit is None else limit - failed, spec.backoff_limit_per_index)


def _action(policy: _FailurePolicy | None) -> str:
    """Of the first rule that an evicted pod fits, as far as can be told."""
    rules = (policy and policy.rules) or ()
    return next((rule.action for rule in rules if rule.fits_an_eviction), "Count")


def _holds(conditions: Iterable[_Condition] | None, types: Iterable[str]) -> bool:
    return any(each.type in types and each.status == "True" for each in conditions or ())
