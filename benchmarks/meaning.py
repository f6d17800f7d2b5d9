"""
Whether the gate and the API server's own policies mean the same.

Each rule is broken alone, in both kinds; and what is clean must come out alike.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks import work
from benchmarks.lanes import CEL, FLOOR, LANES, Caller, Callers
from benchmarks.work import Document

# Of the metadata: what is another's in each lane.
PER_LANE = ("creationTimestamp", "generation", "managedFields", "namespace", "uid")


def _worker(workload: Document) -> Document:
    """The spec of a pod: of the Workers, where there are such."""
    spec: Document = workload["spec"]
    if workload["kind"] == "Pod":
        return spec
    found: Document = spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    return found


def _limit(key: str, value: str) -> Callable[[Document], None]:
    return lambda job: _worker(job)["containers"][0]["resources"]["limits"].update({key: value})


_Break = Callable[[Document], Any]
BREAKS: Mapping[str, _Break] = {
    "cpu": _limit("cpu", "24"),
    "memory": _limit("memory", "96Gi"),
    "registry": lambda job: _worker(job)["containers"][1].update(image="docker.io/library/a:1"),
    "privileged": lambda job: _worker(job)["initContainers"][0].update(
        securityContext={"privileged": True}
    ),
}
# What is missing may still come: the gate refuses that on `/validate` alone.
MISSING: Mapping[str, _Break] = {"no label": lambda job: job["metadata"]["labels"].pop("project")}
ONLY_JOBS: Mapping[str, _Break] = {
    "replicas": lambda job: job["spec"]["pytorchReplicaSpecs"]["Worker"].update(replicas=12)
}
# Of a Pod the API server asks for it.
MISSING_OF_JOBS: Mapping[str, _Break] = {
    "no image": lambda job: _worker(job)["containers"][1].pop("image")
}


def broken_one_by_one() -> Iterator[tuple[str, Document, bool]]:
    """Both kinds with each rule broken alone, and whether something is missing."""
    kinds = (
        (work.job, {**BREAKS, **ONLY_JOBS}, {**MISSING, **MISSING_OF_JOBS}),
        (work.pod, BREAKS, MISSING),
    )
    for make, broken, missing in kinds:
        for name, break_it in {**broken, **missing}.items():
            workload = make()
            break_it(workload)
            yield f"{workload['kind']}, {name}", workload, name in missing


def differences(callers: Callers) -> list[str]:
    """What a lane doesn't do that it should: nothing, once all policies are in use."""
    return [
        *_not_called(callers[FLOOR]),
        *_wrongly_changed(callers),
        *_wrongly_judged(callers),
    ]


def _not_called(floor: Caller) -> Iterator[str]:
    """A floor that is not there would cost nothing."""
    for workload in (work.job(), work.pod()):
        for phase in ("mutate", "validate"):
            workload["metadata"]["labels"]["refuse"] = phase
            if floor.create(workload).status < 400:
                yield f"{workload['kind']}: {phase} of the floor is not called"


def _wrongly_changed(callers: Callers) -> Iterator[str]:
    for workload in (work.job(), work.pod()):
        kind = workload["kind"]
        answers = {lane: caller.create(workload) for lane, caller in callers.items()}
        refused = [lane.name for lane, answer in answers.items() if answer.status != 201]
        if refused:
            yield f"{kind}: {', '.join(refused)} can't create a clean one"
            continue
        created = {lane: _without_names(answer.body) for lane, answer in answers.items()}
        for lane in LANES:
            if lane.has_policies and created[lane] != created[CEL]:
                yield f"{kind}: {lane.name} changes it otherwise than {CEL.name}"
            if lane.has_policies != _is_filled(created[lane]):
                yield f"{kind}: {lane.name} does {'not ' * lane.has_policies}fill it"


def _without_names(body: bytes) -> Document:
    """What was created, but for what differs each time."""
    created: Document = json.loads(re.sub(rb"kube-api-access-\w+", b"kube-api-access", body))
    for key in PER_LANE:
        created["metadata"].pop(key, None)
    return created


def _is_filled(created: Document) -> bool:
    """Whether it has what the policies fill in, in each place."""
    specs = [created["spec"]]
    if created["kind"] != "Pod":
        roles = created["spec"]["pytorchReplicaSpecs"].values()
        specs = [role["template"]["spec"] for role in roles]
    return created["metadata"]["labels"].get("team") == "none" and all(
        "memory" in container.get("resources", {}).get("limits", {})
        and "imagePullPolicy" in container
        and container.get("securityContext", {}).get("allowPrivilegeEscalation") is False
        for spec in specs
        for container in spec["initContainers"] + spec["containers"]
    )


def _wrongly_judged(callers: Callers) -> Iterator[str]:
    for name, workload, is_missing in broken_one_by_one():
        for lane, caller in callers.items():
            answer = caller.create(copy.deepcopy(workload))
            wanted = lane.has_policies and (lane.judges_last or not is_missing)
            if lane.refuses(answer) != wanted or (not wanted and answer.status != 201):
                yield f"{name}: {lane.name} answers {answer.status}: {answer.text[:300]}"
