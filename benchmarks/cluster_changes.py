"""What changes in the cluster of `benchmarks.cluster_store`, and how soon the gate judges by it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from benchmarks.cluster_objects import (
    NAMESPACES_OF_A_PROJECT,
    Document,
    name_namespace,
    name_project,
)
from tests.builders import POLICY_API, make_gvk_policy, make_rule
from tests.controlplane import Answer, wait_until

POLICIES = f"/apis/{POLICY_API}/gvkpolicies"
# The first one on Pods, so the oldest, and a namespace of its project.
OLDEST = "policy-0001"
OF_OLDEST = NAMESPACES_OF_A_PROJECT
TIMEOUT_S = 120.0
INTERVAL_S = 0.02


class ApiServer(Protocol):
    def request(self, method: str, path: str, body: Document | None = None) -> Answer: ...


class Asker(Protocol):
    def __call__(self, namespace: str, **spec: Any) -> bool:
        """Whether the gate allows a Pod with that *spec*."""


class Changes:
    """
    Each method makes a change, and tells how long it takes from the API server's answer until the
    gate judges by it, in s. What an even *number* allows is what an odd one forbids.

    Raises:
        WaitTimeoutError: the gate never does.
        SystemExit: the API server refuses the change.
    """

    def __init__(
        self,
        api_server: ApiServer,
        allows: Asker,
        namespaces: int,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api_server = api_server
        self._allows = allows
        self._clock_s = clock_s
        # Neither is of the project of the oldest policy on Pods.
        self._changed, self._moved = namespaces * 7 // 10, namespaces * 9 // 10

    def new_policy_s(self, number: int) -> float:
        """A project gets a policy. It is gone again when this returns."""
        namespace, refused = name_namespace(self._changed), number % 2 == 0
        policy = make_gvk_policy(
            _only_host_pid(not refused),
            name=f"new-{number}",
            scope="project",
            unit=name_project(self._changed),
        )
        self._send("POST", POLICIES, policy)
        took_s = self._seconds_until(
            lambda: not self._allows(namespace, hostPID=refused), "a new policy to be in force"
        )
        self._send("DELETE", f"{POLICIES}/new-{number}")
        _wait(lambda: self._allows(namespace, hostPID=refused), "a policy to be gone")
        return took_s

    def changed_policy_s(self, number: int) -> float:
        """The oldest policy on Pods is changed."""
        namespace, allowed = name_namespace(OF_OLDEST), number % 2 == 0

        def change(policy: Document) -> None:
            policy["spec"]["rules"] = [_only_host_pid(allowed)]

        self._edit(f"{POLICIES}/{OLDEST}", change)
        return self._seconds_until(
            lambda: not self._allows(namespace, hostPID=not allowed), "the oldest policy to change"
        )

    def moved_namespace_s(self, number: int) -> float:
        """
        A namespace comes to the project of the oldest policy on Pods, or leaves it.

        What is asked goes by what `changed_policy_s` has made of that policy, with this *number*.
        """
        namespace, comes = name_namespace(self._moved), number % 2 == 0
        project = name_project(OF_OLDEST if comes else self._moved)

        def move(stored: Document) -> None:
            stored["metadata"]["labels"]["runai/queue"] = project

        self._edit(f"/api/v1/namespaces/{namespace}", move)
        return self._seconds_until(
            lambda: self._allows(namespace, hostPID=not comes) is not comes,
            "a namespace to be moved",
        )

    def _edit(self, path: str, change: Callable[[Document], None]) -> None:
        stored = self._send("GET", path).json()
        change(stored)
        self._send("PUT", path, stored)

    def _send(self, method: str, path: str, body: Document | None = None) -> Answer:
        answer = self._api_server.request(method, path, body)
        if answer.status >= 300:
            sys.exit(f"{method} {path} is answered with {answer.status}: {answer.text}")
        return answer

    def _seconds_until(self, is_in_force: Callable[[], bool], what: str) -> float:
        started_s = self._clock_s()
        _wait(is_in_force, what)
        return self._clock_s() - started_s


def _only_host_pid(value: bool) -> Document:
    return make_rule("hostPID", "podSpec", {"options": [value]})


def _wait(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, TIMEOUT_S, what, interval_s=INTERVAL_S)
