"""Rules on some items of a list, chosen by an item selector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import Answer, JsonObject, make_gvk_policy, make_rule
from tests.jq import ACME, Jq, make_acme_job, make_group, make_mapping
from webhook.errors import EvaluationError
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits
from webhook.model.decision import NOT_SHOWN
from webhook.policy.effective import holds_at
from webhook.policy.explain import explain

SELECTORS = {
    "byName": {"query": ".[] | select(.name == $ARGS.named.name)", "argsInfo": {"name": "string"}},
    "startingWith": {
        "query": "startswith($args.named.prefix)",
        "argsInfo": {"prefix": "string"},
    },
    "named": {
        "query": "(.name? // .) | startswith($ARGS.named.prefix)",
        "argsInfo": {"prefix": "string"},
    },
    "above": {"query": ". > $ARGS.named.bound", "argsInfo": {"bound": "integer"}},
    "privileged": {"query": ".securityContext.privileged"},
}
GROUP = make_group(
    {
        "parts": {"type": "object", "itemSelectors": ["byName", "privileged"]},
        "hosts": {"type": "strings", "itemSelectors": ["startingWith"]},
        "ports": {"specRef": "net.ports", "type": "integers", "itemSelectors": ["above"]},
        "pullSecrets": {"type": "namesArray", "itemSelectors": ["named"]},
        "env": {"type": "object", "itemSelectors": ["byName"]},
        "size": {"type": "integer"},
    },
    itemSelectors=SELECTORS,
)
MAPPING = make_mapping(dependency={"path": "spec"})


@pytest.fixture(scope="module")
def jq() -> Iterator[Jq]:
    with JqWorker(WorkerLimits(evaluate_ms=2000)) as worker:
        yield Jq(worker)


def chosen(field: str, rule: JsonObject, selector: str, **params: Any) -> JsonObject:
    more: JsonObject = {"itemSelector": selector}
    if params:
        more["selectorParams"] = params
    return make_rule(field, "s", rule, **more)


def submit(jq: Jq, rule: JsonObject, spec: JsonObject, **more: Any) -> Answer:
    snapshot = jq.snapshot(GROUP, MAPPING, make_gvk_policy(rule, kind=ACME))
    return jq.submit(snapshot, make_acme_job(**spec), **more)


# --- judging -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "spec", "broken"),
    [
        pytest.param(
            chosen("parts", {"blocked": True}, "byName", name="b"),
            {"parts": [{"name": "a"}, {"name": "b"}, {"name": "b", "x": 1}]},
            [("/spec/parts/1", "blocked"), ("/spec/parts/2", "blocked")],
            id="blocked",
        ),
        pytest.param(
            chosen("parts", {"blocked": True}, "privileged"),
            {"parts": [{"securityContext": {"privileged": False}}, {"securityContext": None}]},
            [],
            id="blocked-by-nothing",
        ),
        pytest.param(
            chosen("parts", {"required": True}, "byName", name="c"),
            {"parts": [{"name": "a"}]},
            [("/spec/parts", "required")],
            id="required",
        ),
        pytest.param(
            chosen("parts", {"required": True}, "byName", name="a"),
            {},
            [("/spec/parts", "required")],
            id="required-of-no-list",
        ),
        pytest.param(
            chosen("parts", {"required": True}, "byName", name="a"),
            {"parts": [{"name": "a"}]},
            [],
            id="required-and-there",
        ),
        pytest.param(
            chosen("hosts", {"options": ["db.local"]}, "startingWith", prefix="db."),
            {"hosts": ["web.local", "db.local", "db.remote"]},
            [("/spec/hosts/2", "options")],
            id="options",
        ),
        pytest.param(
            chosen("hosts", {"pattern": ["*.local"]}, "startingWith", prefix="db."),
            {"hosts": ["web.remote", "db.remote"]},
            [("/spec/hosts/1", "pattern")],
            id="pattern",
        ),
        pytest.param(
            chosen("ports", {"max": 9000}, "above", bound=1024),
            {"net": {"ports": [80, 8080, 9090]}},
            [("/spec/net/ports/2", "max")],
            id="max",
        ),
        pytest.param(
            chosen("ports", {"step": 10}, "above", bound=1024),
            {"net": {"ports": [81, 8081]}},
            [("/spec/net/ports/1", "step")],
            id="step",
        ),
        pytest.param(
            chosen("pullSecrets", {"options": ["corp-a"]}, "named", prefix="corp-"),
            {"pullSecrets": [{"name": "mine"}, {"name": "corp-a"}, {"name": "corp-b"}]},
            [("/spec/pullSecrets/2", "options")],
            id="names",
        ),
        pytest.param(
            chosen("parts", {"blocked": True}, "byName", name="b"),
            {"parts": "b"},
            [("/spec/parts", "type")],
            id="no-list",
        ),
        pytest.param(
            chosen("ports", {"max": 1}, "above", bound=1),
            {"net": ["x"]},
            [("/spec/net", "type")],
            id="no-object-on-the-way",
        ),
        pytest.param(
            chosen("ports", {"max": 1}, "above", bound=1),
            {"net": {"ports": ["many"]}},
            [("/spec/net/ports/0", "type")],
            id="item-of-the-wrong-type",
        ),
    ],
)
def test_rules_concern_the_selected_items(
    jq: Jq, rule: JsonObject, spec: JsonObject, broken: Any
) -> None:
    assert submit(jq, rule, spec).broken == broken


def test_a_violation_names_selector_parameters_and_item(jq: Jq) -> None:
    rule = chosen("hosts", {"options": ["db.local"]}, "startingWith", prefix="db.")

    violation = submit(jq, rule, {"hosts": ["a", "db.x"]}).violation

    assert (violation.field, violation.item) == ("hosts(startingWith prefix=db.)", "db.x")


def test_a_query_that_fails_on_an_item_is_a_failure(jq: Jq) -> None:
    rule = chosen("hosts", {"blocked": True}, "startingWith", prefix="db.")

    with pytest.raises(EvaluationError, match="met another type where startswith needs string"):
        submit(jq, rule, {"hosts": [7]})


def test_values_of_variables_are_not_shown(jq: Jq) -> None:
    rule = chosen("env", {"set": {"name": "A", "value": "swordfish"}}, "byName", name="A")
    snapshot = jq.snapshot(GROUP, MAPPING, make_gvk_policy(rule, kind=ACME))

    answer = jq.submit(snapshot, make_acme_job(env=[{"name": "A", "value": "hunter2"}]))

    (change,) = answer.decision.changes
    assert (change.old, change.new) == (NOT_SHOWN, NOT_SHOWN)


# --- writing -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "spec", "want"),
    [
        pytest.param(
            chosen("parts", {"default": {"name": "log", "n": 1}}, "byName", name="log"),
            {},
            {"parts": [{"name": "log", "n": 1}]},
            id="default-makes-the-list",
        ),
        pytest.param(
            chosen("parts", {"default": {"name": "log", "n": 1}}, "byName", name="log"),
            {"parts": [{"name": "a"}]},
            {"parts": [{"name": "a"}, {"name": "log", "n": 1}]},
            id="default-appends",
        ),
        pytest.param(
            chosen("parts", {"default": {"name": "log", "n": 1}}, "byName", name="log"),
            {"parts": [{"name": "log", "n": 5}]},
            {"parts": [{"name": "log", "n": 5}]},
            id="default-leaves",
        ),
        pytest.param(
            chosen("parts", {"set": {"name": "log", "n": 1}}, "byName", name="log"),
            {"parts": [{"name": "a"}, {"name": "log", "n": 5, "m": 2**60}, {"name": "log"}]},
            {"parts": [{"name": "a"}, {"name": "log", "n": 1}, {"name": "log", "n": 1}]},
            id="set-overwrites-each",
        ),
        pytest.param(
            chosen("parts", {"set": {"name": "log"}}, "byName", name="log"),
            {"parts": [{"name": "a"}]},
            {"parts": [{"name": "a"}]},
            id="set-of-nothing",
        ),
        pytest.param(
            chosen("hosts", {"default": "db.local"}, "startingWith", prefix="db."),
            {"hosts": ["web"]},
            {"hosts": ["web", "db.local"]},
            id="texts",
        ),
        pytest.param(
            chosen("hosts", {"set": "db.local"}, "startingWith", prefix="db."),
            {"hosts": ["db.a", "web", "db.b"]},
            {"hosts": ["db.local", "web", "db.local"]},
            id="set-texts",
        ),
        pytest.param(
            chosen("ports", {"set": 8080}, "above", bound=1024),
            {"net": {"ports": [80, "8080", 9090]}},
            {"net": {"ports": [80, "8080", 8080]}},
            id="equal-amounts-stay-as-they-are-written",
        ),
        pytest.param(
            chosen("pullSecrets", {"default": "corp"}, "named", prefix="corp"),
            {"pullSecrets": [{"name": "mine"}]},
            {"pullSecrets": [{"name": "mine"}, {"name": "corp"}]},
            id="names",
        ),
        pytest.param(
            chosen("ports", {"default": 8080}, "above", bound=1024),
            {"net": "down"},
            {"net": "down"},
            id="something-stands-in-the-way",
        ),
    ],
)
def test_selected_items_are_set_and_added(
    jq: Jq, rule: JsonObject, spec: JsonObject, want: JsonObject
) -> None:
    answer = submit(jq, rule, spec)

    assert answer.document["spec"] == want


def test_the_patch_names_the_item_alone(jq: Jq) -> None:
    rule = chosen("parts", {"set": {"name": "b", "n": 1}}, "byName", name="b")
    spec = {"parts": [{"name": "a", "n": 2**60}, {"name": "b", "n": 2}]}

    assert submit(jq, rule, spec).patch == [
        {"op": "replace", "path": "/spec/parts/1/n", "value": 1}
    ]


def test_several_rules_speak_about_several_items_of_one_list(jq: Jq) -> None:
    rules = [
        chosen("parts", {"default": {"name": "log"}}, "byName", name="log"),
        chosen("parts", {"blocked": True}, "byName", name="bad"),
        chosen("parts", {"blocked": True}, "privileged"),
    ]
    snapshot = jq.snapshot(GROUP, MAPPING, make_gvk_policy(*rules, kind=ACME))
    parts = [{"name": "bad"}, {"name": "x", "securityContext": {"privileged": True}}]

    assert jq.submit(snapshot, make_acme_job(parts=parts)).broken == [
        ("/spec/parts/0", "blocked"),
        ("/spec/parts/1", "blocked"),
    ]
    assert jq.submit(snapshot, make_acme_job()).at("/spec/parts") == [{"name": "log"}]


def test_items_are_judged_as_the_rules_on_the_whole_list_have_left_them(jq: Jq) -> None:
    rules = [
        make_rule("parts", "s", {"set": [{"name": "a"}]}),
        chosen("parts", {"blocked": True}, "byName", name="b"),
    ]
    snapshot = jq.snapshot(GROUP, MAPPING, make_gvk_policy(*rules, kind=ACME))

    answer = jq.submit(snapshot, make_acme_job(parts=[{"name": "b"}]))

    assert answer.allowed
    assert answer.at("/spec/parts") == [{"name": "a"}]


# --- updates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "old", "new", "broken"),
    [
        pytest.param(
            chosen("parts", {"blocked": True}, "byName", name="b"),
            [{"name": "b"}, {"name": "a"}],
            [{"name": "a", "n": 1}, {"name": "b"}],
            [],
            id="blocked-before",
        ),
        pytest.param(
            chosen("parts", {"blocked": True}, "byName", name="b"),
            [{"name": "b"}],
            [{"name": "b", "n": 1}],
            [("/spec/parts/0", "blocked")],
            id="blocked-and-changed",
        ),
        pytest.param(
            chosen("parts", {"required": True}, "byName", name="b"),
            [{"name": "a"}],
            [{"name": "c"}],
            [],
            id="missing-before",
        ),
        pytest.param(
            chosen("parts", {"required": True}, "byName", name="b"),
            [{"name": "b"}],
            [{"name": "c"}],
            [("/spec/parts", "required")],
            id="taken-away",
        ),
    ],
)
def test_an_update_is_judged_by_what_it_makes_worse(
    jq: Jq, rule: JsonObject, old: Any, new: Any, broken: Any
) -> None:
    assert submit(jq, rule, {"parts": new}, old=make_acme_job(parts=old)).broken == broken


@pytest.mark.parametrize(
    ("old", "want"),
    [
        pytest.param([{"name": "log"}], [{"name": "a"}, {"name": "log"}], id="taken-away"),
        pytest.param([], [{"name": "a"}], id="missing-before"),
    ],
)
def test_an_update_is_completed_where_it_took_something_away(jq: Jq, old: Any, want: Any) -> None:
    rule = chosen("parts", {"default": {"name": "log"}}, "byName", name="log")

    answer = submit(jq, rule, {"parts": [{"name": "a"}]}, old=make_acme_job(parts=old))

    assert answer.document["spec"]["parts"] == want


def test_an_update_sets_the_items_that_it_changes(jq: Jq) -> None:
    rule = chosen("parts", {"set": {"name": "log", "n": 1}}, "byName", name="log")
    old = make_acme_job(parts=[{"name": "log", "n": 5}], size=1)

    untouched = submit(jq, rule, {"parts": [{"name": "log", "n": 5}], "size": 2}, old=old)
    changed = submit(jq, rule, {"parts": [{"name": "log", "n": 6}], "size": 1}, old=old)

    assert untouched.patch == []
    assert changed.at("/spec/parts/0/n") == 1


# --- wrong rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "path", "problem"),
    [
        pytest.param(
            chosen("size", {"max": 1}, "byName", name="a"),
            "itemSelector",
            "is for lists; size is of type integer",
            id="no-list",
        ),
        pytest.param(
            chosen("parts", {"blocked": True}, "byNam", name="a"),
            "itemSelector",
            "parts has no item selector 'byNam'; did you mean \"byName\"?",
            id="unknown-selector",
        ),
        pytest.param(
            chosen("hosts", {"blocked": True}, "byName", name="a"),
            "itemSelector",
            "hosts has no item selector 'byName'; known: startingWith",
            id="selector-of-another-field",
        ),
        pytest.param(
            chosen("parts", {"blocked": True}, "byName", nam="a", name="b"),
            "selectorParams.nam",
            "byName has no parameter 'nam'; did you mean \"name\"?",
            id="unknown-parameter",
        ),
        pytest.param(
            chosen("parts", {"blocked": True}, "byName"),
            "selectorParams.name",
            "is needed by byName",
            id="missing-parameter",
        ),
        pytest.param(
            chosen("parts", {"blocked": True}, "byName", name=5),
            "selectorParams.name",
            "must be text, got number; put it in quotes",
            id="type-of-a-parameter",
        ),
        pytest.param(
            chosen("ports", {"max": 1}, "above", bound=2**60),
            "selectorParams.bound",
            "numbers of 2^53 or more don't pass through jq unchanged",
            id="large-parameter",
        ),
        pytest.param(
            make_rule("parts", "s", {"blocked": True}, selectorParams={"name": "a"}),
            "selectorParams",
            "are for an itemSelector, and there is none",
            id="parameters-alone",
        ),
        pytest.param(
            chosen("parts", {"default": {"name": "b"}}, "byName", name="a"),
            "enforcements[0]",
            "item selector byName does not select the value, which each review would add once more",
            id="default-that-is-not-selected",
        ),
        pytest.param(
            chosen("hosts", {"default": 5}, "startingWith", prefix="a"),
            "enforcements[0].default",
            "must be text, got number; put it in quotes",
            id="type-of-an-item",
        ),
        pytest.param(
            chosen("parts", {"max": 5}, "byName", name="a"),
            "enforcements[0].max",
            "an object field has no rule max; it has default, set, required, blocked",
            id="rule-of-another-type",
        ),
    ],
)
def test_a_wrong_rule_is_refused_with_path_and_reason(
    jq: Jq, rule: JsonObject, path: str, problem: str
) -> None:
    (found,) = jq.build(GROUP, MAPPING, make_gvk_policy(rule, kind=ACME)).problems

    assert (found.path, found.problem) == (f"spec.rules[0].{path}", problem)


def test_one_identity_in_two_rules_is_refused_naming_both(jq: Jq) -> None:
    """Field, selector, item selector and parameters make it; the order of the latter does not."""
    rules = [
        chosen("parts", {"blocked": True}, "byName", name="a"),
        chosen("parts", {"required": True}, "byName", name="b"),
        chosen("parts", {"required": True}, "byName", name="a"),
    ]

    (found,) = jq.build(GROUP, MAPPING, make_gvk_policy(*rules, kind=ACME)).problems

    assert (found.path, found.problem) == (
        "spec.rules[2]",
        "spec.rules[0] is about parts(byName name=a) as well; join the two",
    )


@pytest.mark.parametrize(
    ("allows", "want"),
    [pytest.param(True, [], id="replaced"), pytest.param(False, ["blocked"], id="holds")],
)
def test_a_narrower_rule_replaces_that_of_its_identity_where_it_may(
    jq: Jq, allows: bool, want: list[str]
) -> None:
    wide = chosen("parts", {"blocked": True}, "byName", name="a") | {"allowOverride": allows}
    other = chosen("parts", {"blocked": True}, "byName", name="b") | {"allowOverride": allows}
    narrow = chosen("parts", {"required": True}, "byName", name="a")
    snapshot = jq.build(
        GROUP,
        MAPPING,
        make_gvk_policy(wide, other, kind=ACME),
        make_gvk_policy(narrow, kind=ACME, name="team", scope="project", unit="team-a"),
    )

    answer = jq.submit(snapshot, make_acme_job(parts=[{"name": "a"}]))
    assert [rule for _, rule in answer.broken] == want
    both = jq.submit(snapshot, make_acme_job(parts=[{"name": "a"}, {"name": "b"}]))
    assert [rule for _, rule in both.broken] == [*want, "blocked"]


def test_explain_shows_the_item_selector(jq: Jq) -> None:
    rule = chosen("parts", {"blocked": True}, "byName", name="a")
    snapshot = jq.snapshot(GROUP, MAPPING, make_gvk_policy(rule, kind=ACME))
    (kind,) = [kind for kind in snapshot.mappings if kind.kind == "AcmeJob"]
    branch = snapshot.branch("team-a")

    (shown,) = explain([p for p in snapshot.policies.policies_of(kind) if holds_at(p, branch)])

    assert (shown.field, shown.selector) == ("parts(byName name=a)", "s")


def test_a_policy_that_is_only_tried_tells_what_it_would_do(jq: Jq) -> None:
    rule = chosen("parts", {"blocked": True}, "byName", name="a")
    policy = make_gvk_policy(rule, kind=ACME)
    policy["spec"]["mode"] = "Warn"
    snapshot = jq.snapshot(GROUP, MAPPING, policy)

    answer = jq.submit(snapshot, make_acme_job(parts=[{"name": "a"}]))

    assert answer.allowed
    (preview,) = answer.decision.previews
    assert [violation.rule for violation in preview.violations] == ["blocked"]
