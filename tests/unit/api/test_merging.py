from __future__ import annotations

from typing import Any

import pytest

from tests.builders import make_rule
from webhook.api.problems import BadRequestError
from webhook.api.rest.merging import merge_patch, merge_rules


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        # The examples of RFC 7396, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_is_that_of_the_standard(target: Any, patch: Any, want: Any) -> None:
    assert merge_patch(target, patch) == want


CPU = {"max": {"key": "cpu", "value": "8"}}
MEMORY = {"max": {"key": "memory", "value": "64Gi"}}
LIMITS = make_rule("resourceLimits", "allContainers", CPU, MEMORY)
IMAGE = make_rule("image", "allContainers", {"required": True}, {"pattern": ["a/*"]})


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param([], [LIMITS, IMAGE], id="nothing"),
        pytest.param(
            [make_rule("env", "allContainers", {"blocked": True})],
            [LIMITS, IMAGE, make_rule("env", "allContainers", {"blocked": True})],
            id="a-new-rule",
        ),
        pytest.param(
            [make_rule("image", "mainContainer", {"required": True})],
            [LIMITS, IMAGE, make_rule("image", "mainContainer", {"required": True})],
            id="the-same-field-elsewhere",
        ),
        pytest.param(
            [make_rule("image", "allContainers", {"pattern": ["b/*"]})],
            [
                LIMITS,
                make_rule("image", "allContainers", {"required": True}, {"pattern": ["b/*"]}),
            ],
            id="an-enforcement-in-the-place-of-its-like",
        ),
        pytest.param(
            [make_rule("resourceLimits", "allContainers", {"max": {"key": "cpu", "value": "4"}})],
            [
                make_rule(
                    "resourceLimits",
                    "allContainers",
                    {"max": {"key": "cpu", "value": "4"}},
                    MEMORY,
                ),
                IMAGE,
            ],
            id="keys-are-apart",
        ),
        pytest.param(
            [make_rule("image", "allContainers", {"Pattern": None})],
            [LIMITS, make_rule("image", "allContainers", {"required": True})],
            id="null-removes-an-enforcement",
        ),
        pytest.param(
            [make_rule("resourceLimits", "allContainers", {"max": {"key": "cpu", "value": None}})],
            [make_rule("resourceLimits", "allContainers", MEMORY), IMAGE],
            id="null-removes-that-of-a-key",
        ),
        pytest.param(
            [{"field": "image", "specSelector": "allContainers", "enforcements": None}],
            [LIMITS],
            id="null-removes-a-rule",
        ),
        pytest.param(
            [make_rule("image", "allContainers", {"required": None}, {"pattern": None})],
            [LIMITS],
            id="a-rule-without-enforcements-goes",
        ),
        pytest.param(
            [make_rule("image", "allContainers", {"required": True}, allowOverride=True)],
            [LIMITS, {**IMAGE, "allowOverride": True}],
            id="what-else-a-rule-says",
        ),
        pytest.param(
            [make_rule("env", "allContainers", {"blocked": None})],
            [LIMITS, IMAGE, make_rule("env", "allContainers")],
            id="nothing-to-remove",
        ),
    ],
)
def test_rules_merge_by_their_identity(patch: list[Any], want: list[Any]) -> None:
    assert merge_rules([LIMITS, IMAGE], patch) == want


def test_parameters_of_selectors_tell_rules_apart() -> None:
    rule = make_rule("ports", "allContainers", {"blocked": True}, itemSelector="named")
    http = {**rule, "selectorParams": {"name": "http"}}
    https = {**rule, "selectorParams": {"name": "https"}}

    assert merge_rules([http], [https]) == [http, https]
    assert merge_rules([http], [http]) == [http]


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        pytest.param({}, "rules", id="no-list"),
        pytest.param(["x"], r"rules\[0\]", id="no-rule"),
        pytest.param(
            [{"field": "x", "enforcements": {}}], r"rules\[0\].enforcements", id="no-list"
        ),
    ],
)
def test_what_is_no_rule_is_refused(patch: Any, path: str) -> None:
    with pytest.raises(BadRequestError, match=path):
        merge_rules([IMAGE], patch)
