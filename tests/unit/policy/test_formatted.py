"""Fields that formatters read and write, under every rule."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import Answer, JsonObject, make_gvk_policy, make_request, make_rule
from tests.jq import ACME, Jq, make_acme_job, make_formatter, make_group, make_mapping
from webhook.admission.record import change_entry
from webhook.admission.report import report_of
from webhook.admission.review import review
from webhook.admission.trial import Submission, try_submission
from webhook.errors import EvaluationError
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits
from webhook.mapping.locate import answer_by_jq
from webhook.model.decision import NOT_SHOWN
from webhook.model.manifests import Manifest
from webhook.model.pointer import to_pointer
from webhook.model.request import Phase
from webhook.policy.effective import holds_at
from webhook.policy.explain import explain
from webhook.store.snapshot import Snapshot

# A port that stands as text behind a colon.
PORT = {
    "getExpr": '.address // empty | split(":") | .[1] | tonumber?',
    "setExpr": '{address: "\\(.address // "" | split(":")[0] // ""):\\($ARGS.named.value)"}',
    "argsInfo": {"value": "integer"},
}
VOLUMES = {
    "getExpr": ".volumes[]? | select(.configMap)"
    " | {name, configMapName: .configMap.name, mode: .configMap.defaultMode}",
    "setExpr": "{volumes: [{name: $ARGS.named.name, configMap:"
    " {name: $ARGS.named.configMapName, defaultMode: $ARGS.named.mode}}]}",
    "arrayKey": {"argName": "name"},
    "argsInfo": {"name": "string", "configMapName": "string", "mode": "integer"},
}
SETTINGS = {
    "getExpr": ".settings[]?",
    "setExpr": "{settings: [{name: $ARGS.named.name, value: $ARGS.named.value}]}",
    "arrayKey": {"argName": "name"},
    "argsInfo": {"name": "string", "value": "quantity"},
}
OPTIONS = {
    "getExpr": ".options[$ARGS.named.key]?",
    "setExpr": "{options: {($ARGS.named.key): $ARGS.named.value}}",
    "argsInfo": {"key": "string", "value": "string"},
    "argsEnum": {"value": ["on", "off"]},
}
RANGE = {
    "getExpr": "if .range then .range | {low: .[0], high: .[1]} else null end",
    "setExpr": "{range: [$ARGS.named.low, $ARGS.named.high]}",
    "argsInfo": {"low": "quantity", "high": "quantity"},
}
TOTAL = {"getExpr": "(.replicas // 0) * (.gpus // 0)", "argsInfo": {"value": "integer"}}
CA = {"name": "ca", "configMap": {"name": "corp"}}
FORMATTER = make_formatter(
    {
        "port": PORT,
        "volumes": VOLUMES,
        "settings": SETTINGS,
        "options": OPTIONS,
        "range": RANGE,
        "total": TOTAL,
        "seed": {"getExpr": ".seed"},
        "first": {"getExpr": ".list[]?"},
        "words": {"getExpr": ".words", "setExpr": "{words: $ARGS.named.value}"},
    }
)
FIELDS = {
    name: {"formatter": "acme"} for name in FORMATTER["spec"]["fields"] if name != "words"
} | {
    "words": {"formatter": "acme", "type": "strings"},
    "seed": {"formatter": "acme", "type": "integer"},
    "first": {"formatter": "acme", "type": "string"},
    "gpus": {"type": "integer"},
    "replicas": {"type": "integer"},
}
GROUP = make_group(FIELDS)
MAPPING = make_mapping(dependency={"path": "spec"})


@pytest.fixture(scope="module")
def jq() -> Iterator[Jq]:
    with JqWorker(WorkerLimits(evaluate_ms=2000)) as worker:
        yield Jq(worker)


def under(jq: Jq, field: str, *enforcements: JsonObject, **more: Any) -> Snapshot:
    policy = make_gvk_policy(make_rule(field, "s", *enforcements, **more), kind=ACME)
    return jq.snapshot(FORMATTER, GROUP, MAPPING, policy)


def submit(jq: Jq, field: str, enforcement: JsonObject, spec: JsonObject, **more: Any) -> Answer:
    return jq.submit(under(jq, field, enforcement), make_acme_job(**spec), **more)


def spec_of(answer: Answer) -> JsonObject:
    spec: JsonObject = answer.document["spec"]
    return spec


# --- one value -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "spec", "want"),
    [
        pytest.param({"default": 80}, {}, {"address": ":80"}, id="default-fills"),
        pytest.param({"default": 80}, {"address": "h"}, {"address": "h:80"}, id="with-the-element"),
        pytest.param({"default": 80}, {"address": "h:1"}, {"address": "h:1"}, id="default-leaves"),
        pytest.param({"set": 80}, {"address": "h:1"}, {"address": "h:80"}, id="set-overwrites"),
        pytest.param({"set": "80"}, {"address": "h:080"}, {"address": "h:080"}, id="set-is-equal"),
        pytest.param({"set": {"value": 80}}, {}, {"address": ":80"}, id="value-in-an-object"),
    ],
)
def test_a_value_is_written_through_setexpr(
    jq: Jq, rule: JsonObject, spec: JsonObject, want: JsonObject
) -> None:
    answer = submit(jq, "port", rule, spec)

    assert answer.allowed
    assert spec_of(answer) == want


@pytest.mark.parametrize(
    ("rule", "address", "broken"),
    [
        pytest.param({"required": True}, None, ["required"], id="required"),
        pytest.param({"required": True}, "h:1", [], id="is-there"),
        pytest.param({"max": 1024}, "h:8080", ["max"], id="max"),
        pytest.param({"min": 1024}, "h:80", ["min"], id="min"),
        pytest.param({"options": [80, 443]}, "h:81", ["options"], id="options"),
        pytest.param({"step": 10}, "h:81", ["step"], id="step"),
        pytest.param({"blocked": True}, "h:81", ["blocked"], id="blocked"),
        pytest.param({"blocked": True}, "h", [], id="absent"),
        pytest.param({"max": 1024}, None, [], id="max-of-nothing"),
    ],
)
def test_a_value_is_judged_as_getexpr_reads_it(
    jq: Jq, rule: JsonObject, address: str | None, broken: list[str]
) -> None:
    answer = submit(jq, "port", rule, {} if address is None else {"address": address})

    assert answer.broken == [("/spec", name) for name in broken]


def test_a_value_of_the_wrong_type_is_a_violation(jq: Jq) -> None:
    violation = submit(jq, "seed", {"max": 5}, {"seed": "many"}).violation

    assert (violation.rule, violation.accepted, violation.value) == (
        "type",
        "a whole number",
        "many",
    )


@pytest.mark.parametrize("seed", [2**53, 2**53 + 1, 2**64 - 1, -(2**60)])
def test_a_number_that_jq_would_round_is_a_violation(jq: Jq, seed: int) -> None:
    violation = submit(jq, "seed", {"required": True}, {"seed": seed}).violation

    assert (violation.rule, violation.accepted) == (
        "type",
        "a number below 2^53, as jq rounds others",
    )


def test_several_values_are_a_failure_of_the_formatter(jq: Jq) -> None:
    snapshot = under(jq, "first", {"required": True})

    assert jq.submit(snapshot, make_acme_job(list=["a"])).allowed
    with pytest.raises(EvaluationError, match=r"getExpr of acme\.first gives 2 values"):
        jq.submit(snapshot, make_acme_job(list=["a", "b"]))


def test_what_jq_cannot_read_is_a_failure_that_shows_no_value(jq: Jq) -> None:
    with pytest.raises(EvaluationError, match="string and object, which cannot be multiplied"):
        submit(jq, "total", {"max": 5}, {"replicas": "hunter2", "gpus": {"x": "hunter2"}})


def test_an_absent_place_is_created_along_its_dependency(jq: Jq) -> None:
    job = make_acme_job()
    del job["spec"]

    answer = jq.submit(under(jq, "port", {"default": 80}), job)

    assert answer.patch == [{"op": "add", "path": "/spec", "value": {"address": ":80"}}]


def test_only_what_the_expression_says_is_touched(jq: Jq) -> None:
    """Numbers that jq can't hold stay as they were sent, and so does all that nobody named."""
    spec = {"seed": 9007199254740993, "big": 18446744073709551615, "f": 1.0, "e": 1e2, "n": None}

    answer = submit(jq, "port", {"set": 80}, copy.deepcopy(spec))

    assert answer.patch == [{"op": "add", "path": "/spec/address", "value": ":80"}]
    assert spec_of(answer) == {**spec, "address": ":80"}
    assert type(spec_of(answer)["f"]) is float


