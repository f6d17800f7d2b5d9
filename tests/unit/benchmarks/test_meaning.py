"""Lanes that don't mean the same are told."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from benchmarks import work
from benchmarks.lanes import CEL, FLOOR, GATE, LANES, MUTATE, Callers, Lane
from benchmarks.link import Answer
from benchmarks.meaning import broken_one_by_one, differences
from tests.builders import make_snapshot, submit

SNAPSHOT = make_snapshot(*work.policies())
Change = Callable[[Lane, dict[str, Any]], None]


class FakeCaller:
    """Answers as an API server with the engine behind it would, and *change* what it created."""

    def __init__(self, lane: Lane, change: Change, admits: str, uncalled: str) -> None:
        self._lane = lane
        self._change = change
        self._admits = admits
        self._uncalled = uncalled

    def create(self, workload: dict[str, Any]) -> Answer:
        created = copy.deepcopy(workload)
        refused = created["metadata"]["labels"].get("refuse", self._uncalled)
        if self._lane is FLOOR and refused != self._uncalled:
            return Answer(400, b"", 1.0)
        if created["kind"] == "Pod":
            # As an API server does before it asks anybody.
            for container in created["spec"]["initContainers"] + created["spec"]["containers"]:
                container.setdefault("imagePullPolicy", "IfNotPresent")
        if self._lane.has_policies:
            answer = submit(SNAPSHOT, created)
            rules = {rule for _, rule in answer.broken} - {self._admits}
            if rules - (set() if self._lane.judges_last else {"required"}):
                return Answer(403, self._lane.refusals[0], 1.0)
            created = answer.document
        self._change(self._lane, created)
        return Answer(201, json.dumps(created).encode(), 1.0)


def make_callers(
    change: Change = lambda lane, created: None, admits: str = "", uncalled: str = ""
) -> Callers:
    """The rule *admits* is nowhere, and the floor is not asked to *uncalled*."""
    fakes = {lane: FakeCaller(lane, change, admits, uncalled) for lane in LANES}
    return cast("Callers", fakes)


def test_lanes_that_mean_the_same_differ_in_nothing() -> None:
    assert differences(make_callers()) == []


def test_names_that_are_given_anew_are_no_difference() -> None:
    def name(lane: Lane, created: dict[str, Any]) -> None:
        created["metadata"]["uid"] = lane.name
        created["spec"]["volumes"] = [{"name": f"kube-api-access-{lane.name}"}]

    assert differences(make_callers(name)) == []


def test_a_lane_that_fills_another_value_is_told() -> None:
    def fill(lane: Lane, created: dict[str, Any]) -> None:
        if lane is GATE and created["kind"] == "Pod":
            created["spec"]["containers"][0]["imagePullPolicy"] = "Always"

    assert differences(make_callers(fill)) == ["Pod: gate changes it otherwise than cel"]


def test_a_lane_that_fills_nothing_is_told() -> None:
    def leave(lane: Lane, created: dict[str, Any]) -> None:
        if created["kind"] == "Pod":
            created["metadata"]["labels"].pop("team", None)

    assert differences(make_callers(leave)) == [
        f"Pod: {lane.name} does not fill it" for lane in (GATE, MUTATE, CEL)
    ]


def test_a_rule_that_a_lane_does_not_have_is_told() -> None:
    found = differences(make_callers(admits="pattern"))

    assert [line.partition(" answers")[0] for line in found] == [
        f"{kind}, registry: {lane.name}"
        for kind in ("PyTorchJob", "Pod")
        for lane in (GATE, MUTATE, CEL)
    ]


def test_each_broken_object_breaks_one_rule() -> None:
    found = {
        name: {rule for _, rule in submit(SNAPSHOT, workload).broken}
        for name, workload, _ in broken_one_by_one()
    }

    # A privileged container may escalate: that it may not is set as well.
    assert {name: rules for name, rules in found.items() if len(rules) > 1} == {
        "PyTorchJob, privileged": {"options", "set"},
        "Pod, privileged": {"options", "set"},
    }
    assert all(found.values())


@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_a_floor_that_is_not_called_is_told(phase: str) -> None:
    found = differences(make_callers(uncalled=phase))

    assert found == [
        f"{kind}: {phase} of the floor is not called" for kind in ("PyTorchJob", "Pod")
    ]
