from __future__ import annotations

import base64
from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pytest

from tests.unit.admission.builders import (
    SOURCE,
    UID,
    decoded,
    denied,
    make_change,
    make_violation,
    mutated,
)
from webhook.admission.response import (
    CAUSE_REASON,
    MAX_CAUSES,
    MESSAGE_MAX_LINES,
    WARNING_MAX_CHARS,
    WARNINGS_MAX_CHARS,
    respond,
    shorten_warnings,
    violation_line,
)
from webhook.model.decision import NOT_SHOWN, Decision, Rule, Source
from webhook.model.scopes import Scope

ALLOWED = Decision(True)

# Everything that a policy author or a submitter might put into a text.
NASTY = "two\nlines\r\n\ttab \x1b[31mred\x07 \u2028 \u202eesrever \x00 \ud800 end"


def status(decision: Decision, **fields: Any) -> dict[str, Any]:
    answer = respond(decoded(**fields), decision)
    found: dict[str, Any] = answer["response"]["status"]
    return found


def is_one_clean_line(text: str) -> bool:
    return text.isprintable() and len(text.splitlines()) == 1


@pytest.mark.parametrize("api_version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
@pytest.mark.parametrize(
    "decision", [ALLOWED, denied([make_violation()]), mutated([make_change()])]
)
def test_an_answer_carries_the_uid_and_the_version_that_asked(
    api_version: str, decision: Decision
) -> None:
    answer = respond(decoded(api_version), decision)

    assert answer["apiVersion"] == api_version
    assert answer["kind"] == "AdmissionReview"
    assert answer["response"]["uid"] == UID
    assert answer["response"]["allowed"] is decision.allowed


def test_a_plain_yes_says_nothing_else() -> None:
    assert respond(decoded(), ALLOWED)["response"] == {"uid": UID, "allowed": True}


def test_a_patch_goes_with_its_type() -> None:
    decision = mutated([make_change()])

    response = respond(decoded(), decision)["response"]

    assert response["patchType"] == "JSONPatch"
    assert orjson.loads(base64.b64decode(response["patch"])) == decision.patch


def test_a_patch_keeps_integers_beyond_64_bits() -> None:
    patch = [{"op": "add", "path": "/spec/seed", "value": 2**70}]

    response = respond(decoded(), replace(ALLOWED, patch=patch))["response"]

    assert str(2**70).encode() in base64.b64decode(response["patch"])


def test_a_denial_has_no_patch() -> None:
    decision = replace(denied([make_violation()]), patch=[{"op": "remove", "path": "/a"}])

    response = respond(decoded(), decision)["response"]

    assert response.keys() == {"uid", "allowed", "status", "auditAnnotations"}


def test_a_denial_is_forbidden_and_says_what_about() -> None:
    got = status(
        denied([make_violation()]), kind={"group": "apps", "version": "v1", "kind": "Deployment"}
    )

    assert (got["code"], got["reason"]) == (403, "Forbidden")
    details = {key: got["details"][key] for key in ("name", "group", "kind")}
    assert details == {"name": "train", "group": "apps", "kind": "Deployment"}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {},
            "compute.gpuDevicesRequest [allContainers main]: above the maximum, got 16; ≤ 8"
            " (policy guardrails, project team-a)",
            id="everything",
        ),
        pytest.param(
            {"selector": "", "item": "", "value": None, "accepted": ""},
            "compute.gpuDevicesRequest: above the maximum (policy guardrails, project team-a)",
            id="nothing-but-the-problem",
        ),
        pytest.param(
            {"item": "", "accepted": ""},
            "compute.gpuDevicesRequest [allContainers]: above the maximum, got 16"
            " (policy guardrails, project team-a)",
            id="no-item",
        ),
        pytest.param(
            {"field": "", "selector": "", "item": "", "path": ("spec", "replicas")},
            "spec.replicas: above the maximum, got 16; ≤ 8 (policy guardrails, project team-a)",
            id="no-field",
        ),
        pytest.param(
            {"source": Source("base", Scope.TENANT)},
            "compute.gpuDevicesRequest [allContainers main]: above the maximum, got 16; ≤ 8"
            " (policy base, tenant)",
            id="no-unit",
        ),
    ],
)
def test_a_violation_is_one_line_of_what_there_is_to_say(fields: dict[str, Any], want: str) -> None:
    assert violation_line(make_violation(**fields)) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(0, "got 0;", id="zero"),
        pytest.param(False, "got false;", id="false"),
        pytest.param("", 'got "";', id="empty-text"),
        pytest.param("16Gi", "got 16Gi;", id="word"),
        pytest.param("two words", 'got "two words";', id="words"),
        pytest.param(NOT_SHOWN, "got (not shown);", id="hidden"),
        pytest.param(["a", 1], 'got ["a",1];', id="list"),
        pytest.param({"a": None}, 'got {"a":null};', id="object"),
        pytest.param(Decimal("0.5"), 'got "0.5";', id="decimal"),
        pytest.param(2**80, f"got {2**80};", id="large-integer"),
    ],
)
def test_a_value_is_shown_as_it_was_written(value: Any, want: str) -> None:
    assert want in violation_line(make_violation(value=value))


