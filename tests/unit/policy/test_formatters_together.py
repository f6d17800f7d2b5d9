"""Fields of formatters beside one another, and beside plain fields, in one element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import Answer, JsonObject, make_gvk_policy, make_request, make_rule
from tests.jq import ACME, Jq, make_acme_job, make_formatter, make_group, make_mapping
from webhook.admission.review import review
from webhook.errors import EvaluationError
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits
from webhook.mapping.locate import answer_by_jq
from webhook.model.pointer import to_pointer
from webhook.model.request import Phase
from webhook.store.snapshot import Snapshot


def part(index: int, separator: str = ",") -> JsonObject:
    """The field that is one part of the text at `t`."""
    parts = f'(.t // "" | split("{separator}"))'
    return {
        "getExpr": f'.t // empty | split("{separator}") | .[{index}] | select(. != "")',
        "setExpr": f'{{t: ({parts} | .[{index}] = $ARGS.named.value | map(. // "")'
        f' | join("{separator}"))}}',
        "argsInfo": {"value": "string"},
    }


def at(name: str, beside: str = "") -> JsonObject:
    """The field that stands at *name*; its setExpr writes more *beside* it."""
    return {
        "getExpr": f".{name}",
        "setExpr": f"{{{name}: $ARGS.named.value{beside}}}",
        "argsInfo": {"value": "integer"},
    }


FIRST = {
    "getExpr": ".l[0]",
    "setExpr": "{l: [$ARGS.named.value, .l[1]]}",
    "argsInfo": {"value": "integer"},
}
SECOND = {
    "getExpr": ".l[1]",
    "setExpr": "{l: [.l[0], $ARGS.named.value]}",
    "argsInfo": {"value": "integer"},
}
# Items that stand in one text: `a=1,b=2`.
PAIRS = {
    "getExpr": '.t // empty | split(",")[] | split("=") | {name: .[0], value: .[1]}',
    "setExpr": '{t: ([(.t // "" | split(",")[] | select(startswith($ARGS.named.name + "=") | not)),'
    ' $ARGS.named.name + "=" + $ARGS.named.value] | join(","))}',
    "arrayKey": {"argName": "name"},
    "argsInfo": {"name": "string", "value": "string"},
}
NUMBERED = {
    "getExpr": ".ports[]?",
    "setExpr": "{ports: [{id: $ARGS.named.id, value: $ARGS.named.value}]}",
    "arrayKey": {"argName": "id"},
    "argsInfo": {"id": "integer", "value": "integer"},
}
FORMATTER = make_formatter(
    {
        **{f"p{index}": part(index) for index in range(6)},
        "first": FIRST,
        "second": SECOND,
        "x": at("x"),
        "alsoX": at("x"),
        "y": at("y"),
        "wideY": at("y", ", x: 5"),
        "sum": {**at("sum"), "setExpr": "{sum: ($ARGS.named.value + 0), seen: .x}"},
        "pairs": PAIRS,
        "numbered": NUMBERED,
        **{f"z{index}": at(f"z{index}") for index in range(12)},
    }
)
GROUP = make_group(
    {
        **{name: {"formatter": "acme"} for name in FORMATTER["spec"]["fields"]},
        "pairs": {"formatter": "acme", "itemSelectors": ["all"]},
        "plainX": {"type": "integer", "specRef": "x"},
    },
    itemSelectors={"all": {"query": "true"}},
)


@pytest.fixture(scope="module")
def worker() -> Iterator[CountingWorker]:
    with CountingWorker(WorkerLimits(evaluate_ms=2000)) as counting:
        yield counting


@pytest.fixture(scope="module")
def jq(worker: CountingWorker) -> Jq:
    return Jq(worker)


class CountingWorker(JqWorker):
    """Counts the trips for values."""

    trips = 0

    def evaluate_values(self, *args: Any) -> Any:
        self.trips += 1
        return super().evaluate_values(*args)


def policies(*rules: tuple[str, JsonObject]) -> list[JsonObject]:
    """One policy for each rule, the first of them the oldest."""
    return [
        make_gvk_policy(make_rule(field, "s", rule), kind=ACME, name=f"p{index}")
        for index, (field, rule) in enumerate(rules)
    ]


def under(jq: Jq, *rules: tuple[str, JsonObject]) -> Snapshot:
    return jq.snapshot(FORMATTER, GROUP, make_mapping(), *policies(*rules))


def submit(jq: Jq, spec: JsonObject, *rules: tuple[str, JsonObject], **more: Any) -> Answer:
    return jq.submit(under(jq, *rules), make_acme_job(**spec), **more)


def changes_of(answer: Answer) -> list[tuple[str, str, Any, Any]]:
    return [(to_pointer(c.path), c.field, c.old, c.new) for c in answer.decision.changes]


# --- fields that write into one value ------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "rules", "want"),
    [
        pytest.param(
            {"t": "p,q"},
            [("p0", {"set": "x"}), ("p1", {"set": "y"})],
            {"t": "x,y"},
            id="sets-of-a-text",
        ),
        pytest.param(
            {}, [("p0", {"default": "x"}), ("p1", {"default": "y"})], {"t": "x,y"}, id="defaults"
        ),
        pytest.param(
            {"t": "p,q"},
            [("p0", {"set": "x"}), ("p2", {"default": "z"})],
            {"t": "x,q,z"},
            id="set-and-default",
        ),
        pytest.param(
            {"l": [5, 6]},
            [("first", {"set": 1}), ("second", {"set": 2})],
            {"l": [1, 2]},
            id="sets-of-a-list",
        ),
        pytest.param(
            {}, [("second", {"default": 2}), ("first", {"default": 1})], {"l": [1, 2]}, id="list"
        ),
        pytest.param(
            {"t": "p,q,r,s,u"},
            [(f"p{index}", {"set": f"{index}"}) for index in range(5)],
            {"t": "0,1,2,3,4"},
            id="five",
        ),
    ],
)
def test_each_field_sees_what_the_last_one_wrote(
    jq: Jq, spec: JsonObject, rules: list[tuple[str, JsonObject]], want: JsonObject
) -> None:
    answer = submit(jq, spec, *rules)

    assert answer.allowed
    assert answer.document["spec"] == want
    assert len({operation["path"] for operation in answer.patch}) == len(answer.patch)
    assert jq.submit(under(jq, *rules), answer.document).patch == []


@pytest.mark.slow
def test_each_field_tells_what_it_changed_and_the_patch_has_it_once(jq: Jq) -> None:
    answer = submit(jq, {"t": "p,q"}, ("p0", {"set": "x"}), ("p1", {"set": "y"}))

    assert changes_of(answer) == [
        ("/spec/t", "p0", "p,q", "x,q"),
        ("/spec/t", "p1", "x,q", "x,y"),
    ]
    assert answer.patch == [{"op": "replace", "path": "/spec/t", "value": "x,y"}]


def test_a_default_of_an_update_sees_what_a_set_wrote(jq: Jq) -> None:
    snapshot = under(jq, ("p0", {"set": "x"}), ("p1", {"default": "y"}))
    old, new = make_acme_job(t="p,q"), make_acme_job(t="r")

    assert jq.submit(snapshot, new, old=old).document["spec"] == {"t": "x,y"}


def test_a_setexpr_sees_what_plain_fields_wrote(jq: Jq) -> None:
    answer = submit(jq, {}, ("plainX", {"default": 7}), ("sum", {"default": 1}))

    assert answer.document["spec"] == {"x": 7, "sum": 1, "seen": 7}


def test_items_that_stand_in_one_text_are_written_one_after_the_other(jq: Jq) -> None:
    policy = make_gvk_policy(
        make_rule("pairs", "s", {"set": {"value": "9"}}, itemSelector="all"), kind=ACME
    )

    answer = jq.submit(
        jq.snapshot(FORMATTER, GROUP, make_mapping(), policy), make_acme_job(t="a=1,b=2,c=9")
    )

    assert answer.allowed
    assert sorted(answer.document["spec"]["t"].split(",")) == ["a=9", "b=9", "c=9"]
    assert len(answer.patch) == 1


@pytest.mark.parametrize(
    ("rules", "trips"),
    [
        pytest.param([(f"z{index}", {"default": 1}) for index in range(12)], 2, id="independent"),
        pytest.param([("p0", {"default": "x"}), ("z0", {"default": 1})], 2, id="two"),
        pytest.param([("p0", {"default": "x"}), ("p1", {"default": "y"})], 3, id="one-overlaps"),
        pytest.param([(f"p{index}", {"default": "x"}) for index in range(4)], 5, id="three-do"),
    ],
)
def test_a_trip_more_is_made_for_each_field_that_writes_where_another_one_has(
    jq: Jq, worker: CountingWorker, rules: list[tuple[str, JsonObject]], trips: int
) -> None:
    snapshot, request = under(jq, *rules), make_request(make_acme_job())
    before = worker.trips

    answer_by_jq(
        worker, request.object or {}, lambda got: review(request, Phase.MUTATE, snapshot, got)
    )

    assert worker.trips - before == trips


# --- what can't both hold ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        pytest.param(
            [("x", {"set": 1}), ("alsoX", {"set": 2})],
            "set of x and set of alsoX can't both hold: what the second writes undoes the first",
            id="two-formatters",
        ),
        pytest.param(
            [("x", {"set": 1}), ("plainX", {"set": 2})],
            "set of plainX and set of x can't both hold: what the second writes undoes the first",
            id="a-plain-field",
        ),
        pytest.param(
            [("x", {"set": 1}), ("wideY", {"set": 2})],
            "set of x and set of wideY can't both hold: what the second writes undoes the first",
            id="beside",
        ),
        pytest.param(
            [("x", {"set": 1}), ("wideY", {"default": 2})],
            "set of x and default of wideY can't both hold: what the second writes undoes the"
            " first",
            id="a-default",
        ),
        pytest.param(
            [(f"p{index}", {"set": "x"}) for index in range(6)],
            "6 fields of formatters write into one text or list, and each has to see what the"
            " last one wrote; at most 5 can in one policy",
            id="too-many",
        ),
    ],
)
def test_a_policy_that_takes_back_what_it_writes_is_refused(
    jq: Jq, rules: list[tuple[str, JsonObject]], problem: str
) -> None:
    policy = make_gvk_policy(*[make_rule(field, "s", rule) for field, rule in rules], kind=ACME)

    (found,) = jq.build(FORMATTER, GROUP, make_mapping(), policy).problems

    assert found.problem == problem


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([("x", {"set": 1}), ("alsoX", {"set": 1})], id="the-same-value"),
        pytest.param([("x", {"default": 1}), ("alsoX", {"default": 2})], id="defaults"),
        pytest.param([("x", {"set": 1}), ("alsoX", {"default": 2})], id="set-and-default"),
        pytest.param([("plainX", {"default": 1}), ("wideY", {"default": 2})], id="left-out"),
        pytest.param([("p0", {"set": "x"}), ("p1", {"set": "y"})], id="one-text"),
    ],
)
def test_a_policy_whose_fields_go_together_is_taken(
    jq: Jq, rules: list[tuple[str, JsonObject]]
) -> None:
    policy = make_gvk_policy(*[make_rule(field, "s", rule) for field, rule in rules], kind=ACME)

    assert jq.build(FORMATTER, GROUP, make_mapping(), policy).problems == ()


@pytest.mark.parametrize(
    ("spec", "rules", "failure"),
    [
        pytest.param(
            {},
            [("x", {"set": 1}), ("alsoX", {"set": 2})],
            "set of x (policy p0, tenant) and what alsoX (policy p1, tenant) writes at /spec"
            " can't both hold: the second undoes the first",
            id="two-formatters",
        ),
        pytest.param(
            {"x": 1},
            [("x", {"set": 1}), ("wideY", {"default": 2})],
            "set of x (policy p0, tenant) and what wideY (policy p1, tenant) writes at /spec"
            " can't both hold: the second undoes the first",
            id="it-was-there-already",
        ),
        pytest.param(
            {},
            [("x", {"default": 1}), ("wideY", {"default": 2})],
            "default of x (policy p0, tenant) and what wideY (policy p1, tenant) writes at /spec"
            " can't both hold: the second undoes the first",
            id="defaults",
        ),
        pytest.param(
            {},
            [("plainX", {"set": 1}), ("wideY", {"set": 2})],
            "set of wideY (policy p1, tenant): setExpr of acme.wideY would write over /spec/x of"
            " plainX (policy p0, tenant)",
            id="a-plain-field",
        ),
    ],
)
def test_policies_that_take_back_what_another_one_writes_fail_and_say_which(
    jq: Jq, spec: JsonObject, rules: list[tuple[str, JsonObject]], failure: str
) -> None:
    """It is nobody's violation: the submitter wrote neither."""
    with pytest.raises(EvaluationError) as raised:
        submit(jq, spec, *rules)

    assert str(raised.value) == failure


