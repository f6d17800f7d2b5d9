"""Of a value of the wrong type everything is told that no other type would mend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from tests.jq import ACME, Jq, make_acme_job, make_formatter, make_group, make_mapping
from webhook.mapping.evaluator import JqWorker

DEPLOYED: JsonObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "team-a"},
    "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:1"}]}}},
}


def broken_by_training(spec: JsonObject, **sections: Any) -> list[tuple[str, str]]:
    snapshot = make_snapshot(make_workload_policy(**sections))
    assert snapshot.problems == ()
    return submit(snapshot, make_training(**spec)).broken


@pytest.mark.parametrize(
    ("rules", "value", "broken"),
    [
        pytest.param({"blocked": True}, "abc", ["blocked", "type"], id="blocked"),
        pytest.param({"canEdit": False}, "abc", ["canEdit", "type"], id="no-value-but-none"),
        pytest.param(
            {"min": 1, "blocked": True, "max": 5}, "abc", ["blocked", "type"], id="among-others"
        ),
        pytest.param({"max": 5}, "abc", ["type"], id="another-type-may-keep-it"),
        pytest.param({"required": True}, "abc", ["type"], id="required"),
        # Of the right type, it is one violation.
        pytest.param({"blocked": True}, 3, ["blocked"], id="right-type"),
        # An empty text is nothing that is blocked.
        pytest.param({"blocked": True}, "", ["type"], id="empty"),
    ],
)
def test_what_stands_against_any_value_is_told_beside_the_type(
    rules: JsonObject, value: Any, broken: list[str]
) -> None:
    found = broken_by_training({"parallelism": value}, rules={"parallelism": rules})

    assert found == [("/spec/parallelism", rule) for rule in broken]


def test_a_default_of_the_right_type_would_be_accepted() -> None:
    """With `canEdit: false`: whoever writes the default has mended all."""
    found = broken_by_training(
        {"parallelism": "abc"},
        defaults={"parallelism": 2},
        rules={"parallelism": {"canEdit": False}},
    )

    assert found == [("/spec/parallelism", "type")]


def test_an_attribute_of_an_item_is_judged_likewise() -> None:
    rules = {"storage": {"hostPath": {"attributes": {"readOnly": {"blocked": True}}}}}
    item = {"name": "d", "path": "/d", "mountPath": "/d", "readOnly": "yes"}

    found = broken_by_training({"storage": {"hostPath": [item]}}, rules=rules)

    at = "/spec/storage/hostPath/0/readOnly"
    assert found == [(at, "blocked"), (at, "type")]


def test_a_key_of_a_map_is_judged_likewise() -> None:
    rule = make_rule("resourceLimits", "allContainers", {"blocked": {"key": "example.com/gpu"}})
    snapshot = make_snapshot(make_gvk_policy(rule, kind=DEPLOYMENT))
    container = {"name": "main", "resources": {"limits": {"example.com/gpu": "many", "cpu": "1"}}}
    spec = {"template": {"spec": {"containers": [container]}}}

    found = submit(snapshot, {**DEPLOYED, "spec": spec}).broken

    at = "/spec/template/spec/containers/0/resources/limits/example.com~1gpu"
    assert found == [(at, "blocked"), (at, "type")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "broken"),
    [(["x"], ["blocked", "type"]), (3, ["blocked"])],
    ids=["wrong-type", "right-type"],
)
def test_a_field_of_a_formatter_is_judged_likewise(value: Any, broken: list[str]) -> None:
    seed = {"getExpr": ".seed", "setExpr": "{seed: $ARGS.named.value}"}
    documents = (
        make_formatter({"seed": {**seed, "argsInfo": {"value": "integer"}}}),
        make_group({"seed": {"formatter": "acme", "type": "integer"}}),
        make_mapping(),
        make_gvk_policy(make_rule("seed", "s", {"blocked": True}), kind=ACME),
    )
    with JqWorker() as worker:
        jq = Jq(worker)
        found = jq.submit(jq.snapshot(*documents), make_acme_job(seed=value)).broken

    assert [rule for _, rule in found] == broken