def test_a_value_is_judged_as_all_rules_have_left_it(jq: Jq) -> None:
    """`total` depends on a field that another rule sets."""
    rules = [
        make_rule("total", "s", {"max": 8}),
        make_rule("gpus", "s", {"set": 1}),
        make_rule("replicas", "s", {"default": 4}),
    ]
    snapshot = jq.snapshot(FORMATTER, GROUP, MAPPING, make_gvk_policy(*rules, kind=ACME))

    assert jq.submit(snapshot, make_acme_job(replicas=8, gpus=16)).allowed
    assert jq.submit(snapshot, make_acme_job(gpus=16)).allowed
    assert jq.submit(snapshot, make_acme_job(replicas=9, gpus=1)).broken == [("/spec", "max")]


def test_a_list_of_texts_is_a_value_too(jq: Jq) -> None:
    assert submit(jq, "words", {"options": ["a", "b"]}, {"words": ["a", "c"]}).broken == [
        ("/spec", "options")
    ]
    assert spec_of(submit(jq, "words", {"default": ["a"]}, {})) == {"words": ["a"]}


# --- several arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "spec", "want"),
    [
        pytest.param({"default": {"low": 1, "high": "2"}}, {}, ["1", "2"], id="default"),
        pytest.param({"default": {"value": {"low": 1, "high": 2}}}, {}, ["1", "2"], id="value"),
        pytest.param({"set": {"low": "1"}}, {"range": ["1000m", 5]}, ["1000m", 5], id="is-set"),
        pytest.param({"set": {"low": 1, "high": 4}}, {"range": ["1000m", 5]}, ["1", "4"], id="set"),
    ],
)
def test_a_field_of_several_arguments_takes_an_object_of_them(
    jq: Jq, rule: JsonObject, spec: JsonObject, want: list[Any]
) -> None:
    assert spec_of(submit(jq, "range", rule, spec))["range"] == want


