"""Scenarios for tests: one Deployment with one pod, unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests import gpu_documents
from tests.builders import POLICY_API, JsonObject
from webhook.model.manifests import Manifest
from webhook.reactive.scenarios.replay import Step, replay
from webhook.reactive.scenarios.scenario import Scenario, read_scenario


def make_scenario_pod(name: str = "llm-0", **more: Any) -> JsonObject:
    """Half an hour old; its only container, main, has half a GPU."""
    return {"name": name, "age": "30m", "containers": {"main": {"gpu": "0.5"}}, **more}


def make_workload(*pods: JsonObject, **more: Any) -> JsonObject:
    default = {"namespace": "default", "kind": "Deployment", "name": "llm"}
    return {**default, "pods": list(pods) or [make_scenario_pod()], **more}


def make_samples(value: Any, *, signal: str = "compute", **more: Any) -> JsonObject:
    """Of the container main of pod llm-0, from half an hour before the start to an hour after."""
    place = {"pod": "llm-0", "container": "main", "signal": signal}
    return {**place, "from": "-30m", "to": "60m", "value": value, **more}


def make_scenario(
    *samples: JsonObject, workloads: Sequence[JsonObject] = (), **spec: Any
) -> JsonObject:
    needed = {
        "start": "2026-01-01T00:00:00Z",
        "duration": "10m",
        "workloads": list(workloads) or [make_workload()],
        "samples": list(samples),
    }
    return {"apiVersion": POLICY_API, "kind": "GpuScenario", "spec": {**needed, **spec}}


def read(*documents: JsonObject) -> Scenario:
    return read_scenario(
        [Manifest("scenario.yaml", index, 1, value) for index, value in enumerate(documents)]
    )


def run(*documents: JsonObject) -> list[Step]:
    """The steps; with a single document, under a policy of defaults."""
    policies = [gpu_documents.make_policy()] if len(documents) == 1 else []
    return list(replay(read(*policies, *documents)))
