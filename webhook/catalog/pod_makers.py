"""What becomes of an evicted pod, by the kind that made it: the table in pod_makers.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from webhook.model.manifests import load_documents


@dataclass(frozen=True, slots=True)
class PodMaker:
    """
    A kind of workloads beyond the nine with short names.

    *makes* names the kind that its pods are of, ``""`` where it makes them itself. An evicted pod
    is made again where *recreates*, if it has all of *labels*; *reason* says why others are not.
    One that is owned by a kind of *jobs* is a part of a job.
    """

    makes: str = ""
    recreates: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    jobs: frozenset[str] = frozenset()
    reason: str = ""


@cache
def pod_makers() -> Mapping[str, PodMaker]:
    """The kinds that are known, by `Kind.group`."""
    text = files(__package__).joinpath("pod_makers.yaml").read_bytes()
    ((_, table),) = [(m.name, m.value) for m in load_documents(text, "builtin/pod_makers.yaml")]
    return {name: _read(row) for name, row in table.items()}


@cache
def role_labels() -> frozenset[str]:
    """The labels of pods that tell whether one is made again."""
    return frozenset([key for maker in pod_makers().values() for key in maker.labels])


def _read(row: Mapping[str, Any]) -> PodMaker:
    return PodMaker(**{**row, "jobs": frozenset(row.get("jobs", ()))})
