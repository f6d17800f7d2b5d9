"""Values of environment variables and the like, however a mapping comes to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import JsonObject, make_gvk_policy, make_request, make_rule
from tests.jq import ACME, Jq, make_acme_job, make_formatter, make_group, make_mapping
from webhook.admission.report import report_of
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits
from webhook.model.decision import NOT_SHOWN, Decision
from webhook.policy.computed.hiding import says_one_of, secret_texts

SECRET = "S3CRET"
ENV = [{"name": "A", "value": SECRET}]

QUERIES = [
    pytest.param(".spec.env[]", id="spelled"),
    pytest.param('.spec | .. | objects | select(.name == "A")', id="anywhere"),
    pytest.param('.spec["e" + "nv"][]', id="computed-key"),
    pytest.param(".spec | to_entries[0] as $e | .[$e.key][]", id="entries"),
]


@pytest.fixture(scope="module")
def jq() -> Iterator[Jq]:
    with JqWorker(WorkerLimits(evaluate_ms=2000)) as worker:
        yield Jq(worker)


def decide(jq: Jq, query: str, fields: JsonObject, *rules: Any, **more: Any) -> Decision:
    policy = make_gvk_policy(*rules, kind=ACME)
    policy["spec"].update(more)
    snapshot = jq.snapshot(make_group(fields), make_mapping(query), policy)
    return jq.submit(snapshot, make_acme_job(env=ENV)).decision


def told(decision: Decision) -> str:
    """All that anybody is told: violations, changes, warnings, previews."""
    return json.dumps(report_of("x.yaml#0", make_request(make_acme_job()), decision), default=str)


@pytest.mark.parametrize("query", QUERIES)
def test_a_violation_hides_what_stands_below_env_and_what_would_be_accepted(
    jq: Jq, query: str
) -> None:
    rule = make_rule("value", "s", {"options": ["correct"]})

    decision = decide(jq, query, {"value": {"type": "string"}}, rule)

    (found,) = decision.violations
    assert (found.value, found.accepted) == (NOT_SHOWN, NOT_SHOWN)
    assert SECRET not in told(decision)


@pytest.mark.parametrize("query", QUERIES)
def test_a_change_hides_it_before_and_after(jq: Jq, query: str) -> None:
    rule = make_rule("value", "s", {"set": "n3w"})

    decision = decide(jq, query, {"value": {"type": "string"}}, rule)

    (change,) = decision.changes
    assert (change.old, change.new) == (NOT_SHOWN, NOT_SHOWN)


@pytest.mark.parametrize("query", QUERIES)
def test_a_preview_hides_it(jq: Jq, query: str) -> None:
    rules = [make_rule("value", "s", {"pattern": ["x*"]})]

    decision = decide(jq, query, {"value": {"type": "string"}}, *rules, mode="Warn")

    ((found,),) = [preview.violations for preview in decision.previews]
    assert (found.value, found.accepted) == (NOT_SHOWN, NOT_SHOWN)
    assert SECRET not in told(decision)


def test_a_default_that_is_not_applied_hides_the_value_that_it_contradicts(jq: Jq) -> None:
    fields = {"low": {"type": "integer", "notAbove": "value"}, "value": {"type": "integer"}}
    policy = make_gvk_policy(make_rule("low", "s", {"default": 4711}), kind=ACME)
    snapshot = jq.snapshot(make_group(fields), make_mapping('.spec["e" + "nv"][]'), policy)

    decision = jq.submit(snapshot, make_acme_job(env=[{"name": "A", "value": 1234}])).decision

    (left_out,) = decision.not_applied
    assert left_out.reason == f"{NOT_SHOWN} is above value {NOT_SHOWN}"


@pytest.mark.parametrize("query", QUERIES)
def test_a_wrong_type_names_the_type_only(jq: Jq, query: str) -> None:
    rule = make_rule("value", "s", {"max": 5})

    decision = decide(jq, query, {"value": {"type": "integer"}}, rule)

    assert decision.violations[0].value == "text"
    assert SECRET not in told(decision)


def test_a_flag_is_shown_wherever_it_stands(jq: Jq) -> None:
    policy = make_gvk_policy(make_rule("on", "s", {"options": [False]}), kind=ACME)
    snapshot = jq.snapshot(
        make_group({"on": {"type": "boolean"}}), make_mapping('.spec["e" + "nv"][]'), policy
    )

    decision = jq.submit(snapshot, make_acme_job(env=[{"name": "A", "on": True}])).decision

    assert decision.violations[0].value is True


def test_a_place_beside_env_is_shown_by_the_same_query(jq: Jq) -> None:
    policy = make_gvk_policy(make_rule("value", "s", {"options": ["x"]}), kind=ACME)
    query = '.spec | .. | objects | select(.name == "A")'
    snapshot = jq.snapshot(make_group({"value": {"type": "string"}}), make_mapping(query), policy)
    job = make_acme_job(env=ENV, roles=[{"name": "A", "value": "y"}])

    found = jq.submit(snapshot, job).decision.violations

    assert {violation.path[1]: violation.value for violation in found} == {
        "env": NOT_SHOWN,
        "roles": "y",
    }


def test_a_field_of_a_built_in_group_is_as_secret_as_that_group_says(jq: Jq) -> None:
    """Its own path counts for nothing: what it names are secrets, and no values of them."""
    policy = make_gvk_policy(make_rule("imagePullSecrets", "s", {"options": ["ok"]}), kind=ACME)
    snapshot = jq.snapshot(make_mapping(".spec.template.spec", "podSpec"), policy)
    job = make_acme_job(template={"spec": {"imagePullSecrets": [{"name": "mine"}]}})

    (found,) = jq.submit(snapshot, job).decision.violations

    assert (found.value, found.accepted) == (["mine"], 'one of ok; "mine" is none of them')


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"options": ["x"]}, id="violation"),
        pytest.param({"set": "x"}, id="change"),
    ],
)
def test_a_text_of_a_hidden_list_does_not_give_its_name_to_the_item(
    jq: Jq, rule: JsonObject
) -> None:
    group = make_group(
        {"args": {"type": "strings", "itemSelectors": ["all"]}},
        itemSelectors={"all": {"query": "true"}},
    )
    policy = make_gvk_policy(make_rule("args", "s", rule, itemSelector="all"), kind=ACME)

    decision = jq.submit(
        jq.snapshot(group, make_mapping(), policy), make_acme_job(args=[SECRET])
    ).decision

    told_of = [item.item for item in decision.violations]
    assert told_of + [change.item for change in decision.changes] == ["0"]
    assert SECRET not in told(decision)


# --- formatters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "get",
    [
        '[.. | objects | select(.name? == "A")][0].value',
        ".main | [.[] | arrays][0][0].value",
        '.main["e" + "nv"][0].value',
        ".main | to_entries[0].value[0].value",
        "[.main[] | arrays][0][0].value",
        '[.main[]] | "got \\(.[0])"',
    ],
)
def test_a_getexpr_that_may_read_a_secret_hides_its_value(jq: Jq, get: str) -> None:
    documents = [
        make_formatter({"f": {"getExpr": get, "argsInfo": {"value": "string"}}}),
        make_group({"f": {"formatter": "acme"}}),
        make_mapping(),
        make_gvk_policy(make_rule("f", "s", {"options": ["correct"]}), kind=ACME),
    ]

    decision = jq.submit(jq.snapshot(*documents), make_acme_job(main={"env": ENV})).decision

    (found,) = decision.violations
    assert (found.value, found.accepted) == (NOT_SHOWN, NOT_SHOWN)
    assert SECRET not in told(decision)


def test_a_getexpr_that_goes_through_items_shows_what_is_no_secret(jq: Jq) -> None:
    get = "[.main[] | strings][0]"
    documents = [
        make_formatter({"f": {"getExpr": get, "argsInfo": {"value": "string"}}}),
        make_group({"f": {"formatter": "acme"}}),
        make_mapping(),
        make_gvk_policy(make_rule("f", "s", {"options": ["fast"]}), kind=ACME),
    ]

    job = make_acme_job(main={"mode": "slow", "env": ENV})
    decision = jq.submit(jq.snapshot(*documents), job).decision

    assert (decision.violations[0].value, decision.violations[0].accepted) == (
        "slow",
        "one of fast",
    )


def test_no_built_in_formatter_hides_its_value(jq: Jq) -> None:
    mappings = jq.snapshot().mappings.values()
    computed = [
        field
        for mapping in mappings
        for selector in mapping.selectors.values()
        for field in (*selector.fields.values(), *selector.native.values())
        if field.formatter is not None
    ]

    assert [field.name for field in computed if field.sensitive] == []
    assert all(field.formatter.names_all for field in computed if field.formatter)


def test_a_key_of_an_item_that_is_a_secret_is_not_the_name_of_the_item(jq: Jq) -> None:
    items = {
        "getExpr": ".main[][] | {name: .value, value: .name}",
        "arrayKey": {"argName": "name"},
        "argsInfo": {"name": "string", "value": "string"},
    }
    documents = [
        make_formatter({"f": items}),
        make_group({"f": {"formatter": "acme"}}),
        make_mapping(),
        make_gvk_policy(make_rule("f", "s", {"options": ["x"]}), kind=ACME),
    ]

    decision = jq.submit(jq.snapshot(*documents), make_acme_job(main={"env": ENV})).decision

    assert decision.violations[0].item == NOT_SHOWN
    assert SECRET not in told(decision)


def test_a_secret_that_a_setexpr_copies_is_hidden_where_it_goes(jq: Jq) -> None:
    copies = {
        "getExpr": ".port",
        "setExpr": "{port: $ARGS.named.value, note: ([.main[]? | arrays[].value][0] // null)}",
        "argsInfo": {"value": "integer"},
    }
    documents = [
        make_formatter({"f": copies}),
        make_group({"f": {"formatter": "acme"}}),
        make_mapping(),
        make_gvk_policy(make_rule("f", "s", {"default": 80}), kind=ACME),
    ]

    decision = jq.submit(jq.snapshot(*documents), make_acme_job(main={"env": ENV})).decision

    assert {change.path[-1]: change.new for change in decision.changes} == {
        "port": 80,
        "note": NOT_SHOWN,
    }


def test_the_texts_at_secret_keys_are_found_at_any_depth() -> None:
    node: Any = {"x": "no", "env": [{"name": "A", "value": {"deep": 7}}], "on": True}
    node = {"list": [node, {"annotations": {"k": "v", "flag": False, "none": None, "e": ""}}]}

    assert secret_texts(node) == {"A", "7", "v"}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param("hunter22", True, id="itself"),
        pytest.param("user:hunter22@h", True, id="in-a-text"),
        pytest.param({"a": ["hunter22"]}, True, id="in-an-object"),
        pytest.param("hunter2", False, id="a-short-part"),
        pytest.param("hunter222", True, id="more-than-it"),
        pytest.param("x1y", False, id="short-secret-in-a-text"),
        pytest.param(1, True, id="number"),
        pytest.param(True, False, id="flag"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_a_value_says_a_secret_that_it_is_or_holds(value: Any, says: bool) -> None:
    assert says_one_of(value, {"hunter22", "1"}) is says
