"""Which values of somebody's own kind are secrets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import POLICY_API, make_gvk_policy, make_rule, make_snapshot, submit
from webhook.model.decision import NOT_SHOWN

KIND = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}


def answer(query: str, fields: dict[str, Any], rule: Any, spec: Any, kind: Any = KIND) -> Any:
    documents = [
        {
            "apiVersion": POLICY_API,
            "kind": "FieldGroup",
            "metadata": {"name": "own"},
            "spec": {"fields": fields},
        },
        {
            "apiVersion": POLICY_API,
            "kind": "SpecMapping",
            "metadata": {"name": "acme"},
            "spec": {
                "workloadType": kind,
                "specSelectors": {"s": {"query": query, "fieldGroups": ["own"]}},
            },
        },
        make_gvk_policy(rule, kind=kind),
    ]
    snapshot = make_snapshot(*documents)
    assert snapshot.problems == ()
    group = f"{kind['group']}/" if "group" in kind else ""
    workload = {
        "apiVersion": f"{group}{kind['version']}",
        "kind": kind["kind"],
        "metadata": {},
        **spec,
    }
    return submit(snapshot, workload).violation.value


@pytest.mark.parametrize(
    ("query", "fields", "rule", "spec"),
    [
        pytest.param(
            ".spec.env[]?",
            {"value": {"type": "string"}},
            make_rule("value", "s", {"options": ["x"]}),
            {"spec": {"env": [{"name": "TOKEN", "value": "hunter2"}]}},
            id="below-env",
        ),
        pytest.param(
            ".spec",
            {"vars": {"formatter": "KeyValueMap"}},
            make_rule("vars", "s", {"options": {"key": "DB_PASSWORD", "values": ["x"]}}),
            {"spec": {"vars": {"DB_PASSWORD": "hunter2"}}},
            id="key-of-a-map",
        ),
        pytest.param(
            ".metadata.annotations",
            {"user": {"type": "string"}},
            make_rule("user", "s", {"options": ["x"]}),
            {"metadata": {"annotations": {"user": "hunter2"}}},
            id="annotations",
        ),
        pytest.param(
            ".spec",
            {"pin": {"specRef": "password", "type": "integer"}},
            make_rule("pin", "s", {"max": 1}),
            {"spec": {"password": 1234}},
            id="a-number",
        ),
        pytest.param(
            ".spec",
            {"apiKey": {"type": "string"}},
            make_rule("apiKey", "s", {"options": ["x"]}),
            {"spec": {"apiKey": "hunter2"}},
            id="by-its-name",
        ),
    ],
)
def test_a_secret_is_known_by_where_it_stands(
    query: str, fields: Any, rule: Any, spec: Any
) -> None:
    assert answer(query, fields, rule, spec) == NOT_SHOWN


def test_nothing_of_a_secret_is_shown() -> None:
    shown = answer(
        ".",
        {"type": {"type": "string"}},
        make_rule("type", "s", {"options": ["Opaque"]}),
        {"type": "other"},
        kind={"version": "v1", "kind": "Secret"},
    )

    assert shown == NOT_SHOWN


def test_other_values_are_shown() -> None:
    shown = answer(
        ".spec",
        {"queue": {"type": "string"}},
        make_rule("queue", "s", {"options": ["x"]}),
        {"spec": {"queue": "fast"}},
    )

    assert shown == "fast"
