"""What another webhook makes of an object after we have seen it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import (
    make_container,
    make_gvk_policy,
    make_pod,
    make_request,
    make_rule,
    make_snapshot,
)
from webhook.admission.review import review
from webhook.model.request import Phase

SNAPSHOT = make_snapshot(
    make_gvk_policy(
        make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}),
        make_rule("privileged", "allContainers", {"set": False}),
        make_rule("labels", "metadata", {"required": {"key": "team"}}),
        make_rule("resourceLimits", "allContainers", {"max": {"key": "cpu", "value": 8}}),
    )
)


def completed() -> dict[str, Any]:
    """A pod as we leave it."""
    pod = make_pod(containers=[make_container(image="ghcr.io/x")])
    pod["metadata"]["labels"] = {"team": "a"}
    assert review(make_request(pod), Phase.MUTATE, SNAPSHOT).allowed
    return pod


def container(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


CHANGES: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("a-set-undone", lambda pod: container(pod)["securityContext"].update(privileged=True), "set"),
    ("another-image", lambda pod: container(pod).update(image="docker.io/x"), "pattern"),
    ("a-label-taken", lambda pod: pod["metadata"].pop("labels"), "required"),
    (
        "more-than-allowed",
        lambda pod: container(pod).update(resources={"limits": {"cpu": "9"}}),
        "max",
    ),
    (
        "a-sidecar",
        lambda pod: pod["spec"]["containers"].append(make_container("s", image="docker.io/s")),
        "pattern",
    ),
]


@pytest.mark.parametrize(
    ("change", "rule"), [pytest.param(change, rule, id=name) for name, change, rule in CHANGES]
)
def test_what_is_changed_after_us_is_judged_as_it_will_be_stored(
    change: Callable[[dict[str, Any]], Any], rule: str
) -> None:
    pod = completed()
    change(pod)

    decision = review(make_request(pod), Phase.VALIDATE, SNAPSHOT)

    assert rule in [violation.rule for violation in decision.violations]
    assert not decision.allowed


def test_what_is_left_alone_passes() -> None:
    assert review(make_request(completed()), Phase.VALIDATE, SNAPSHOT).allowed
