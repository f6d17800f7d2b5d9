"""The CustomResourceDefinition of GpuRecommendation, where the reconciler keeps what it knows."""

from __future__ import annotations

from typing import Any

from webhook.catalog.crd_parts import (
    FREE,
    Schema,
    column,
    conditions,
    define_crd,
    entries,
    fields,
    flag,
    integer,
    items,
    text,
    time,
)
from webhook.model.kinds import POLICY_GROUP
from webhook.model.rightsizing.policies import Direction, Mode, Scheduler, Signal
from webhook.model.rightsizing.recommendations import KIND, PLURAL, Change

_AMOUNT = "An amount, in whole GPUs."
_REASON = "A reason."


def build_recommendation_crd() -> dict[str, Any]:
    """It answers by its columns what is recommended for a workload, and why."""
    summary = ".status.summary"
    return define_crd(
        group=POLICY_GROUP,
        kind=KIND,
        plural=PLURAL,
        short=["gpurec"],
        categories=["gatewright"],
        namespaced=True,
        description="How much GPU the pods of one workload use, have and should have, and why."
        " Written by gatewright alone; deleting it forgets the baseline.",
        properties={
            "spec": fields("The workload.", {"workloadRef": _workload()}, required=["workloadRef"])
        },
        columns=[
            column("Workload", f"{summary}.workload"),
            column("GPUs", f"{summary}.gpus"),
            column("Recommended", f"{summary}.recommended"),
            column("Driver", f"{summary}.driver"),
            column("Change", f"{summary}.change"),
            column("Why", f"{summary}.why"),
            column("Policy", f"{summary}.policy", priority=1),
            column("Mode", f"{summary}.mode", priority=1),
        ],
        status=_status(),
        required=["spec"],
    )


def _workload() -> Schema:
    return fields(
        "The workload, in this namespace.",
        {
            "apiVersion": text("Its group and version."),
            "kind": text("Its kind."),
            "name": text("Its name."),
            "uid": text("Its uid."),
        },
        required=["apiVersion", "kind", "name"],
    )


def _document(description: str) -> Schema:
    return fields(
        description,
        {
            "kind": text("Its kind."),
            "namespace": text("Its namespace; empty for kinds of the whole cluster."),
            "name": text("Its name."),
        },
        required=["kind", "namespace", "name"],
    )


def _amounts(description: str) -> Schema:
    return entries(description, text(_AMOUNT))


def _status() -> Schema:
    reasons = items("Why nothing more is done.", text(_REASON))
    status = fields(
        "All that was found out.",
        {
            "summary": entries("What the columns show.", text("A text.")),
            "evaluatedAt": time("When the workload was last looked at."),
            "policies": items("What each policy made of it.", _policy()),
            "selected": _selected(),
            "reasons": reasons,
            "eviction": _eviction(),
            "written": entries(
                "By container, amounts that pods were given, the last one last.",
                items("Amounts, after rounding.", text(_AMOUNT)),
            ),
            "conditions": conditions("Ready or PrometheusReachable"),
        },
    )
    # A later version may write more, and an older one must not lose it.
    return {**status, **FREE}


def _eviction() -> Schema:
    return fields(
        "The evictions for what is selected now.",
        {
            "pod": text("The last pod."),
            "uid": text("Its uid."),
            "at": time("When that was asked for."),
            "since": time("Pods that are made after this are to have what is selected."),
            "pods": integer("How many pods there were then."),
            "count": integer("Evictions since then."),
            "misses": integer("Those of pods that had been made after it."),
            "problem": text("Why the last one was refused."),
            "retried": flag("Whether it is asked for again then."),
            "amounts": _amounts("What was to be written."),
        },
        required=["pod", "uid", "at", "since"],
    )


def _policy() -> Schema:
    baseline = fields(
        "Of one container.",
        {
            "amount": text(_AMOUNT),
            "since": time("When it was seen."),
            "origin": text("Where it was seen."),
        },
        required=["amount", "since"],
    )
    return fields(
        "One policy.",
        {
            "policy": _document("The policy."),
            "generation": integer("Its generation.", form="int64"),
            "evaluatedAt": time("When it was last evaluated."),
            "baseline": entries("What containers had before the first upsize.", baseline),
            "current": _amounts("What the containers of the pod that was looked at have."),
            "recommendation": _amounts("What they should have; empty where nothing is asked for."),
            "total": text("The sum of that."),
            "driver": text("The signal that it comes from.", enum=[each.value for each in Signal]),
            "change": text(
                "What the last evaluation came to.", enum=[each.value for each in Change]
            ),
            "signals": entries("The last evaluation of each signal.", _signal()),
            "reasons": items("Why nothing more came of it.", text(_REASON)),
        },
        required=["policy"],
    )


def _signal() -> Schema:
    evaluation = {
        "thresholdPercent": integer("The threshold."),
        "window": text("How far back was looked."),
        "usage": text("What the hottest pod used, in whole GPUs."),
        "allocation": text("What it had."),
        "pod": text("Which pod that was."),
        "candidate": text("The total that this asks for."),
        "missing": items("The first pods that had no samples.", text("A pod.")),
        "missingCount": integer("How many had none."),
    }
    return fields(
        "One signal.",
        {
            "wants": text(
                "What it asks for: upsize or scaleBack.", enum=[each.value for each in Direction]
            ),
            "upsize": fields("Whether more is needed.", evaluation),
            "scaleBack": fields("Whether less is enough.", evaluation),
        },
    )


def _selected() -> Schema:
    return fields(
        "What counts for the workload's pods, with what the webhook needs to write it.",
        {
            "policy": _document("The policy that it comes from."),
            "strategy": _document("The strategy that says how it may be written."),
            "amounts": _amounts("By container, within the strategy's bounds, not rounded yet."),
            "ceilings": _amounts("By container, the most that is written, after rounding."),
            "baselines": _amounts(
                "By container, what that was computed from: what pods would have without it."
            ),
            "policies": entries(
                "Whose amount a container's is, where it is not that policy's.",
                _document("A policy."),
            ),
            "mode": text("With Recommend nothing is written.", enum=[each.value for each in Mode]),
            "automationEnabled": flag("Whether anything may be done at all."),
            "scheduler": text("How it is written.", enum=[each.value for each in Scheduler]),
            "upsize": flag("Whether a pod may get more than it asks for."),
            "downsize": flag("Whether a pod may get less than it asks for."),
            "setFromUnspecified": flag("Whether a container may get some that asks for none."),
            "queue": text("The queue of KAI."),
            "setQueueWhenSpecified": flag("Whether it replaces the queue that a pod names."),
            "schedulerName": text("The name of KAI's scheduler."),
            "respectsPause": flag("Whether annotations may pause it."),
            "respectsQuota": flag("Whether ResourceQuotas are looked at."),
            "pauseUntil": text("The workload's own annotation pause-until."),
            "skipContainers": text("The workload's own annotation skip-containers."),
        },
        required=["policy", "strategy"],
    )
