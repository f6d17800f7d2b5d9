"""Values that are judged once and then known."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
    submit,
)
from webhook.policy.rules.kept import KeptValues


@pytest.mark.parametrize(
    ("kept", "other"),
    [
        pytest.param(1, True, id="a-number-is-no-flag"),
        pytest.param(1, 1.0, id="an-integer-is-no-float"),
        pytest.param("1", 1, id="text-is-no-number"),
        pytest.param("a", ["a"], id="a-text-is-no-list"),
    ],
)
def test_a_value_is_known_with_its_type(kept: Any, other: Any) -> None:
    values = KeptValues()

    values.add(kept)

    assert kept in values
    assert other not in values


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": 1}, id="an-object"),
        pytest.param(["a"], id="a-list"),
        pytest.param("x" * 1000, id="a-long-text"),
        pytest.param(None, id="nothing"),
    ],
)
def test_only_short_plain_values_are_kept(value: Any) -> None:
    values = KeptValues()

    values.add(value)

    assert value not in values


def test_the_newest_of_many_values_is_known() -> None:
    """However many values come, those that come now are told from the others."""
    values = KeptValues()

    for number in range(1000):
        values.add(number)

    assert 999 in values
    assert sum(number in values for number in range(1000)) <= 128


@pytest.mark.parametrize(
    ("beside", "count"),
    [
        pytest.param({"privileged": True}, 1, id="contradicted"),
        pytest.param({}, 0, id="alone"),
    ],
)
def test_what_is_beside_a_known_value_is_looked_at_each_time(
    beside: JsonObject, count: int
) -> None:
    rule = make_rule("allowPrivilegeEscalation", "allContainers", {"set": False})
    snapshot = make_snapshot(make_gvk_policy(rule))
    # The first pod has nothing beside it, so that its value is known afterwards.
    submit(snapshot, make_pod(containers=[make_container(securityContext={})]))

    security = {"allowPrivilegeEscalation": False, **beside}
    found = submit(snapshot, make_pod(containers=[make_container(securityContext=security)]))

    assert len(found.decision.violations) == count


def test_a_broken_rule_is_told_each_time() -> None:
    rule = make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]})
    snapshot = make_snapshot(make_gvk_policy(rule))
    pod = make_pod(containers=[make_container(image="docker.io/library/busybox")])

    found = [submit(snapshot, pod).decision.violations for _ in range(3)]

    assert [[violation.field for violation in each] for each in found] == [["image"]] * 3