@pytest.mark.slow
def test_a_text_that_too_many_policies_write_is_a_failure(jq: Jq) -> None:
    formatter = make_formatter({f"p{index}": part(index) for index in range(24)})
    group = make_group({f"p{index}": {"formatter": "acme"} for index in range(24)})
    rules = [(f"p{index}", {"default": "x"}) for index in range(24)]
    snapshot = jq.snapshot(formatter, group, make_mapping(), *policies(*rules))

    with pytest.raises(EvaluationError, match="looked at again and again"):
        jq.submit(snapshot, make_acme_job())


# --- what is absent now --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "rules", "want", "changes"),
    [
        pytest.param(
            {},
            [("x", {"default": 1}), ("alsoX", {"default": 2})],
            [{"op": "add", "path": "/spec/x", "value": 1}],
            [("/spec/x", "x", None, 1)],
            id="two-formatters",
        ),
        pytest.param(
            {},
            [("x", {"default": 1}), ("plainX", {"default": 2})],
            [{"op": "add", "path": "/spec/x", "value": 2}],
            [("/spec/x", "plainX", None, 2)],
            id="a-plain-field-first",
        ),
        pytest.param(
            {},
            [("x", {"default": 1}), ("plainX", {"set": 2})],
            [{"op": "add", "path": "/spec/x", "value": 2}],
            [("/spec/x", "plainX", None, 2)],
            id="a-plain-set",
        ),
        pytest.param(
            {},
            [("x", {"set": 1}), ("plainX", {"default": 2})],
            [{"op": "add", "path": "/spec/x", "value": 1}],
            [("/spec/x", "x", None, 1)],
            id="a-formatter-sets",
        ),
        pytest.param({"x": 3}, [("x", {"default": 1}), ("alsoX", {"default": 2})], [], [], id="no"),
    ],
)
def test_a_default_fills_what_is_absent_after_all_that_was_written(
    jq: Jq, spec: JsonObject, rules: list[tuple[str, JsonObject]], want: Any, changes: Any
) -> None:
    answer = submit(jq, spec, *rules)

    assert answer.allowed
    assert answer.patch == want
    assert changes_of(answer) == changes


