"""The schemas of GlobalConfiguration and PolicyEvaluation."""

from __future__ import annotations

from webhook.catalog.crd_parts import (
    AT_LEAST_1M,
    CEL,
    FREE,
    Schema,
    conditions,
    entries,
    fields,
    flag,
    integer,
    items,
    rule,
    text,
    time,
)

_AT_LEAST_1S = [rule("duration(self) >= duration('1s')", "must be at least 1 second")]
_MORE_THAN_0 = [rule("duration(self) > duration('0s')", "must be greater than 0 seconds")]


def _interval(description: str, default: str) -> Schema:
    return text(f"{description}: at least 1m.", default=default, **{CEL: AT_LEAST_1M})


def global_configuration_spec() -> Schema:
    return fields(
        "What is left out has its default.",
        {
            "automationEnabled": flag("Whether anything may be done at all.", default=True),
            "multiPolicyContainerRightsizingEnabled": flag(
                "Whether several policies may each contribute the containers that they concern.",
                default=False,
            ),
            "gpuReactiveCheckInterval": _interval("How often workloads are looked at", "1m"),
            "prometheus": fields(
                "Where usage is asked for.",
                {
                    "url": text("The address.", default="http://prometheus.monitoring.svc:9090"),
                    "requestTimeout": text("How long a query may take.", default="30s"),
                },
                default={},
            ),
            "kai": fields(
                "The KAI scheduler.",
                {"schedulerName": text("Its name in pods.", default="kai-scheduler")},
                default={},
            ),
            "protectedNamespacePatterns": items(
                "Namespaces in which nothing is done; * stands for any characters.",
                text("A name or pattern.", minLength=1),
                default=["kube-*", "openshift-*", "gmp-*"],
            ),
            "webhookHealth": fields(
                "When our webhook counts as healthy; while it doesn't, no pod is evicted.",
                {
                    "failureThreshold": integer("Failures in a row.", least=1, default=2),
                    "successThreshold": integer("Successes in a row.", least=1, default=3),
                    "transitionCheckInterval": text(
                        "The time between two probes while it changes: at least 1s.",
                        default="10s",
                        **{CEL: _AT_LEAST_1S},
                    ),
                },
            ),
            "webhookProbe": fields(
                "The pod with which the webhook is tried. It is never made.",
                {
                    "image": text("Its image."),
                    "labels": entries("More labels.", text("A value.")),
                    "annotations": entries("More annotations.", text("A value.")),
                    "resources": _free("Resources of its container."),
                    "podSecurityContext": _free("The security context of the pod."),
                    "securityContext": _free("The security context of its container."),
                },
            ),
            "webhookOwnerResolutionRetryTimeout": _timeout("Not used here", "1s"),
            "rescanInterval": _interval("Not used here", "6h"),
            "recommendationReloadInterval": _interval("Not used here", "1h"),
            "mutationLogInterval": _interval("Not used here", "5m"),
            "snapshotInterval": _interval("Not used here", "30m"),
            "heartbeatInterval": _interval("Not used here", "5m"),
            "proposalSyncInterval": _interval("Not used here", "5m"),
            "proposalSyncEnabled": flag("Not used here.", default=False),
            "kubexAPIRequestTimeout": _timeout("Not used here", "60s"),
            "suppressFetchRecommendations": flag("Not used here.", default=False),
            "respectKubexAutomation": flag("Not used here.", default=True),
        },
    )


def _free(description: str) -> Schema:
    return {"type": "object", "description": description, **FREE}


def _timeout(description: str, default: str) -> Schema:
    return text(f"{description}: more than 0s.", default=default, **{CEL: _MORE_THAN_0})


def global_configuration_status() -> Schema:
    """With what others write there."""
    reload = {
        "lastTime": time("When it was last done."),
        "lastCount": integer("How many there were.", form="int64"),
        "lastError": text("What went wrong last."),
        "lastErrorTime": time("When that was."),
    }
    return fields(
        "What was made of the object.",
        {
            "conditions": conditions("PrometheusReachable, PodAdmissionWebhookHealthy or Ready"),
            "observedGeneration": integer("The generation that this is about.", form="int64"),
            "outcome": text("Success, Failure, or nothing while it is being applied."),
            "reason": text("Why."),
            "webhookHealth": fields(
                "The probes of the webhook.",
                {
                    "consecutiveFailures": integer("Failures in a row."),
                    "consecutiveSuccesses": integer("Successes in a row."),
                    "lastProbeResult": text("Success or Failure."),
                    "lastProbeTime": time("When it was last probed."),
                },
            ),
            "recommendationReload": fields(
                "Not written here.",
                {
                    **reload,
                    "proactiveRescanPending": flag("Whether one is due."),
                    "proactiveRescanPendingTime": time("Since when."),
                },
            ),
            "proposalReload": fields(
                "Not written here.",
                {
                    **reload,
                    "lastAppliedCount": integer("How many were applied.", form="int64"),
                    "lastErrorCount": integer("How many were not.", form="int64"),
                },
            ),
            "rescan": fields("Not written here.", {"lastTime": time("When it was last done.")}),
        },
    )


def policy_evaluation_spec() -> Schema:
    return fields(
        "What is left out has its default.",
        {
            "precedence": items(
                "Kinds of policies. Of one that is not named, the usual priority holds"
                " (GpuReactivePolicy 120, ClusterGpuReactivePolicy 110).",
                fields(
                    "One kind.",
                    {
                        "type": text("The kind.", minLength=1),
                        "priority": integer("The highest one counts."),
                    },
                    required=["type", "priority"],
                ),
            )
        },
    )
