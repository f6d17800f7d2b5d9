"""Evictions, by the Eviction API: PodDisruptionBudgets hold, and graceful ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

from webhook.errors import KubeError
from webhook.reactive.observation.pods import SeenPod

_MESSAGE_MAX_CHARS = 300


class Outcome(StrEnum):
    """What became of one eviction."""

    EVICTED = "evicted"
    # The pod has gone by itself, or another one has its name.
    GONE = "gone"
    # A PodDisruptionBudget, or an API server that has too much to do.
    BUDGET = "budget"
    REFUSED = "refused"
    # Nobody knows: there was no answer, or one of a server in trouble.
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Evicted:
    """*problem* is why it was not, empty if it was."""

    outcome: Outcome
    problem: str = ""


class KubeCalls(Protocol):
    """What is needed of a client of the API server."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
    ) -> bytes:
        """The body of the answer to one call."""


async def evict(client: KubeCalls, pod: SeenPod) -> Evicted:
    """Ask for the eviction of *pod*: of that very one, by its uid."""
    pods = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods"
    path = f"{pods}/{quote(pod.pod_name, safe='')}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.pod_name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    try:
        await client.request("POST", path, body=body)
    except KubeError as error:
        return _refused(error)
    return Evicted(Outcome.EVICTED)


def _refused(error: KubeError) -> Evicted:
    message = error.message[:_MESSAGE_MAX_CHARS]
    match error.status:
        case HTTPStatus.NOT_FOUND | HTTPStatus.CONFLICT:
            return Evicted(Outcome.GONE)
        case HTTPStatus.TOO_MANY_REQUESTS:
            causes = error.details.get("causes")
            told = [
                str(cause.get("message", ""))[:_MESSAGE_MAX_CHARS]
                for cause in (causes if isinstance(causes, list) else [])
                if isinstance(cause, dict) and cause.get("reason") == "DisruptionBudget"
            ]
            return Evicted(Outcome.BUDGET, "; ".join(filter(None, [message, *told])))
        case status if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return Evicted(Outcome.REFUSED, message)
    # Kubernetes answers 500 where several budgets are about one pod.
    return Evicted(Outcome.FAILED, str(error)[:_MESSAGE_MAX_CHARS])
