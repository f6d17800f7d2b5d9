"""Reviews and decisions for tests: valid by default, a test names only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from webhook.admission.decode import Review, decode_review
from webhook.model.decision import Change, Decision, NotApplied, Rule, Source, Violation
from webhook.model.pointer import Path
from webhook.model.scopes import Scope

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"

SOURCE = Source("guardrails", Scope.PROJECT, "team-a", revision="1a2b3c")


def make_pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"containers": [{"name": "main", "image": "registry/train:1"}], **spec},
    }


def make_request(**fields: Any) -> dict[str, Any]:
    """The `request` of a review: somebody creates a Pod."""
    return {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "team-a",
        "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
        "object": make_pod(),
        **fields,
    }


def make_review(api_version: str = "admission.k8s.io/v1", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": "AdmissionReview",
        "request": make_request(**fields),
    }


def decoded(api_version: str = "admission.k8s.io/v1", **fields: Any) -> Review:
    return decode_review(orjson.dumps(make_review(api_version, **fields)))


def make_violation(
    rule: Rule = Rule.MAX,
    *,
    field: str = "compute.gpuDevicesRequest",
    path: Path = ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"),
    selector: str = "allContainers",
    item: str = "main",
    problem: str = "above the maximum",
    value: Any = 16,
    accepted: str = "≤ 8",
    source: Source = SOURCE,
) -> Violation:
    return Violation(path, field, selector, item, rule, problem, value, accepted, source)


def make_change(
    path: Path = ("spec", "priorityClassName"), *, old: Any = None, new: Any = "train"
) -> Change:
    return Change(path, "priorityClass", "podSpec", "", Rule.DEFAULT, old, new, SOURCE)


def make_not_applied(reason: str = "the request is above it") -> NotApplied:
    return NotApplied(("spec", "limit"), "cpu", Rule.DEFAULT, reason, SOURCE)


def denied(violations: Sequence[Violation], **fields: Any) -> Decision:
    return Decision(False, mapped=True, violations=tuple(violations), consulted=(SOURCE,), **fields)


def mutated(changes: Sequence[Change], **fields: Any) -> Decision:
    patch = [{"op": "add", "path": "/spec/priorityClassName", "value": "train"}]
    return Decision(
        True, mapped=True, changes=tuple(changes), patch=patch, consulted=(SOURCE,), **fields
    )
