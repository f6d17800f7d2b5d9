"""A change counts from when the API server has answered it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.cluster_changes import POLICIES, Changes
from benchmarks.cluster_objects import build_namespaces, build_policies
from tests.controlplane import Answer

NAMESPACES = 100
CHANGED, MOVED = "team-00070", "team-00090"
REQUEST_S, QUESTION_S = 1.0, 0.25


class FakeCluster:
    """
    An API server that takes a second for each request, and a gate that judges by it at once.

    The gate looks at the option of `hostPID`, of each policy of the project. *refuses*: the method
    that the API server refuses.
    """

    def __init__(self, refuses: str = "") -> None:
        self.now_s = 0.0
        self.asked: list[str] = []
        self._refuses = refuses
        self._stored = {
            f"/api/v1/namespaces/{each['metadata']['name']}": each
            for each in build_namespaces(NAMESPACES)
        }
        self._stored |= {
            f"{POLICIES}/{each['metadata']['name']}": each
            for each in build_policies(30, 0)
            if each["kind"] == "GVKPolicy"
        }

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        self.now_s += REQUEST_S
        self.asked.append(f"{method} {path}")
        if method == self._refuses:
            return Answer(409, "it has changed")
        if method == "DELETE":
            del self._stored[path]
        elif body is not None:
            name = body["metadata"]["name"]
            self._stored[f"{path}/{name}" if method == "POST" else path] = copy.deepcopy(body)
        return Answer(200, json.dumps(self._stored.get(path, {})))

    def allows(self, namespace: str, **spec: Any) -> bool:
        self.now_s += QUESTION_S
        labels = self._stored[f"/api/v1/namespaces/{namespace}"]["metadata"]["labels"]
        rules = [
            rule
            for path, each in self._stored.items()
            if path.startswith(POLICIES) and each["spec"]["project"] == labels["runai/queue"]
            for rule in each["spec"]["rules"]
        ]
        return all(
            spec[rule["field"]] in rule["enforcements"][0]["options"]
            for rule in rules
            if rule["field"] in spec
        )

    def changes(self) -> Changes:
        return Changes(self, self.allows, NAMESPACES, lambda: self.now_s)


Change = Callable[[Changes, int], float]


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        pytest.param(
            Changes.new_policy_s,
            [f"POST {POLICIES}", f"DELETE {POLICIES}/new-0"],
            id="new-policy",
        ),
        pytest.param(
            Changes.changed_policy_s,
            [f"GET {POLICIES}/policy-0001", f"PUT {POLICIES}/policy-0001"],
            id="changed-policy",
        ),
        pytest.param(
            lambda changes, number: (
                changes.changed_policy_s(number) and changes.moved_namespace_s(number)
            ),
            [
                *[f"GET {POLICIES}/policy-0001", f"PUT {POLICIES}/policy-0001"],
                *[f"{method} /api/v1/namespaces/{MOVED}" for method in ("GET", "PUT")],
            ],
            id="moved-namespace",
        ),
    ],
)
def test_what_the_api_server_takes_does_not_count(change: Change, asked: list[str]) -> None:
    cluster = FakeCluster()

    assert change(cluster.changes(), 0) == QUESTION_S
    assert cluster.asked == asked


def test_each_round_turns_round_what_the_last_one_did() -> None:
    cluster = FakeCluster()
    changes = cluster.changes()

    for number in range(4):
        times_s = [
            changes.new_policy_s(number),
            changes.changed_policy_s(number),
            changes.moved_namespace_s(number),
        ]

        is_even = number % 2 == 0
        assert times_s == [QUESTION_S] * 3
        assert cluster.allows(CHANGED, hostPID=True)
        assert cluster.allows("team-00005", hostPID=is_even)
        assert not cluster.allows("team-00005", hostPID=not is_even)
        assert cluster.allows(MOVED, hostPID=False) is not is_even


@pytest.mark.parametrize(
    ("change", "method"),
    [
        (Changes.new_policy_s, "POST"),
        (Changes.new_policy_s, "DELETE"),
        (Changes.changed_policy_s, "PUT"),
        (Changes.moved_namespace_s, "GET"),
        (Changes.moved_namespace_s, "PUT"),
    ],
)
def test_a_change_that_is_refused_is_told_and_not_waited_for(change: Change, method: str) -> None:
    changes = FakeCluster(refuses=method).changes()

    with pytest.raises(SystemExit, match=f"{method} .* is answered with 409: it has changed"):
        change(changes, 0)