def test_an_object_of_arguments_that_is_none_is_a_violation(jq: Jq) -> None:
    formatter = make_formatter({"f": {**RANGE, "getExpr": ".range"}})
    policy = make_gvk_policy(make_rule("f", "s", {"required": True}), kind=ACME)
    snapshot = jq.snapshot(formatter, make_group({"f": {"formatter": "acme"}}), MAPPING, policy)

    violation = jq.submit(snapshot, make_acme_job(range="1-5")).violation

    assert (violation.rule, violation.accepted) == ("type", "an object of arguments")


def test_a_map_is_ruled_by_key(jq: Jq) -> None:
    snapshot = under(
        jq,
        "options",
        {"default": {"key": "debug", "value": "off"}},
        {"blocked": {"key": "insecure"}},
        {"set": {"key": "tls", "value": "on"}},
    )

    answer = jq.submit(snapshot, make_acme_job(options={"tls": "off", "x": "y"}))
    assert spec_of(answer)["options"] == {"tls": "on", "x": "y", "debug": "off"}

    refused = jq.submit(snapshot, make_acme_job(options={"insecure": "on"}))
    assert [(v.field, v.rule) for v in refused.decision.violations] == [
        ("options[insecure]", "blocked")
    ]


# --- items ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "volumes", "want"),
    [
        pytest.param(
            {"default": {"name": "ca", "configMapName": "corp"}},
            None,
            [{"name": "ca", "configMap": {"name": "corp"}}],
            id="default-adds-and-null-leaves-no-key",
        ),
        pytest.param(
            {"default": {"name": "ca", "configMapName": "corp"}},
            [{"name": "d", "emptyDir": {}}],
            [{"name": "d", "emptyDir": {}}, {"name": "ca", "configMap": {"name": "corp"}}],
            id="default-appends",
        ),
        pytest.param(
            {"default": {"name": "ca", "configMapName": "corp", "mode": 1}},
            [{"name": "ca", "configMap": {"name": "mine"}}],
            [{"name": "ca", "configMap": {"name": "mine"}}],
            id="default-goes-by-the-key-alone",
        ),
        pytest.param(
            {"set": {"name": "ca", "configMapName": "corp"}},
            [{"name": "ca", "configMap": {"name": "mine", "defaultMode": 7}, "x": 2**60}],
            [{"name": "ca", "configMap": {"name": "corp", "defaultMode": 7}, "x": 2**60}],
            id="set-completes-the-item-of-its-key",
        ),
        pytest.param(
            {"set": {"value": {"name": "ca", "configMapName": "corp", "mode": "420"}}},
            [{"name": "d", "emptyDir": {}}],
            [
                {"name": "d", "emptyDir": {}},
                {"name": "ca", "configMap": {"name": "corp", "defaultMode": 420}},
            ],
            id="set-adds-too",
        ),
    ],
)
def test_items_are_merged_by_key(jq: Jq, rule: JsonObject, volumes: Any, want: Any) -> None:
    answer = submit(jq, "volumes", rule, {} if volumes is None else {"volumes": volumes})

    assert answer.allowed
    assert spec_of(answer)["volumes"] == want


def test_a_default_leaves_an_item_of_another_kind_alone(jq: Jq) -> None:
    """A volume has one source; two of them would be refused by the API server."""
    rule = {"default": {"name": "ca", "configMapName": "corp"}}
    volumes = [{"name": "ca", "emptyDir": {}}]

    answer = submit(jq, "volumes", rule, {"volumes": volumes})

    assert spec_of(answer) == {"volumes": volumes}
    (left_out,) = answer.decision.not_applied
    assert left_out.reason == "another item is called ca"


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        pytest.param({"required": True}, [], id="required"),
        pytest.param({"required": {"key": "b"}}, [("/spec", "required")], id="required-of-a-key"),
        pytest.param(
            {"blocked": True},
            [("/spec/volumes/0", "blocked"), ("/spec/volumes/2", "blocked")],
            id="blocked",
        ),
        pytest.param({"blocked": {"key": "c"}}, [("/spec/volumes/2", "blocked")], id="of-a-key"),
        pytest.param({"blocked": {"key": "b"}}, [], id="blocked-key-of-another-kind"),
    ],
)
def test_items_are_required_and_blocked(jq: Jq, rule: JsonObject, broken: Any) -> None:
    volumes = [
        {"name": "a", "configMap": {"name": "x"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "y"}},
    ]

    assert submit(jq, "volumes", rule, {"volumes": volumes}).broken == broken


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        pytest.param({"max": "2"}, ["/spec/settings/1"], id="max"),
        pytest.param({"options": ["1", "3000m"]}, [], id="options"),
        pytest.param({"min": "2"}, ["/spec/settings/0"], id="min"),
    ],
)
def test_rules_on_values_look_at_the_argument_value_of_each_item(
    jq: Jq, rule: JsonObject, broken: list[str]
) -> None:
    settings = [{"name": "a", "value": 1}, {"name": "b", "value": "3"}]

    answer = submit(jq, "settings", rule, {"settings": settings})

    assert [path for path, _ in answer.broken] == broken


