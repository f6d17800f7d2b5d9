"""
Is our webhook called, and does it mutate? Found out by pods that are never made.

Evicting a pod while nobody writes the new amount into the next one would only disturb it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn
from urllib.parse import quote

import orjson

from webhook.errors import KubeError
from webhook.model.probes import PROBE_LABEL, PROBED
from webhook.model.rightsizing.policies import WebhookHealth
from webhook.model.rightsizing.times import format_time
from webhook.reactive.recreation.evicting import KubeCalls

log = logging.getLogger("gatewright.reconcile")

# Between two probes while nothing changes.
_STEADY_S = 60.0
# The API server waits for a webhook for 5 s, or as long as its registration says.
_TIMEOUT_S = 30.0
_PROBLEM_MAX_CHARS = 300


class WebhookProbe:
    """
    Tries the webhook with pods in *namespace*, as dry runs.

    It counts as down until it was seen to mutate often enough in a row.
    """

    def __init__(
        self,
        client: KubeCalls,
        *,
        namespace: str,
        settings: Callable[[], WebhookHealth],
        on_probe: Callable[[bool], None] = lambda passed: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """*on_probe* is told of each probe, *on_change* when `healthy` has changed."""
        self._client = client
        self._path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        self._pod = _probe_pod(namespace)
        self._settings = settings
        self._on_probe = on_probe
        self._on_change = on_change
        self._turn = asyncio.Lock()
        self._healthy = False
        # Of the same outcome in a row.
        self._passed = 0
        self._failed = 0
        self._problem = "the webhook was not tried yet"
        self._last: datetime | None = None

    @property
    def healthy(self) -> bool:
        """Whether the webhook counts as healthy."""
        return self._healthy

    @property
    def problem(self) -> str:
        """Why no pod may be evicted now; empty if it may."""
        if self._healthy and not self._failed:
            return ""
        settings = self._settings()
        if self._failed:
            return f"the webhook does not mutate pods: {self._problem}"
        if self._passed:
            return f"the webhook has not mutated {settings.successes} probes in a row yet"
        return self._problem

    def report(self) -> dict[str, Any]:
        """What the GlobalConfiguration's status says of it, beside the condition."""
        if self._last is None:
            return {}
        return {
            "webhookHealth": {
                "consecutiveFailures": self._failed,
                "consecutiveSuccesses": self._passed,
                "lastProbeResult": "Failure" if self._failed else "Success",
                "lastProbeTime": format_time(self._last.replace(microsecond=0)),
            }
        }

    async def run(self) -> NoReturn:
        """Try it again and again, until cancelled."""
        while True:
            await self.check()
            interval_s = self._settings().interval.total_seconds()
            is_steady = self._healthy and not self._failed
            await asyncio.sleep(max(interval_s, _STEADY_S) if is_steady else interval_s)

    async def check(self) -> bool:
        """Try it once, now. True if it mutates."""
        async with self._turn:
            problem = await self._try()
            self._last = datetime.now(UTC)
            self._on_probe(not problem)
            self._note(problem)
        return not problem

    def _note(self, problem: str) -> None:
        settings, before = self._settings(), self._healthy
        if problem:
            if not self._failed:
                log.info("a probe of the webhook failed", extra={"problem": problem})
            self._failed, self._passed, self._problem = self._failed + 1, 0, problem
            if self._failed >= settings.failures:
                self._healthy = False
        else:
            self._failed, self._passed = 0, self._passed + 1
            if self._passed >= settings.successes:
                self._healthy = True
        if self._healthy is not before:
            if self._healthy:
                log.info("the webhook mutates pods")
            else:
                log.warning("the webhook does not mutate pods", extra={"problem": problem})
            self._on_change()

    async def _try(self) -> str:
        """Why the webhook does not mutate; empty if it does."""
        try:
            answer = await self._client.request(
                "POST", f"{self._path}?dryRun=All", body=self._pod, timeout_s=_TIMEOUT_S
            )
            pod = orjson.loads(answer)
        except KubeError as error:
            return f"a pod can't be tried: {error}"[:_PROBLEM_MAX_CHARS]
        except orjson.JSONDecodeError:
            return "a pod can't be tried: the answer is no JSON"
        metadata = pod.get("metadata") if isinstance(pod, dict) else None
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if isinstance(annotations, dict) and annotations.get(PROBED):
            return ""
        return f"a probe came back without the annotation {PROBED}"


def _probe_pod(namespace: str) -> dict[str, Any]:
    """A pod that any namespace takes, with the least rights and resources that one can have."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "gatewright-probe-",
            "namespace": namespace,
            "labels": {PROBE_LABEL: "true"},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "probe",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {
                        "requests": {"cpu": "1m", "memory": "1Mi"},
                        "limits": {"cpu": "1m", "memory": "1Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
