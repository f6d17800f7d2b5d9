"""Which values of somebody's own kind are secrets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import POLICY_API, make_gvk_policy, make_rule, make_snapshot, submit
from tests.jq import ACME, make_acme_job, make_group, make_mapping
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
    assert [problem for problem in snapshot.problems if not problem.warning] == []
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


@pytest.mark.parametrize(
    ("address", "broken"),
    [
        pytest.param("2001:DB8:0:0::1", [], id="spelled-otherwise"),
        pytest.param("192.0.2.1", [], id="version-4"),
        pytest.param("2001:db8::2", ["options"], id="another"),
        pytest.param("192.0.2.256", ["type"], id="no-address"),
        pytest.param(3221225985, ["type"], id="number"),
    ],
)
def test_addresses_are_compared_as_addresses(address: Any, broken: list[str]) -> None:
    group = make_group({"host": {"type": "ipaddress"}})
    rule = make_rule("host", "s", {"options": ["2001:db8::1", "192.0.2.1"]})
    snapshot = make_snapshot(group, make_mapping(), make_gvk_policy(rule, kind=ACME))

    answer = submit(snapshot, make_acme_job(host=address))

    assert [name for _, name in answer.broken] == broken