def test_an_item_whose_value_is_of_the_wrong_type_is_a_violation(jq: Jq) -> None:
    violation = submit(jq, "settings", {"max": 2}, {"settings": [{"name": "a", "value": "x"}]})

    assert (violation.violation.rule, violation.violation.item) == ("type", "a")


def test_items_that_are_no_objects_are_a_failure_of_the_formatter(jq: Jq) -> None:
    with pytest.raises(EvaluationError, match=r"getExpr of acme\.settings gives text; objects"):
        submit(jq, "settings", {"required": True}, {"settings": ["x"]})


def test_an_item_selector_restricts_the_rules_on_a_formatters_items(jq: Jq) -> None:
    selector = {"query": ".configMapName | startswith($ARGS.named.p)", "argsInfo": {"p": "string"}}
    group = make_group(
        {"volumes": {"formatter": "acme", "itemSelectors": ["from"]}},
        itemSelectors={"from": selector},
    )
    rules = [
        make_rule("volumes", "s", rule, itemSelector="from", selectorParams={"p": prefix})
        for rule, prefix in (
            ({"set": {"mode": 256}}, "team-"),
            ({"blocked": True}, "kube-"),
            ({"default": {"name": "ca", "configMapName": "corp-ca"}}, "corp-"),
        )
    ]
    snapshot = jq.snapshot(FORMATTER, group, MAPPING, make_gvk_policy(*rules, kind=ACME))
    config_maps = {"a": "team-x", "b": "team-y", "c": "other"}
    volumes = [{"name": name, "configMap": {"name": of}} for name, of in config_maps.items()]

    answer = jq.submit(snapshot, make_acme_job(volumes=volumes))

    assert spec_of(answer)["volumes"] == [
        {"name": "a", "configMap": {"name": "team-x", "defaultMode": 256}},
        {"name": "b", "configMap": {"name": "team-y", "defaultMode": 256}},
        {"name": "c", "configMap": {"name": "other"}},
        {"name": "ca", "configMap": {"name": "corp-ca"}},
    ]
    bad = make_acme_job(volumes=[{"name": "k", "configMap": {"name": "kube-root"}}])
    assert jq.submit(snapshot, bad).broken == [("/spec/volumes/0", "blocked")]


# --- what was changed ----------------------------------------------------------------------------

# It writes more than it reads.
WIDE = {
    "getExpr": ".mode",
    "setExpr": '{mode: $ARGS.named.value, flags: {fast: true, level: 2}, note: "auto"}',
    "argsInfo": {"value": "string"},
}


def changes_of(answer: Answer) -> list[tuple[str, Any, Any]]:
    return [(to_pointer(c.path), c.old, c.new) for c in answer.decision.changes]


@pytest.mark.parametrize(
    ("field", "rule", "spec", "want"),
    [
        pytest.param(
            "port", {"set": 80}, {"address": "h:1"}, [("/spec/address", "h:1", "h:80")], id="text"
        ),
        pytest.param("port", {"default": 80}, {}, [("/spec/address", None, ":80")], id="new"),
        pytest.param("port", {"set": 80}, {"address": "h:80"}, [], id="nothing"),
        pytest.param(
            "wide",
            {"default": "turbo"},
            {"flags": {"level": 1, "x": 5}, "note": "auto"},
            [
                ("/spec/flags/level", 1, 2),
                ("/spec/flags/fast", None, True),
                ("/spec/mode", None, "turbo"),
            ],
            id="beside-its-field",
        ),
        pytest.param(
            "options",
            {"set": {"key": "tls", "value": "on"}},
            {"options": {"tls": "off"}},
            [("/spec/options/tls", "off", "on")],
            id="one-key",
        ),
        pytest.param(
            "range",
            {"set": {"low": 1, "high": 4}},
            {"range": ["1000m", 5]},
            [("/spec/range/0", NOT_SHOWN, NOT_SHOWN), ("/spec/range/1", NOT_SHOWN, NOT_SHOWN)],
            id="arguments-are-not-shown",
        ),
        pytest.param(
            "volumes",
            {"set": {"name": "ca", "configMapName": "corp", "mode": 7}},
            {"volumes": [{"name": "d"}, {"name": "ca", "configMap": {"name": "mine"}}]},
            [
                ("/spec/volumes/1/configMap/name", NOT_SHOWN, NOT_SHOWN),
                ("/spec/volumes/1/configMap/defaultMode", None, NOT_SHOWN),
            ],
            id="an-item-is-completed",
        ),
        pytest.param(
            "volumes",
            {"default": {"name": "ca", "configMapName": "corp"}},
            {"volumes": [{"name": "d"}]},
            [("/spec/volumes/1", None, NOT_SHOWN)],
            id="an-item-is-added",
        ),
    ],
)
def test_each_pointer_that_a_formatter_changes_is_one_change(
    jq: Jq, field: str, rule: JsonObject, spec: JsonObject, want: Any
) -> None:
    formatter = make_formatter({**FORMATTER["spec"]["fields"], "wide": WIDE})
    group = make_group({**FIELDS, "wide": {"formatter": "acme"}})
    policy = make_gvk_policy(make_rule(field, "s", rule), kind=ACME)

    answer = jq.submit(jq.snapshot(formatter, group, MAPPING, policy), make_acme_job(**spec))

    assert changes_of(answer) == want
    assert {c.field.partition("[")[0] for c in answer.decision.changes} <= {field}
    assert {c.rule.value for c in answer.decision.changes} <= {*rule}


