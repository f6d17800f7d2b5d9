"""
One review makes what several in a row would make, for any mapping of somebody's own: selectors
within one another, with a `dependency` or without, by plain queries and by ones that take jq.

What policies write may be a place of another selector, or hold one. Then that selector's defaults
are written and its rules judged in the same review.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from tests.builders import JsonObject, make_gvk_policy, make_rule
from tests.jq import ACME, Jq, make_acme_job, make_formatter, make_group, make_mapping
from webhook.admission.injecting import require_places
from webhook.errors import EvaluationError, JqUnavailableError
from webhook.mapping.answers import TOO_MANY_ROUNDS, JqAnswers
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.jq_child import DiedError
from webhook.mapping.limits import WorkerLimits
from webhook.mapping.locate import answer_by_jq
from webhook.mapping.uncovering import Uncovering
from webhook.model.scopes import Branch
from webhook.policy.enforce.enforcer import Enforcer
from webhook.policy.plans import Plan

# Many examples: with the others that `make test` adds to `make check`.
pytestmark = pytest.mark.slow

# The object consists of these keys. `on` says what conditions are about, `items` is a list.
NAMES = ("a", "b", "c")
VALUES = st.sampled_from([1, 2, True, "x"])

FIELDS = {
    "own": {"specRef": "v", "type": "integer"},
    "on": {"specRef": "on", "type": "integer"},
    "inA": {"specRef": "a.v", "type": "integer"},
    "inB": {"specRef": "b.v", "type": "integer"},
    "inAB": {"specRef": "a.b.v", "type": "integer"},
    "inBC": {"specRef": "b.c.w", "type": "integer"},
    "onInC": {"specRef": "c.on", "type": "integer"},
    "whole": {"specRef": "a", "type": "object"},
    "flat": {"specRef": "b", "type": "integer"},
    "made": {"formatter": "acme"},
}
FORMATTER = make_formatter(
    {
        "made": {
            "getExpr": ".c?.m?",
            "setExpr": "{c: {m: $ARGS.named.value}}",
            "argsInfo": {"value": "integer"},
        }
    }
)
GIVEN: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(FIELDS, st.integers(1, 2)),
    "whole": st.sampled_from(
        [{"b": {}}, {"b": {"c": {"on": 1}}, "v": 1}, {"items": [{"a": {}}, {"on": 1}]}]
    ),
    "made": st.integers(1, 2),
}

STEPS = st.lists(st.sampled_from(NAMES), max_size=3)


def dotted(names: list[str]) -> str:
    return ".".join(["", "spec", *names])


PLAIN = st.one_of(
    STEPS.map(dotted),
    STEPS.map(lambda names: f"{dotted(names)} | select(.)"),
    STEPS.map(lambda names: f"{dotted(names)}.items[]?"),
    STEPS.map(lambda names: f"{dotted(names)}[]? | select(.)"),
    st.tuples(STEPS, STEPS).map(lambda two: f"({dotted(two[0])}, {dotted(two[1])}) | select(.)"),
    st.tuples(STEPS, STEPS).map(lambda two: f"{dotted(two[0])}, {dotted(two[1])}"),
)
BY_JQ = st.one_of(
    STEPS.map(lambda names: f"{dotted(names)}? | objects"),
    STEPS.map(lambda names: f"{dotted(names)}? | objects | select(.on == 1)"),
    STEPS.map(lambda names: f".spec | select(.on == 1 or .c.on == 1) | {dotted(names)[5:] or '.'}"),
    st.just(".spec | .a // .b"),
    st.just("first(.spec | (.a?, .b?) | objects)"),
    st.just('.spec[]? | objects | select(has("v")) | select(length < 3)'),
    st.just(".spec.items?[-1]? | objects"),
    st.just(".. | objects | select(.c?.on? == 2) | .b"),
)


def sound(selector: JsonObject) -> JsonObject:
    """*selector* without names in any case that its query doesn't have."""
    if ".a" not in selector["query"] or "objects" in selector["query"]:
        selector.pop("ignoreCase", None)
    return selector


def selectors_of(queries: st.SearchStrategy[str]) -> st.SearchStrategy[JsonObject]:
    selector = st.fixed_dictionaries(
        {"query": queries},
        optional={
            "dependency": st.one_of(
                STEPS.map(lambda names: {"path": ".".join(["spec", *names])}),
                st.fixed_dictionaries(
                    {
                        "specSelector": st.sampled_from(["s0", "s1", "s2"]),
                        "path": STEPS.filter(bool).map(".".join),
                    }
                ),
            ),
            "ignoreCase": st.just(["a"]),
        },
    ).map(sound)
    return st.lists(selector, min_size=2, max_size=4).map(
        lambda found: {f"s{index}": part for index, part in enumerate(found)}
    )