@pytest.mark.parametrize("rule", ["set", "default"])
def test_a_default_that_would_write_over_a_plain_field_is_left_out(jq: Jq, rule: str) -> None:
    rules = [("plainX", {rule: 2}), ("wideY", {"default": 1})]

    answer = submit(jq, {}, *rules)

    assert answer.patch == [{"op": "add", "path": "/spec/x", "value": 2}]
    assert [item.reason for item in answer.decision.not_applied] == [
        "setExpr of acme.wideY would write over /spec/x of plainX (policy p0, tenant)"
    ]


# --- keys of items -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "ports", "want"),
    [
        pytest.param(1, [{"id": 1, "value": 1}], [{"id": 1, "value": 2}], id="equal"),
        pytest.param(1, [{"id": "1", "value": 1}], [{"id": 1, "value": 2}], id="as-text"),
        pytest.param("1", [{"id": 1, "value": 1}], [{"id": 1, "value": 2}], id="text-in-policy"),
        pytest.param(1, [{"id": "1", "value": 2}], [{"id": "1", "value": 2}], id="says-so"),
        pytest.param(1, [{"id": 1.0, "value": 1}], [{"id": 1.0, "value": 2}], id="as-fraction"),
    ],
)
def test_a_key_of_an_item_is_compared_by_its_meaning(
    jq: Jq, key: Any, ports: Any, want: Any
) -> None:
    rules = [("numbered", {"set": {"id": key, "value": 2}})]

    answer = submit(jq, {"ports": ports}, *rules)

    assert answer.allowed
    assert answer.document["spec"]["ports"] == want
    assert jq.submit(under(jq, *rules), answer.document).patch == []


def test_true_is_not_taken_for_the_key_1(jq: Jq) -> None:
    answer = submit(
        jq,
        {"ports": [{"id": True, "value": 1}]},
        ("numbered", {"default": {"id": 1, "value": 2}}),
    )

    assert answer.document["spec"]["ports"] == [{"id": True, "value": 1}, {"id": 1, "value": 2}]