def test_report_and_record_tell_the_same_changes(jq: Jq) -> None:
    formatter, group = make_formatter({"f": WIDE}), make_group({"f": {"formatter": "acme"}})
    policy = make_gvk_policy(make_rule("f", "s", {"set": "turbo"}), kind=ACME)
    job = make_acme_job(mode="slow")

    answer = jq.submit(jq.snapshot(formatter, group, MAPPING, policy), job)

    reported = report_of("x.yaml#0", make_request(job), answer.decision)["changes"]
    assert reported == [change_entry(change) for change in answer.decision.changes]
    assert [entry["path"] for entry in reported] == [
        "/spec/mode",
        "/spec/flags/fast",
        "/spec/flags/level",
        "/spec/note",
    ]


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        pytest.param("dbPassword", NOT_SHOWN, id="secret-by-its-name"),
        pytest.param("colour", "hunter2", id="no-secret"),
    ],
)
def test_what_is_written_beside_a_field_is_hidden_where_a_secret_stands(
    jq: Jq, key: str, shown: str
) -> None:
    """The name of the key is in the object, and so the formatter does not tell."""
    beside = {
        "getExpr": ".mode",
        "setExpr": '{mode: $ARGS.named.value} + (if .key then {(.key): "hunter2"} else {} end)',
        "argsInfo": {"value": "string"},
    }
    formatter, group = make_formatter({"f": beside}), make_group({"f": {"formatter": "acme"}})
    policy = make_gvk_policy(make_rule("f", "s", {"default": "x"}), kind=ACME)

    answer = jq.submit(jq.snapshot(formatter, group, MAPPING, policy), make_acme_job(key=key))

    assert changes_of(answer) == [("/spec/mode", None, "x"), (f"/spec/{key}", None, shown)]


def test_a_policy_that_is_only_tried_warns_once_of_a_field(jq: Jq) -> None:
    formatter, group = make_formatter({"f": WIDE}), make_group({"f": {"formatter": "acme"}})
    policy = make_gvk_policy(make_rule("f", "s", {"set": "turbo"}), kind=ACME)
    policy["spec"]["mode"] = "Warn"

    answer = jq.submit(jq.snapshot(formatter, group, MAPPING, policy), make_acme_job())

    (preview,) = answer.decision.previews
    assert len(preview.changes) == 4
    assert answer.decision.warnings == (
        "f [s]: set would be applied, 4 values; not enforced yet (policy baseline, tenant)",
    )


def test_the_command_line_tells_what_both_doors_tell(jq: Jq) -> None:
    """Values that jq computes: before and after what the policies in force have made of them."""
    formatter, group = make_formatter({"f": WIDE}), make_group({"f": {"formatter": "acme"}})
    current = make_gvk_policy(make_rule("f", "s", {"default": "calm"}), kind=ACME)
    better = make_gvk_policy(
        make_rule("f", "s", {"set": "turbo"}, {"options": ["turbo"]}), kind=ACME, name="better"
    )
    better["spec"]["mode"] = "Warn"
    snapshot = jq.snapshot(formatter, group, MAPPING, current, better)

    at_doors = jq.submit(snapshot, make_acme_job())
    manifest = Manifest("job.yaml", 0, 1, make_acme_job())
    at_once = try_submission(manifest, Submission(), snapshot, jq.worker)

    assert at_doors.decision.warnings == at_once.decision.warnings
    assert at_once.decision.warnings == (
        "f [s]: set would be applied, 4 values; not enforced yet (policy better, tenant)",
    )
    assert at_once.request.object == at_doors.document


# --- what is not read back -----------------------------------------------------------------------

# Sound on an empty element, and deaf on some others.
DEAF = {
    "getExpr": "if .deaf then empty else .a // empty end",
    "setExpr": "{a: $ARGS.named.value}",
    "argsInfo": {"value": "string"},
}
DEAF_ITEMS = {**SETTINGS, "getExpr": "if .deaf then empty else .settings[]? end"}
NEWCOMER = {"name": "a", "value": 1}


def deaf(jq: Jq, field: str, rule: JsonObject, **more: Any) -> Snapshot:
    selector = {"query": ".name == $ARGS.named.n", "argsInfo": {"n": "string"}}
    group = make_group(
        {"f": {"formatter": "acme"}, "items": {"formatter": "acme", "itemSelectors": ["named"]}},
        itemSelectors={"named": selector},
    )
    policy = make_gvk_policy(make_rule(field, "s", rule, **more), kind=ACME)
    return jq.snapshot(make_formatter({"f": DEAF, "items": DEAF_ITEMS}), group, MAPPING, policy)


