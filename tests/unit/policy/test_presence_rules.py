"""Rules on whether something is there: `customUrl`, `customExternalPort`, `exclude`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    Answer,
    JsonObject,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)

URLS = "exposedUrls"
OWN_URL = {"name": "a", "container": 80, "url": "https://a.example"}
MADE_URL = {"name": "a", "container": 80}


def submit_under(document: JsonObject, **spec: Any) -> Answer:
    snapshot = make_snapshot(make_workload_policy(**spec))
    assert [str(problem) for problem in snapshot.problems] == []
    return submit(snapshot, document)


@pytest.mark.parametrize(
    ("field", "name", "rule", "item", "broken"),
    [
        pytest.param(URLS, "customUrl", {"blocked": True}, OWN_URL, ["/0/url blocked"], id="own"),
        pytest.param(URLS, "customUrl", {"blocked": True}, MADE_URL, [], id="made"),
        pytest.param(URLS, "customUrl", {"canEdit": False}, OWN_URL, ["/0/url canEdit"], id="edit"),
        pytest.param(URLS, "customUrl", {"canEdit": False}, MADE_URL, [], id="not-edited"),
        pytest.param(
            URLS, "customUrl", {"required": True}, MADE_URL, ["/0/url required"], id="must"
        ),
        pytest.param(URLS, "customUrl", {"required": True}, OWN_URL, [], id="has"),
        pytest.param(URLS, "CustomUrl", {"blocked": False}, OWN_URL, [], id="asks-for-nothing"),
        pytest.param(
            "ports",
            "customExternalPort",
            {"blocked": True},
            {"name": "a", "container": 80, "external": 30080},
            ["/0/external blocked"],
            id="own-port",
        ),
        pytest.param(
            "ports",
            "customExternalPort",
            {"blocked": True},
            {"name": "a", "container": 80},
            [],
            id="any-port",
        ),
    ],
)
def test_a_rule_on_a_custom_value_is_about_whether_there_is_one(
    field: str, name: str, rule: JsonObject, item: JsonObject, broken: list[str]
) -> None:
    snapshot = make_snapshot(make_workload_policy(rules={field: {"attributes": {name: rule}}}))
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []

    answer = submit(snapshot, make_training(**{field: [item]}))

    assert [f"{path} {told}" for path, told in answer.broken] == [
        f"/spec/{field}{where}" for where in broken
    ]


@pytest.mark.parametrize("rule", [{"canEdit": False}, {"blocked": True}], ids=str)
def test_default_tolerations_may_be_changed_but_not_dropped(rule: JsonObject) -> None:
    policy: Any = {
        "defaults": {
            "tolerations": {
                "instances": [
                    {"name": "gpu", "key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
                ]
            }
        },
        "rules": {"tolerations": {"attributes": {"exclude": rule}}},
    }
    changed = {"name": "gpu", "effect": "NoExecute"}
    dropped = {"name": "gpu", "exclude": True}
    unknown = {"name": "other", "exclude": True}

    assert submit_under(make_training(tolerations=[changed]), **policy).allowed
    assert submit_under(make_training(tolerations=[unknown]), **policy).allowed
    assert submit_under(make_training(), **policy).allowed
    refused = submit_under(make_training(tolerations=[dropped]), **policy)
    assert [told for _, told in refused.broken] == list(rule)
    assert "excluded" in refused.violation.problem


@pytest.mark.parametrize(
    ("spec", "path", "problem"),
    [
        pytest.param(
            {"rules": {URLS: {"attributes": {"customUrl": {"options": ["a"]}}}}},
            "spec.rules.exposedUrls.attributes.customUrl.options",
            "customUrl has no such rule; it has required, blocked, canEdit",
            id="no-rule-of-a-boolean",
        ),
        pytest.param(
            {"rules": {"tolerations": {"attributes": {"exclude": {"required": True}}}}},
            "spec.rules.tolerations.attributes.exclude.required",
            "exclude has no such rule; it has blocked, canEdit",
            id="nobody-has-to-drop-an-item",
        ),
        pytest.param(
            {"defaults": {"tolerations": {"attributes": {"exclude": True}}}},
            "spec.defaults.tolerations.attributes.exclude",
            "exclude can have rules, but no default",
            id="default",
        ),
        pytest.param(
            {
                "rules": {
                    URLS: {"attributes": {"customUrl": {"blocked": True}, "url": {"blocked": True}}}
                }
            },
            "spec.rules.exposedUrls.attributes.url.blocked",
            "the same rule of exposedUrls stands at"
            " spec.rules.exposedUrls.attributes.customUrl.blocked",
            id="both-names",
        ),
        pytest.param(
            {"defaults": {URLS: {"instances": [{"name": "a", "customUrl": True}]}}},
            "spec.defaults.exposedUrls.instances[0].customUrl",
            "unknown attribute; known: authorizationType, authorizedGroups, authorizedUsers,"
            " container, name, toolName, toolType, url",
            id="no-attribute-of-an-item",
        ),
    ],
)
def test_what_such_a_rule_can_not_say_is_an_error(
    spec: dict[str, Any], path: str, problem: str
) -> None:
    snapshot = make_snapshot(make_workload_policy(**spec))

    assert [(p.path, p.problem) for p in snapshot.problems] == [(path, problem)]
