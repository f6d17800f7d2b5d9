"""
What the scenarios of tests/scenarios lead to: each shows what its name says.

That a real Prometheus leads to the same is a test of its own (tests/e2e/test_gpu_scenarios.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from webhook.model.manifests import load_file
from webhook.reactive.scenarios.replay import replay, to_json
from webhook.reactive.scenarios.scenario import read_scenario

DIRECTORY = Path(__file__).parents[2] / "scenarios"

UP, BACK, NONE, KEPT = "upsize", "scaleBack", "none", "kept"
COMPUTE, MEMORY = "compute", "memory"

# By scenario and workload, what changed: minutes since the start, word, amounts, owner.
CHANGES: dict[tuple[str, str], list[tuple[Any, ...]]] = {
    ("upsize-by-compute", "llm"): [(10, UP, {"main": "0.7368"}, COMPUTE)],
    ("upsize-by-memory", "llm"): [
        (14, UP, {"main": "0.72306"}, MEMORY),
        (24, UP, {"main": "1"}, MEMORY),
    ],
    ("cap", "llm"): [(0, UP, {"main": "0.75"}, COMPUTE), (25, UP, {"main": "0.9"}, COMPUTE)],
    ("scale-back", "llm"): [
        (0, BACK, {"main": "0.5"}, COMPUTE),
        (5, KEPT, {"main": "0.5"}, MEMORY),
        (6, UP, {"main": "0.672"}, COMPUTE),
        (16, UP, {"main": "1.32"}, COMPUTE),
        (54, BACK, {"main": "0.5"}, COMPUTE),
        (55, NONE, None, None),
        (64, BACK, {"main": "0.5"}, MEMORY),
    ],
    # Until minute 24 compute would lower it, and memory has no wish.
    ("cross-metric-hold", "llm"): [
        (0, KEPT, {"main": "0.9"}, MEMORY),
        (24, BACK, {"main": "0.675"}, MEMORY),
        (34, BACK, {"main": "0.50625"}, MEMORY),
        (44, BACK, {"main": "0.5"}, MEMORY),
        (45, NONE, None, None),
        (54, BACK, {"main": "0.5"}, COMPUTE),
    ],
    # Both would lower it all the time; only what memory raises has an owner.
    ("cross-metric-hold", "old"): [
        (0, KEPT, {"main": "0.9"}, None),
        (34, UP, {"main": "1"}, MEMORY),
        (44, BACK, {"main": "0.5"}, MEMORY),
        (45, NONE, None, None),
        (54, BACK, {"main": "0.5"}, COMPUTE),
    ],
    # In the end one series has nothing but values that are none: nothing goes down.
    ("missing-samples", "llm"): [
        (0, BACK, {"main": "0.5"}, COMPUTE),
        (7, KEPT, {"main": "0.5"}, MEMORY),
        (22, UP, {"main": "0.66"}, COMPUTE),
        (32, UP, {"main": "1"}, COMPUTE),
    ],
    # Until minute 10 one of two containers has no samples.
    ("missing-samples", "two"): [
        (0, BACK, {"a": "0.5", "b": "0.5"}, MEMORY),
        (10, UP, {"a": "1", "b": "1"}, COMPUTE),
    ],
    ("two-containers", "llm"): [
        (0, BACK, {"main": "1", "draft": "1", "proxy": "1"}, MEMORY),
        (14, UP, {"main": "1.1856", "draft": "1.1856", "proxy": "1.185601"}, COMPUTE),
        (54, BACK, {"main": "1", "draft": "1", "proxy": "1"}, COMPUTE),
        (55, NONE, None, None),
        (64, BACK, {"main": "1", "draft": "1", "proxy": "1"}, COMPUTE),
    ],
    # The last one by the namespaced policy, with twice the baseline that the other recorded.
    ("two-policies", "llm"): [
        (13, UP, {"main": "0.55"}, COMPUTE),
        (23, UP, {"main": "0.605"}, COMPUTE),
        (35, UP, {"main": "0.693"}, COMPUTE),
        (45, UP, {"main": "1"}, COMPUTE),
    ],
    # Both by the cluster's policy, then one by its own, while that of the other has no wish: from the
    # total of the cluster's policy it gets more each time, in proportion to what the pod has by then.
    # What is said is said by the policy that changed something, not by the first of them.
    ("multi-policy", "llm"): [
        (16, UP, {"main": "0.5312", "draft": "0.2656"}, COMPUTE),
        (26, UP, {"main": "0.672", "draft": "0.304"}, COMPUTE),
        (36, UP, {"main": "0.672", "draft": "0.32518"}, COMPUTE),
        (46, UP, {"main": "0.672", "draft": "0.340448"}, COMPUTE),
        (56, UP, {"main": "0.672", "draft": "0.351058"}, COMPUTE),
    ],
    ("kai-devices", "llm"): [
        (14, UP, {"main": "1.248"}, COMPUTE),
        (42, UP, {"main": "1.512576"}, MEMORY),
        (52, UP, {"main": "2"}, MEMORY),
    ],
    ("mapped-kind", "train"): [(0, UP, {"pytorch": "0.84"}, COMPUTE)],
    ("mapped-kind", "other"): [],
    ("renamed-labels", "llm"): [(14, UP, {"main": "0.771"}, COMPUTE)],
}


def changes(file: str, workload: str) -> list[tuple[Any, ...]]:
    """The steps that differ from the one before."""
    found: list[tuple[Any, ...]] = []
    before = (None, None)
    scenario = read_scenario(load_file(DIRECTORY / f"{file}.yaml"))
    for step in replay(scenario):
        shown = to_json(step)
        now = (shown["recommendation"], shown["driver"])
        if shown["name"] == workload:
            if now != before:
                minute = int((step.time - scenario.start).total_seconds()) // 60
                found.append((minute, shown["change"], *now))
            before = now
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("file", "workload"), CHANGES)
def test_a_scenario_leads_to_the_changes_that_it_is_about(file: str, workload: str) -> None:
    assert changes(file, workload) == CHANGES[file, workload]