NAMED = {"itemSelector": "named", "selectorParams": {"n": "a"}}


@pytest.mark.parametrize(
    ("field", "rule", "more", "label"),
    [
        pytest.param("f", {"default": "x"}, {}, "default of f", id="default"),
        pytest.param("f", {"set": "x"}, {}, "set of f", id="set"),
        pytest.param(
            "items", {"default": NEWCOMER}, {}, r"default of items\[a\]", id="default-item"
        ),
        pytest.param("items", {"set": NEWCOMER}, {}, r"set of items\[a\]", id="set-item"),
        pytest.param(
            "items",
            {"default": NEWCOMER},
            NAMED,
            r"default of items\(named n=a\)\[a\]",
            id="selected",
        ),
    ],
)
def test_what_a_formatter_does_not_read_back_is_its_failure(
    jq: Jq, field: str, rule: JsonObject, more: JsonObject, label: str
) -> None:
    """It is nobody's violation, and no object passes without the value that its policy gives."""
    snapshot = deaf(jq, field, rule, **more)

    assert jq.submit(snapshot, make_acme_job()).allowed
    with pytest.raises(EvaluationError) as failure:
        jq.submit(snapshot, make_acme_job(deaf=True))

    assert re.fullmatch(
        rf"getExpr of acme\.{field} does not read the {label} that its setExpr wrote at /spec"
        r" \(policy baseline, tenant\)",
        str(failure.value),
    )


def test_a_set_that_is_read_back_as_something_else_is_a_failure(jq: Jq) -> None:
    loud = {**DEAF, "getExpr": "if .deaf then .a | ascii_upcase else .a // empty end"}
    formatter, group = make_formatter({"f": loud}), make_group({"f": {"formatter": "acme"}})
    snapshots = {
        word: jq.snapshot(
            formatter, group, MAPPING, make_gvk_policy(make_rule("f", "s", {word: "x"}), kind=ACME)
        )
        for word in ("set", "default")
    }

    with pytest.raises(EvaluationError, match="does not read the set of f that its setExpr wrote"):
        jq.submit(snapshots["set"], make_acme_job(a="y", deaf=True))
    assert spec_of(jq.submit(snapshots["set"], make_acme_job(a="y")))["a"] == "x"
    # A default has only to be there.
    assert jq.submit(snapshots["default"], make_acme_job(a="y", deaf=True)).allowed


def test_only_judging_an_object_is_no_failure(jq: Jq) -> None:
    """Nothing was written, so that the object is what is wrong."""
    snapshot = deaf(jq, "f", {"set": "x"})
    request = make_request(make_acme_job(deaf=True))

    decision = answer_by_jq(
        jq.worker, request.object or {}, lambda got: review(request, Phase.VALIDATE, snapshot, got)
    )

    assert [violation.rule for violation in decision.violations] == ["set"]


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        pytest.param("f", {"default": "x"}, id="value"),
        pytest.param("items", {"default": NEWCOMER}, id="item"),
    ],
)
def test_a_default_that_changes_nothing_is_told(jq: Jq, field: str, rule: JsonObject) -> None:
    fields = {
        "f": {**DEAF, "setExpr": f"if .fixed then {{}} else {DEAF['setExpr']} end"},
        "items": {**SETTINGS, "setExpr": f"if .fixed then {{}} else {SETTINGS['setExpr']} end"},
    }
    group = make_group({name: {"formatter": "acme"} for name in fields})
    policy = make_gvk_policy(make_rule(field, "s", rule), kind=ACME)
    snapshot = jq.snapshot(make_formatter(fields), group, MAPPING, policy)

    answer = jq.submit(snapshot, make_acme_job(fixed=True))

    assert answer.patch == []
    assert [item.reason for item in answer.decision.not_applied] == [
        f"setExpr of acme.{field} changes nothing here"
    ]
    assert len(answer.decision.warnings) == 1


# --- updates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "rule", "old", "new", "broken"),
    [
        pytest.param("port", {"max": 80}, "h:90", "h:90", [], id="untouched"),
        pytest.param("port", {"max": 80}, "h:90", "i:90", [], id="the-same-value"),
        pytest.param("port", {"max": 80}, "h:90", "h:85", [], id="less-bad"),
        pytest.param("port", {"max": 80}, "h:90", "h:95", ["max"], id="worse"),
        pytest.param("port", {"max": 80}, "h:70", "h:90", ["max"], id="broken-now"),
        pytest.param("port", {"required": True}, "h", "i", [], id="missing-as-before"),
        pytest.param("port", {"required": True}, "h:1", "h", ["required"], id="taken-away"),
    ],
)
def test_an_update_is_judged_by_what_it_makes_worse(
    jq: Jq, field: str, rule: JsonObject, old: str, new: str, broken: list[str]
) -> None:
    answer = submit(jq, field, rule, {"address": new, "x": 1}, old=make_acme_job(address=old))

    assert [name for _, name in answer.broken] == broken