RULES = st.lists(
    st.sampled_from(sorted(FIELDS)).flatmap(
        lambda field: st.tuples(
            st.just(field),
            st.sampled_from(["s0", "s1", "s2", "s3"]),
            st.one_of(
                st.fixed_dictionaries({"default": GIVEN[field]}),
                st.fixed_dictionaries({"set": GIVEN[field]}),
                st.just({"required": True}),
                st.just({"blocked": True}),
            ),
        )
    ),
    min_size=2,
    max_size=6,
    unique_by=lambda rule: (rule[0], rule[1]),
)


def objects(depth: int) -> st.SearchStrategy[Any]:
    inner = st.one_of(st.none(), VALUES, objects(depth - 1)) if depth else VALUES
    return st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(NAMES, inner),
            "A": inner,
            "v": VALUES,
            "on": st.sampled_from([1, 2]),
            "items": st.lists(inner, max_size=2),
        },
    )


@pytest.fixture(scope="module")
def jq() -> Iterator[Jq]:
    with JqWorker(WorkerLimits(evaluate_ms=20_000)) as worker:
        yield Jq(worker)


def plan_of(jq: Jq, selectors: JsonObject, rules: list[tuple[str, str, JsonObject]]) -> Plan:
    """The plan of what can take effect of *rules*, each a policy of its own."""
    mapping = make_mapping()
    mapping["spec"]["specSelectors"] = {
        name: {"fieldGroups": ["own"], **selector} for name, selector in selectors.items()
    }
    policies = [
        make_gvk_policy(make_rule(field, selector, enforcement), name=f"p{index}", kind=ACME)
        for index, (field, selector, enforcement) in enumerate(rules)
    ]
    snapshot = jq.build(FORMATTER, make_group(FIELDS), mapping, *policies)
    kinds = [kind for kind in snapshot.mappings if kind.kind == ACME["kind"]]
    plan = snapshot.plan(kinds[0], Branch()) if kinds else None
    assume(plan is not None)
    assert plan is not None
    return plan


def enforced(jq: Jq, plan: Plan, document: JsonObject, old: JsonObject | None = None) -> Enforcer:
    """*plan*, enforced once on a copy of *document*, which was *old* before."""

    def once(answers: JqAnswers) -> Enforcer:
        require_places(plan, answers)
        enforcer = Enforcer(plan, copy.deepcopy(document), old, answers)
        enforcer.mutate()
        enforcer.judge()
        return enforcer

    return answer_by_jq(jq.worker, document, once)


def in_a_row(jq: Jq, plan: Plan, document: JsonObject, old: JsonObject | None) -> Enforcer:
    """What comes of one pass after the other, until there is nothing to write."""
    alone = replace(plan, uncovers=Uncovering.NOTHING)
    last = enforced(jq, alone, document, old)
    for _ in range(12):
        if not last.editor.operations:
            return last
        last = enforced(jq, alone, last.editor.document, old)
    return reject()


def is_of_jq_itself(error: EvaluationError) -> bool:
    """Whether *error* is of a busy machine, or of more rounds than one review may take."""
    return (
        isinstance(error, JqUnavailableError)
        or isinstance(error.__cause__, DiedError)
        or str(error) == TOO_MANY_ROUNDS
    )


def job(spec: Any) -> JsonObject:
    return {**make_acme_job(), "spec": spec}


def holds(jq: Jq, plan: Plan, document: JsonObject, old: JsonObject | None) -> None:
    try:
        want = in_a_row(jq, plan, document, old)
    except EvaluationError:
        reject()  # A query fails on such an object.
    try:
        got = enforced(jq, plan, document, old)
    except EvaluationError as error:
        if not is_of_jq_itself(error):
            raise
        reject()

    assert got.editor.document == want.editor.document
    assert got.findings.violations == want.findings.violations
    assert got.findings.not_applied == want.findings.not_applied
    patched = jsonpatch.apply_patch(document, orjson.loads(orjson.dumps(got.editor.operations)))
    assert patched == want.editor.document
    paths = [change.path for change in got.findings.changes]
    assert len(paths) == len(set(paths))


JOBS = (st.none() | objects(2)).map(job)
MANY = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@MANY
@given(selectors=selectors_of(PLAIN), rules=RULES, document=JOBS, old=st.none() | JOBS)
def test_one_review_makes_what_several_make(
    jq: Jq,
    selectors: JsonObject,
    rules: list[tuple[str, str, JsonObject]],
    document: JsonObject,
    old: JsonObject | None,
) -> None:
    holds(jq, plan_of(jq, selectors, rules), document, old)


@MANY
@given(selectors=selectors_of(PLAIN | BY_JQ), rules=RULES, document=JOBS, old=st.none() | JOBS)
def test_so_it_does_where_places_take_jq(
    jq: Jq,
    selectors: JsonObject,
    rules: list[tuple[str, str, JsonObject]],
    document: JsonObject,
    old: JsonObject | None,
) -> None:
    holds(jq, plan_of(jq, selectors, rules), document, old)
