"""Expressions that yield values: what they say, and that hostile ones harm nobody."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from webhook.errors import EvaluationError, SpecError
from webhook.mapping.answers import Question, ask_about
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits
from webhook.mapping.programs import MAX_VALUES, Expression, compile_expression
from webhook.mapping.results import Inexact, QueryFailure
from webhook.mapping.trials import SmokeRun
from webhook.model.values import FieldType

GPUS = Expression("[.containers[]?.gpus // 0] | add")
POD = {"containers": [{"gpus": 1}, {}, {"gpus": 2}], "secret": "hunter2"}

# Longer than any limit together with a start of the child on a machine that is busy.
ENDS_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    """For expressions that end. The deadline is long, so that a busy machine breaks no test."""
    with JqWorker(WorkerLimits(evaluate_ms=2000)) as shared:
        yield shared


@pytest.fixture(scope="module")
def default_worker() -> Iterator[JqWorker]:
    with JqWorker() as shared:
        yield shared


@pytest.fixture
def make_worker() -> Iterator[Callable[..., JqWorker]]:
    made: list[JqWorker] = []

    def make(**limits: Any) -> JqWorker:
        made.append(JqWorker(WorkerLimits(**limits)))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


def ask(worker: JqWorker, *questions: Question) -> list[Any]:
    expressions = tuple(dict.fromkeys([question.expression for question in questions]))
    return worker.evaluate_values(expressions, questions)


def answer(worker: JqWorker, source: str, subject: Any = POD, **arguments: Any) -> Any:
    (found,) = ask(worker, ask_about(Expression(source), arguments, subject))
    return found


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("[.containers[]?.gpus // 0] | add", (3,), id="computed"),
        pytest.param(".containers[].gpus", (1, None, 2), id="several"),
        pytest.param("empty", (), id="none"),
        pytest.param("null", (None,), id="null"),
        pytest.param("$ARGS.named.a", ("x",), id="argument"),
        pytest.param("$ARGS.named.none", (None,), id="argument-that-is-missing"),
        pytest.param("$ARGS.positional", (None,), id="no-positional-arguments"),
        pytest.param("{a: $ARGS.named.a} # \\", ({"a": "x"},), id="comment-at-the-end"),
        pytest.param('"\\u0000é"', ("\x00é",), id="any-text"),
    ],
)
def test_an_expression_yields_values(worker: JqWorker, source: str, want: Any) -> None:
    assert answer(worker, source, a="x") == want


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param('.name == "a"', (True,), id="true"),
        pytest.param('.name == "b"', (), id="false"),
        pytest.param(".absent", (), id="null"),
        pytest.param("empty", (), id="nothing"),
        pytest.param('select(.name == "a")', (True,), id="the-item-itself"),
        pytest.param("0", (True,), id="zero-is-true-in-jq"),
        pytest.param("false, 1", (True,), id="any-of-several"),
    ],
)
def test_a_test_says_whether_something_is_neither_null_nor_false(
    worker: JqWorker, source: str, want: Any
) -> None:
    question = ask_about(Expression(source, is_test=True), {}, {"name": "a"})

    assert ask(worker, question) == [want]


@pytest.mark.parametrize("source", [".[] | .a == 1", " .[]? |\n.a == 1", ".a == 1"])
def test_a_test_may_begin_with_the_list(worker: JqWorker, source: str) -> None:
    expression = compile_expression(source, path="q", is_test=True)

    assert ask(worker, ask_about(expression, {}, {"a": 1})) == [(True,)]


def test_an_update_is_no_way_to_each_item() -> None:
    assert compile_expression(".[] |= 1", path="q", is_test=True).source == ".[] |= 1"


def test_many_questions_about_several_subjects_are_answered_in_their_order(
    worker: JqWorker,
) -> None:
    doubled = Expression(".n * 2 + $ARGS.named.add")
    named = Expression(".n", is_test=True)
    questions = [
        ask_about(expression, {"add": add}, {"n": number})
        for number in range(20)
        for expression in (doubled, named)
        for add in (0, 100)
    ]

    assert ask(worker, *questions) == [
        (number * 2 + add,) if expression is doubled else (True,)
        for number in range(20)
        for expression in (doubled, named)
        for add in (0, 100)
    ]


def test_no_question_means_no_answer(worker: JqWorker) -> None:
    assert worker.evaluate_values((GPUS,), ()) == []


@pytest.mark.parametrize(
    ("number", "want"),
    [
        pytest.param(2**53 - 1, 2**53 - 1, id="exact"),
        pytest.param(2**53, Inexact(2**53), id="the-first-that-may-be-another"),
        pytest.param(2**53 + 1, Inexact(2**53), id="rounded"),
        pytest.param(-(2**60), Inexact(-(2**60)), id="negative"),
        pytest.param(2**64 - 1, Inexact(2**64), id="64-bits"),
        pytest.param(0.1, 0.1, id="fraction"),
    ],
)
def test_a_number_that_jq_may_have_rounded_is_marked(
    worker: JqWorker, number: Any, want: Any
) -> None:
    assert answer(worker, "., [.], {a: .}", number) == (want, [want], {"a": want})


# --- neighbours ----------------------------------------------------------------------------------

DISTURBERS = [
    pytest.param(". |", "does not compile", id="open-pipe"),
    pytest.param("1) , (2", "does not compile", id="closes-a-parenthesis"),
    pytest.param("1 end else 2", "does not compile", id="closes-our-if"),
    pytest.param("", "does not compile", id="empty"),
    pytest.param('import "a" as a; .', "does not compile", id="import"),
    pytest.param("def f: 1; f", (1,), id="definition"),
    pytest.param(". as $__q | 7", (7,), id="our-variable"),
    pytest.param("$__q, $__in", "does not compile", id="our-variables-are-not-seen"),
    pytest.param("error({__jq: (0, 1, 2, 3)})", "failed in jq", id="forged-break"),
    pytest.param("error(null)", "failed in jq", id="error-without-text"),
    pytest.param("halt", "halt, which is not available", id="halt"),
    pytest.param('"x" | halt_error', "halt_error, which is not available", id="halt-error"),
    pytest.param("input", "input, which is not available", id="input"),
    pytest.param(".secret.x", 'cannot index string with "x"', id="type-error"),
    pytest.param("range(1e6)", f"gave more than {MAX_VALUES} values", id="million-outputs"),
]


@pytest.mark.parametrize(("source", "want"), DISTURBERS)
def test_an_expression_does_not_disturb_its_neighbours(
    worker: JqWorker, source: str, want: Any
) -> None:
    """Vetting refuses most of these; it is left out here."""
    asked = [GPUS, Expression(source), Expression(".secret", is_test=True)]

    before, result, after = ask(worker, *[ask_about(e, {}, POD) for e in asked])

    assert (before, after) == ((3,), (True,))
    shown = result.reason if isinstance(result, QueryFailure) else result
    assert want in shown if isinstance(want, str) else shown == want


@pytest.mark.parametrize(
    "source",
    ["error(.secret)", ".secret[]", ".secret + 1", ".secret | fromjson", ".secret | tonumber"],
)
def test_a_failure_shows_no_value_of_the_object(worker: JqWorker, source: str) -> None:
    assert "hunter2" not in repr(answer(worker, source))


# --- hostile expressions, with vetting bypassed --------------------------------------------------

HOSTILE = [
    pytest.param("def f: f; f", id="endless-recursion"),
    pytest.param("last(range(1e12))", id="range"),
    pytest.param("last(repeat(1))", id="repeat"),
    pytest.param("until(false; .)", id="until"),
    pytest.param("def f: 1 + f; f", id="recursion-that-grows"),
    pytest.param("[range(1e12)]", id="growing-array"),
    pytest.param("null | .[1e8] = 1", id="array-with-a-far-index"),
    pytest.param('reduce range(60) as $i ("xx"; . + .)', id="doubling-text"),
    pytest.param("reduce range(10000000) as $i (1; [.])", id="deep-result"),
    pytest.param('"x" * 1e9', id="huge-text"),
    pytest.param("[limit(1e12; repeat(1))]", id="limited-repeat"),
]

REASONS = re.compile(
    r"^(one of 2 expressions|the expression) "
    r"(did not (end|compile) within \d+ ms|used more than 512 MiB|ended its process with SIG\w+)$"
)


@pytest.mark.slow
@pytest.mark.parametrize("is_test", [False, True], ids=["get-or-set", "item"])
@pytest.mark.parametrize("source", HOSTILE)
def test_an_expression_without_end_ends_and_the_next_one_does_not_notice(
    default_worker: JqWorker, source: str, is_test: bool
) -> None:
    questions = [ask_about(e, {}, POD) for e in (GPUS, Expression(source, is_test))]
    start = time.monotonic()

    with pytest.raises(EvaluationError) as caught:
        ask(default_worker, *questions)

    assert time.monotonic() - start < ENDS_WITHIN_S
    assert REASONS.match(str(caught.value))
    assert ask(default_worker, questions[0]) == [(3,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        *HOSTILE,
        pytest.param("range(1e6)", id="flood"),
        pytest.param('"x" * 3e7', id="long-answer"),
        pytest.param("last(range(1e12)) | $ARGS.named.a", id="after-the-arguments"),
        pytest.param("if $ARGS.named.a then last(repeat(1)) else 1 end", id="only-with-arguments"),
    ],
)
def test_the_check_refuses_an_expression_without_end(
    make_worker: Callable[..., JqWorker], source: str
) -> None:
    worker = make_worker(evaluate_ms=60, compile_ms=600)
    trial = SmokeRun(Expression(source), {"a": FieldType.STRING})

    with pytest.raises(SpecError, match=r"^q: the expression (did|used|ended|gave|has)"):
        worker.check(trial, path="q")


@pytest.mark.parametrize(
    "source",
    ["$ENV", "env", "$ENV.GATEWRIGHT_CANARY", '"\\($ENV)"', "error($ENV)", "[$$$ENV | tostring]"],
)
def test_the_environment_never_appears(
    make_worker: Callable[..., JqWorker], monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("GATEWRIGHT_CANARY", "sesame-4711")

    found = answer(make_worker(), source)

    assert "sesame-4711" not in repr(found)
    assert "GATEWRIGHT_CANARY" not in repr(found).replace(source, "")


def test_an_answer_that_is_too_long_is_none(make_worker: Callable[..., JqWorker]) -> None:
    worker = make_worker(answer_max_bytes=2000)

    (long,) = ask(worker, ask_about(Expression('"a" * 3000'), {}, POD))

    assert long == QueryFailure("has a result of more than 2000 bytes")


@pytest.mark.slow
def test_far_too_many_items_are_not_looked_at(worker: JqWorker) -> None:
    questions = [ask_about(GPUS, {}, number) for number in range(20_001)]

    with pytest.raises(EvaluationError, match="more than 20000 items would have to be looked at"):
        worker.evaluate_values((GPUS,), questions)


def test_a_subject_that_nests_without_end_is_refused() -> None:
    subject: dict[str, Any] = {}
    for _ in range(100_000):
        subject = {"a": subject}

    with pytest.raises(EvaluationError, match="nests too deeply"):
        ask_about(GPUS, {}, subject)


def test_numbers_beyond_64_bits_can_be_asked_about(worker: JqWorker) -> None:
    subject = json.loads('{"a": 1, "b": 123456789012345678901234567890}')

    assert answer(worker, ".a", subject) == (1,)