@pytest.mark.parametrize(
    ("rule", "old", "new", "want"),
    [
        pytest.param({"default": 80}, "h", "h", "h", id="default-as-before"),
        pytest.param({"default": 80}, "h:1", "h", "h:80", id="default-after-it-was-taken-away"),
        pytest.param({"set": 80}, "h:1", "h:1", "h:1", id="set-as-before"),
        pytest.param({"set": 80}, "h:1", "h:2", "h:80", id="set-after-a-change"),
    ],
)
def test_an_update_is_completed_where_it_changes_the_field(
    jq: Jq, rule: JsonObject, old: str, new: str, want: str
) -> None:
    answer = submit(jq, "port", rule, {"address": new, "x": 1}, old=make_acme_job(address=old))

    assert spec_of(answer)["address"] == want


def test_an_update_judges_the_items_that_it_changes(jq: Jq) -> None:
    def job(*settings: tuple[str, Any]) -> JsonObject:
        return make_acme_job(settings=[{"name": n, "value": v} for n, v in settings])

    snapshot = under(jq, "settings", {"max": 5})
    old = job(("a", 9), ("b", 9), ("c", 1))

    answer = jq.submit(snapshot, job(("c", 9), ("b", 8), ("a", 9), ("d", 7)), old=old)

    assert [v.item for v in answer.decision.violations] == ["c", "d"]


# --- policies that can't be kept -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "formatter", "rule", "problem"),
    [
        pytest.param(
            "f",
            {"getExpr": ".a"},
            {"default": 1},
            "default needs setExpr of formatter acme.f, which has none",
            id="no-setexpr",
        ),
        pytest.param(
            "f",
            {"setExpr": "{a: $ARGS.named.value}"},
            {"set": 1},
            "set needs getExpr of formatter acme.f, which has none",
            id="no-getexpr",
        ),
        pytest.param(
            "f",
            {"setExpr": "{a: $ARGS.named.value}"},
            {"required": True},
            "required needs getExpr of formatter acme.f, which has none",
            id="nothing-to-judge",
        ),
        pytest.param(
            "f",
            {"getExpr": ".b", "setExpr": "{a: $ARGS.named.value}"},
            {"set": "x"},
            "getExpr of acme.f does not read what its setExpr writes",
            id="reads-something-else",
        ),
        pytest.param(
            "f",
            {"getExpr": ".a", "setExpr": "{a: $ARGS.named.value, n: ((.n // 0) + 1)}"},
            {"default": "x"},
            "setExpr of acme.f writes something else the second time",
            id="counts",
        ),
        pytest.param(
            "f",
            {"getExpr": ".a", "setExpr": "$ARGS.named.value"},
            {"default": "x"},
            "setExpr of acme.f gives text; one object is needed",
            id="no-object",
        ),
        pytest.param(
            "f",
            {"getExpr": ".a[]", "setExpr": "{a: [$ARGS.named.value, 1]}"},
            {"default": "x"},
            "getExpr of acme.f gives 2 values; one is needed",
            id="several",
        ),
        pytest.param(
            "f",
            {"getExpr": ".a | keys", "setExpr": "{a: $ARGS.named.value}"},
            {"default": "x"},
            "getExpr of acme.f met string, which has no keys on what its setExpr writes",
            id="fails",
        ),
        pytest.param(
            "options",
            OPTIONS,
            {"set": {"key": "tls", "value": "maybe"}},
            "set.value: must be one of on, off (argsEnum of acme.options)",
            id="enum",
        ),
        pytest.param(
            "volumes",
            VOLUMES,
            {"default": {"configMapName": "corp"}},
            "default.name: is needed: it tells the item from the others",
            id="item-without-key",
        ),
        pytest.param(
            "volumes",
            VOLUMES,
            {"default": {"name": "ca", "configMap": "corp"}},
            "default.configMap: acme.volumes has no argument 'configMap'; did you mean"
            ' "configMapName"?',
            id="unknown-argument",
        ),
        pytest.param(
            "volumes",
            VOLUMES,
            {"set": {"value": {"name": "ca", "mode": "rw"}}},
            "set.value.mode: must be a whole number, got text",
            id="type-of-an-argument",
        ),
        pytest.param(
            "volumes",
            VOLUMES,
            {"set": {"value": "ca"}},
            "set.value: must be an object of arguments (name, configMapName, mode), got text",
            id="no-arguments",
        ),
        pytest.param(
            "volumes",
            VOLUMES,
            {"set": {"name": "ca", "mode": 2**53}},
            "set.mode: numbers of 2^53 or more don't pass through jq unchanged",
            id="large-number",
        ),
        pytest.param(
            "volumes",
            VOLUMES,
            {"max": 5},
            "an object field has no rule max; it has default, set, required, blocked",
            id="value-rule-without-value",
        ),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused(
    jq: Jq, field: str, formatter: JsonObject, rule: JsonObject, problem: str
) -> None:
    policy = make_gvk_policy(make_rule(field, "s", rule), kind=ACME)
    group = make_group({field: {"formatter": "acme"}})

    (found,) = jq.build(make_formatter({field: formatter}), group, MAPPING, policy).problems

    assert not found.warning
    assert found.path.startswith("spec.rules[0].enforcements[0]")
    assert f"{found.path}: {found.problem}".endswith(problem)


@pytest.mark.parametrize(
    ("field", "rules", "problem"),
    [
        pytest.param(
            "volumes",
            [{"default": {"name": "ca", "configMapName": "x"}}, {"blocked": True}],
            "default of volumes[ca]: all items are blocked",
            id="blocked",
        ),
        pytest.param(
            "settings",
            [{"set": {"name": "a", "value": 9}}, {"max": 5}],
            "set of settings[a]: above the maximum",
            id="above-the-maximum",
        ),
    ],
)
def test_an_item_that_its_own_policy_forbids_is_refused(
    jq: Jq, field: str, rules: list[JsonObject], problem: str
) -> None:
    policy = make_gvk_policy(make_rule(field, "s", *rules), kind=ACME)

    (found,) = jq.build(FORMATTER, GROUP, MAPPING, policy).problems

    assert found.problem == problem


# --- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "get", "query"),
    [
        pytest.param("apiToken", ".x", ".spec", id="name"),
        pytest.param("f", ".env[0].value", ".spec", id="what-it-reads"),
        pytest.param("f", '.["password"]', ".spec", id="key-that-it-reads"),
        pytest.param("f", ".x", ".spec.secret", id="place"),
    ],
)
def test_a_secret_is_known_by_what_the_formatter_reads(
    jq: Jq, name: str, get: str, query: str
) -> None:
    documents = [
        make_formatter({name: {"getExpr": get}}),
        make_group({name: {"formatter": "acme", "type": "string"}}),
        make_mapping(query),
        make_gvk_policy(make_rule(name, "s", {"options": ["correct"]}), kind=ACME),
    ]
    element = {"x": "hunter2", "password": "hunter2", "env": [{"value": "hunter2"}]}

    answer = jq.submit(jq.snapshot(*documents), make_acme_job(**element, secret=element))

    assert answer.violation.value == NOT_SHOWN
    assert "correct" not in answer.violation.accepted