def test_a_value_without_an_end_is_cut() -> None:
    assert len(violation_line(make_violation(value="x" * 1_000_000))) < 400


def test_a_value_nested_beyond_all_limits_is_no_crash() -> None:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]

    assert "cannot be shown" in violation_line(make_violation(value=value))


@pytest.mark.parametrize("place", ["field", "selector", "item", "problem", "value", "accepted"])
@pytest.mark.parametrize("text", [NASTY, NASTY * 300])
def test_no_text_breaks_its_line(place: str, text: str) -> None:
    fields: dict[str, Any] = {place: text}

    line = violation_line(make_violation(**fields))

    assert is_one_clean_line(line)
    assert line.endswith("(policy guardrails, project team-a)")
    assert len(line) < 600


def test_a_denial_lists_twenty_violations_and_counts_the_rest() -> None:
    violations = [make_violation(item=f"container-{n % 12}", field=f"f{n}") for n in range(40)]

    got = status(denied(violations))

    lines = got["message"].split("\n")
    assert len(lines) == MESSAGE_MAX_LINES + 1
    assert lines[0].startswith("f0 [allContainers container-0]: ")
    assert lines[-1] == "and 20 more"
    assert len(got["details"]["causes"]) == 40


@pytest.mark.parametrize(
    ("count", "title"),
    [
        pytest.param(1, "Pod train breaks a rule:", id="one"),
        pytest.param(19, "Pod train breaks 19 rules:", id="as-many-as-leave-room"),
    ],
)
def test_a_denial_begins_with_what_breaks_how_many_rules(count: int, title: str) -> None:
    """Of several objects in a file, kubectl does not say which one is meant."""
    lines = status(denied([make_violation()] * count))["message"].split("\n")

    assert lines[0] == title
    assert len(lines) == count + 1 <= MESSAGE_MAX_LINES


def test_exactly_twenty_violations_need_no_count() -> None:
    message = status(denied([make_violation()] * MESSAGE_MAX_LINES))["message"]

    assert len(message.split("\n")) == MESSAGE_MAX_LINES
    assert "more" not in message


def test_the_number_of_causes_is_bounded() -> None:
    assert len(status(denied([make_violation()] * 5000))["details"]["causes"]) == MAX_CAUSES