def test_explain_shows_items_by_key(jq: Jq) -> None:
    snapshot = under(jq, "volumes", {"set": {"name": "ca", "configMapName": "corp"}})
    branch = snapshot.branch("team-a")
    (kind,) = [kind for kind in snapshot.mappings if kind.kind == "AcmeJob"]
    held = [p for p in snapshot.policies.policies_of(kind) if holds_at(p, branch)]

    (shown,) = explain(held)

    assert (shown.field, shown.value) == ("volumes[ca]", {"name": "ca", "configMapName": "corp"})


# --- the whole object ----------------------------------------------------------------------------


def test_a_formatter_that_sets_a_label_touches_the_label_alone(jq: Jq) -> None:
    """An expression may return all that it was given, rounded by jq on the way."""
    label = {
        "getExpr": ".metadata.labels.team?",
        "setExpr": ".metadata.labels.team = $ARGS.named.value | .spec.n = null",
    }
    documents = [
        make_formatter({"label": label}),
        make_group({"label": {"formatter": "acme", "type": "string"}}),
        make_mapping("."),
        make_gvk_policy(make_rule("label", "s", {"set": "vision"}), kind=ACME),
    ]
    spec = {"seed": 9007199254740993, "big": 18446744073709551615, "f": 1.0, "e": 1e2, "n": 5}
    job = make_acme_job(**spec, list=[{"seed": 2**60 + 1}, None, 1.5])
    job["metadata"]["managedFields"] = [{"manager": "kubectl", "time": None}]

    answer = jq.submit(jq.snapshot(*documents), job)

    assert answer.patch == [{"op": "add", "path": "/metadata/labels", "value": {"team": "vision"}}]


class CountingWorker(JqWorker):
    """Counts the trips for values."""

    trips = 0

    def evaluate_values(self, *args: Any) -> Any:
        self.trips += 1
        return super().evaluate_values(*args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "spec", "trips"),
    [
        pytest.param(Phase.MUTATE, {}, 2, id="as-submitted-and-as-completed"),
        pytest.param(Phase.MUTATE, {"address": ":80", "volumes": [CA]}, 1, id="complete"),
        pytest.param(Phase.VALIDATE, {}, 1, id="judged-only"),
    ],
)
def test_a_review_takes_one_trip_and_another_after_it_has_written(
    phase: Phase, spec: JsonObject, trips: int
) -> None:
    group = make_group(
        {"port": {"formatter": "acme"}, "volumes": {"formatter": "acme", "itemSelectors": ["i"]}},
        itemSelectors={"i": {"query": ".name == $ARGS.named.n", "argsInfo": {"n": "string"}}},
    )
    chosen = {"itemSelector": "i", "selectorParams": {"n": "x"}}
    rules = [
        make_rule("port", "s", {"default": 80}),
        make_rule("volumes", "s", {"default": {"name": "ca", "configMapName": "corp"}}),
        make_rule("volumes", "s", {"blocked": True}, **chosen),
    ]
    with CountingWorker(WorkerLimits(evaluate_ms=2000)) as worker:
        snapshot = Jq(worker).snapshot(
            FORMATTER, group, MAPPING, make_gvk_policy(*rules, kind=ACME)
        )
        request = make_request(make_acme_job(**spec))

        answer_by_jq(
            worker, request.object or {}, lambda got: review(request, phase, snapshot, got)
        )

        assert worker.trips == trips