def test_a_denial_without_violations_says_its_reason() -> None:
    decision = Decision(False, reason="spec.scope: unknown\nspec.rules: missing")

    assert status(decision)["message"] == "spec.scope: unknown\nspec.rules: missing"


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (Rule.REQUIRED, "FieldValueRequired"),
        (Rule.OPTIONS, "FieldValueNotSupported"),
        (Rule.PATTERN, "FieldValueNotSupported"),
        (Rule.MIN, "FieldValueInvalid"),
        (Rule.MAX, "FieldValueInvalid"),
        (Rule.STEP, "FieldValueInvalid"),
        (Rule.TYPE, "FieldValueInvalid"),
        (Rule.BLOCKED, "FieldValueForbidden"),
        (Rule.CAN_EDIT, "FieldValueForbidden"),
        (Rule.SET, "FieldValueForbidden"),
    ],
)
def test_a_cause_names_its_reason_and_place(rule: Rule, reason: str) -> None:
    (cause,) = status(denied([make_violation(rule)]))["details"]["causes"]

    assert cause == {
        "reason": reason,
        "field": "spec.containers[0].resources.limits[nvidia.com/gpu]",
        "message": "above the maximum, got 16; ≤ 8 (policy guardrails, project team-a)",
    }


def test_every_rule_that_can_be_broken_has_its_reason() -> None:
    assert set(Rule) - CAUSE_REASON.keys() == {Rule.DEFAULT, Rule.DEFAULT_FROM}


def test_a_denial_of_a_nasty_object_is_clean_text() -> None:
    violation = make_violation(path=("spec", NASTY), problem=NASTY)

    got = status(denied([violation]), object={"metadata": {"name": "a\nb\x1b[0m"}})

    (cause,) = got["details"]["causes"]
    assert [is_one_clean_line(line) for line in got["message"].split("\n")] == [True, True]
    assert is_one_clean_line(cause["field"])
    assert is_one_clean_line(cause["message"])
    assert got["details"]["name"] == "a b [0m"
    orjson.dumps(got)


# --- warnings ---


@pytest.mark.parametrize(
    ("warning", "want"),
    [
        pytest.param("short", "short", id="short"),
        pytest.param("a\nb\tc\x1b[31m", "a b c [31m", id="control-characters"),
        pytest.param("x" * WARNING_MAX_CHARS, "x" * WARNING_MAX_CHARS, id="just-fits"),
    ],
)
def test_a_warning_is_one_line(warning: str, want: str) -> None:
    assert shorten_warnings([warning]) == [want]


@pytest.mark.parametrize("length", [WARNING_MAX_CHARS + 1, 10_000])
def test_a_long_warning_keeps_its_policy(length: int) -> None:
    text = "x\n" * (length // 2) + f" ({SOURCE})"

    (got,) = shorten_warnings([text])

    assert len(got) <= WARNING_MAX_CHARS
    assert got.endswith("… (policy guardrails, project team-a)")
    assert is_one_clean_line(got)


def test_a_name_of_full_length_leaves_room_for_the_warning() -> None:
    source = Source("p" * 253, Scope.PROJECT, "u" * 253)

    (got,) = shorten_warnings([f"limit not applied, {'x' * 100} ({source})"])

    assert len(got) <= WARNING_MAX_CHARS
    assert got.startswith("limit not applied")
    assert "(policy ppp" in got


def test_warnings_together_stay_within_the_limit_and_are_counted() -> None:
    got = shorten_warnings([f"{n:03} " + "x" * 500 for n in range(100)])

    assert sum(map(len, got)) <= WARNINGS_MAX_CHARS
    assert got[-1] == f"and {100 - (len(got) - 1)} more warnings"
    assert len(got) > 10


def test_sixteen_full_warnings_fit() -> None:
    warnings = [f"{n:03}".ljust(WARNING_MAX_CHARS, "x") for n in range(16)]

    assert shorten_warnings(warnings) == warnings


def test_equal_and_empty_warnings_are_left_out() -> None:
    assert shorten_warnings(["a", "", "\n", "a", "b"]) == ["a", "b"]


def test_warnings_go_with_any_answer() -> None:
    decision = replace(ALLOWED, warnings=("limit not applied",))

    assert respond(decoded(), decision)["response"]["warnings"] == ["limit not applied"]
