"""That expressions find what jq finds, and harm neither the process nor their neighbours."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from webhook.errors import EvaluationError, SpecError
from webhook.mapping import jq_child
from webhook.mapping.evaluator import JqWorker, document_for_jq
from webhook.mapping.limits import LARGE_DOCUMENT_BYTES, WorkerLimits
from webhook.mapping.programs import MAX_PLACES
from webhook.mapping.results import QueryFailure

GROUPS = '.spec.groups[] | select(has("template")) | .template'
DOCUMENT = {
    "kind": "Sample",
    "spec": {"groups": [{"template": {}}, {"name": "b"}, {"template": {"x": 1}}]},
    "secret": "hunter2",
}
DOCUMENT_JSON = json.dumps(DOCUMENT).encode()
GROUP_PLACES = [("spec", "groups", 0, "template"), ("spec", "groups", 2, "template")]

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


@pytest.fixture(scope="module")
def worker_with_a_canary() -> Iterator[JqWorker]:
    """Its child was started by a process that has something to hide in its environment."""
    with pytest.MonkeyPatch.context() as patch, JqWorker() as shared:
        patch.setenv("GATEWRIGHT_CANARY", "sesame-4711")
        shared.evaluate_paths((".kind | first(.)",), b"{}")
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


# Does what the document says; vetting would refuse it. jq computes what is constant (`"x" * 1e9`)
# when it compiles.
HOSTILE = (
    'if .mode == "loop" then last(range(1e12))'
    ' elif .mode == "flood" then .[.mode * 1e8 | length]'
    " else .kind end"
)


def document(**values: str) -> bytes:
    return json.dumps(values).encode()


def children() -> set[int]:
    """The worker processes of this process."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if int(status[1]) == os.getpid() and b"jq_worker.py" in command:
            found.add(int(entry.name))
    return found


def cpu_ticks(process: int) -> int:
    """Processor time so far; 0 for one that is gone."""
    try:
        status = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(status[11])


@contextlib.contextmanager
def running(evaluate: Callable[[], Any]) -> Iterator[None]:
    """
    *evaluate*, which has no end, goes on in a thread during the block. Then its child dies.

    That is one of those that are there already: it is known by the time that it takes.
    """
    failures: list[str] = []

    def run() -> None:
        try:
            evaluate()
        except EvaluationError as e:
            failures.append(str(e))

    idle_ticks = {child: cpu_ticks(child) for child in children()}
    thread = threading.Thread(target=run)
    thread.start()
    busy: list[int] = []
    while not busy:
        assert thread.is_alive(), failures
        time.sleep(0.005)
        busy = [child for child, ticks in idle_ticks.items() if cpu_ticks(child) > ticks]
    try:
        yield
        assert thread.is_alive(), failures
    finally:
        os.kill(busy[0], signal.SIGKILL)
        thread.join()
    assert failures == ["the expression ended its process with SIGKILL"]


# --- neighbours ----------------------------------------------------------------------------------

# Each would swallow, close, replace or stop its neighbours if it could.
DISTURBERS = [
    pytest.param(".kind #", [("kind",)], id="comment"),
    pytest.param(".kind # \\", [("kind",)], id="comment-that-goes-on"),
    pytest.param(".kind |", "does not compile", id="open-pipe"),
    pytest.param("1) , (2", "does not compile", id="closes-a-parenthesis"),
    pytest.param("1)] , [(2", "does not compile", id="closes-the-list"),
    pytest.param("(.kind", "does not compile", id="open-parenthesis"),
    pytest.param('"', "does not compile", id="open-quote"),
    pytest.param("", "does not compile", id="empty"),
    pytest.param("def path(f): 1;", "does not compile", id="definition-without-expression"),
    pytest.param("def path(f): 1; .kind", [("kind",)], id="definition"),
    pytest.param('import "a" as a; .', "does not compile", id="import"),
    pytest.param(". #\0", "no result that can be read", id="nul"),
    pytest.param("error({__jq: (0, 1, 2, 3)})", "failed in jq", id="forged-break"),
    pytest.param("error(null)", "failed in jq", id="error-without-text"),
    pytest.param("halt", "halt, which is not available", id="halt"),
    pytest.param('"x" | halt_error', "halt_error, which is not available", id="halt-error"),
    pytest.param("input", "input, which is not available", id="input"),
    pytest.param("empty", [], id="emits-nothing"),
    pytest.param(".kind.x", 'cannot index string with "x"', id="type-error"),
    pytest.param(".kind + 1", "met string and number, which cannot be added", id="arithmetic"),
    pytest.param(".kind | keys", "met string, which has no keys", id="keys"),
    pytest.param('{} | has("a") | .', "computes a value", id="computed-value"),
    pytest.param(".items[range(1e6)]", "selected more than 1000 places", id="million-outputs"),
    pytest.param(".spec.groups[0:1]", "selected a part of a list", id="slice"),
    pytest.param(".x[0.5]", "selected a part of a list", id="fraction"),
]


@pytest.mark.parametrize(("source", "want"), DISTURBERS)
def test_an_expression_does_not_disturb_its_neighbours(
    worker: JqWorker, source: str, want: list[Any] | str
) -> None:
    """Vetting refuses most of these; it is left out here."""
    before, result, after = worker.evaluate_paths((GROUPS, source, ".kind"), DOCUMENT_JSON)

    assert before == GROUP_PLACES
    assert after == [("kind",)]
    shown = result.reason if isinstance(result, QueryFailure) else result
    assert want in shown if isinstance(want, str) else shown == want


# --- results -------------------------------------------------------------------------------------


def test_places_are_found_in_the_order_of_jq(worker: JqWorker) -> None:
    assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]


def test_no_expression_means_no_result(worker: JqWorker) -> None:
    assert worker.evaluate_paths((), DOCUMENT_JSON) == []


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param(".spec.groups[-1]", [("spec", "groups", 2)], id="last"),
        pytest.param(".spec.groups | last.name", [("spec", "groups", 2, "name")], id="function"),
        pytest.param(".spec.groups[-4]", [], id="before-the-beginning"),
        pytest.param(".absent[-1]", [], id="of-nothing"),
        pytest.param(".spec.groups[-1, 0]", [("spec", "groups", 2), ("spec", "groups", 0)]),
    ],
)
def test_an_index_from_the_end_becomes_one_from_the_beginning(
    worker: JqWorker, source: str, want: list[Any]
) -> None:
    assert worker.evaluate_paths((source,), DOCUMENT_JSON) == [want]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("error(.secret)", id="raised"),
        pytest.param(".secret[]", id="iterated"),
        pytest.param(".secret.x", id="indexed"),
        pytest.param(".spec[.secret].x.y[]", id="as-a-key"),
        pytest.param(".kind[.secret]", id="as-a-key-of-text"),
        pytest.param(".secret + 1", id="added"),
        pytest.param(".secret | keys", id="keys"),
        pytest.param(".secret | fromjson", id="parsed"),
        pytest.param(".secret | tonumber", id="number"),
        pytest.param(".secret | ascii_downcase", id="computed"),
        pytest.param('error("startswith() \\(.secret) requires string inputs")', id="forged"),
        pytest.param('error("Cannot index null with string (\\"\\(.secret)\\")")', id="forged-key"),
    ],
)
def test_a_failure_shows_no_value_of_the_object(worker: JqWorker, source: str) -> None:
    (result,) = worker.evaluate_paths((source,), DOCUMENT_JSON)

    assert "hunter2" not in repr(result)


def test_exactly_as_many_places_as_allowed_are_fine(worker: JqWorker) -> None:
    document = json.dumps([{"a": 1}] * MAX_PLACES).encode()

    (result,) = worker.evaluate_paths((".[] | select(.a == 1)",), document)

    assert isinstance(result, list)
    assert len(result) == MAX_PLACES


def test_a_result_that_is_too_long_is_no_result(make_worker: Callable[..., JqWorker]) -> None:
    worker = make_worker(answer_max_bytes=2000)
    long, short = worker.evaluate_paths(
        ('.["a" * (900, 901, 902)]', ".kind | select(true)"), DOCUMENT_JSON
    )

    assert long == QueryFailure("has a result of more than 2000 bytes")
    assert short == [("kind",)]


def test_a_compile_error_is_placed_in_the_author_s_own_lines(worker: JqWorker) -> None:
    with pytest.raises(SpecError) as caught:
        worker.check(".spec\n| no_such_thing(1)", path="spec.x")

    assert caught.value.path == "spec.x"
    assert caught.value.problem == (
        "the expression does not compile: no_such_thing/1 is not defined (line 2, column 3)"
    )


def test_what_was_found_sound_is_not_tried_again(make_worker: Callable[..., JqWorker]) -> None:
    """Whoever has checked a change puts it in force next."""
    worker = make_worker()
    worker.check(GROUPS, path="query")
    worker.close()

    worker.check(GROUPS, path="query")
    with pytest.raises(EvaluationError):
        worker.check(".spec | first(.)", path="query")


def test_a_sound_expression_passes_the_check(worker: JqWorker) -> None:
    worker.check(GROUPS, path="query")


def test_an_error_on_a_sample_is_no_reason_to_refuse(worker: JqWorker) -> None:
    worker.check(".spec.replicas[] | .x", path="query")


def test_large_numbers_in_the_object_are_not_touched(worker: JqWorker) -> None:
    """jq computes with floats, so that only paths come back from it."""
    text = '{"seed":9007199254740993,"big":18446744073709551615,"f":1.0,"list":[{"a":1}]}'
    document = json.loads(text)

    (result,) = worker.evaluate_paths((".list[] | select(.a == 1)",), document_for_jq(document))

    assert result == [("list", 0)]
    assert json.dumps(document, separators=(",", ":")) == text


def test_managed_fields_are_left_out_without_touching_the_object() -> None:
    metadata = {"name": "a", "managedFields": [{"manager": "kubectl"}], "labels": {}}
    document = {"kind": "Pod", "metadata": metadata, "spec": {"x": 10**30}}

    text = document_for_jq(document)

    assert json.loads(text) == {
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {}},
        "spec": {"x": 10**30},
    }
    assert document["metadata"] is metadata
    assert "managedFields" in metadata


def test_an_object_that_nests_without_end_is_refused() -> None:
    document: dict[str, Any] = {}
    for _ in range(100_000):
        document = {"a": document}

    with pytest.raises(EvaluationError, match="nests too deeply"):
        document_for_jq(document)


# --- hostile expressions, with vetting bypassed --------------------------------------------------

ENDLESS = [
    pytest.param("def f: f; f", id="endless-recursion"),
    pytest.param("last(range(1e12))", id="range"),
    pytest.param("last(repeat(1))", id="repeat"),
    pytest.param("until(false; .)", id="until"),
    pytest.param("[limit(1e12; repeat(1))]", id="limited-repeat"),
    pytest.param("def f: 1 + f; f", id="recursion-that-grows"),
    pytest.param("[range(1e12)]", id="growing-array"),
    pytest.param("null | .[1e8] = 1", id="array-with-a-far-index"),
    pytest.param('reduce range(60) as $i ("xx"; . + .)', id="doubling-text"),
    pytest.param("reduce range(10000000) as $i (1; [.])", id="deep-result"),
    pytest.param('"x" * 1e9', id="huge-text"),
    pytest.param('.["x" * 1e9]', id="huge-key"),
]

REASONS = re.compile(
    r"^(one of 2 expressions|the expression) "
    r"(did not (end|compile) within \d+ ms|used more than 512 MiB|ended its process with SIG\w+)$"
)


@pytest.mark.slow
@pytest.mark.parametrize("source", ENDLESS)
def test_an_expression_without_end_ends(default_worker: JqWorker, source: str) -> None:
    """In time, with a clear reason; and the next evaluation does not notice."""
    worker = default_worker
    start = time.monotonic()

    with pytest.raises(EvaluationError) as caught:
        worker.evaluate_paths((source, ".kind"), DOCUMENT_JSON)

    assert time.monotonic() - start < ENDS_WITHIN_S
    assert REASONS.match(str(caught.value))
    assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        pytest.param("last(range(1e12))", id="time"),
        pytest.param('.["x" * (1e9 + length)]', id="memory"),
        pytest.param('.["x" * 1e9]', id="memory-in-the-compiler"),
        pytest.param("reduce range(1000000) as $i (1; [.])", id="crash"),
        pytest.param(".a[range(1e6)]", id="flood"),
    ],
)
def test_the_check_refuses_an_expression_without_end(
    make_worker: Callable[..., JqWorker], source: str
) -> None:
    worker = make_worker(evaluate_ms=40)

    with pytest.raises(SpecError, match=r"^query: the expression (did|used|ended|selected)"):
        worker.check(source, path="query")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('.[$ENV.GATEWRIGHT_CANARY // "nothing"]', id="variable"),
        pytest.param(".[env.GATEWRIGHT_CANARY]", id="function"),
        pytest.param("error($ENV)", id="raised"),
        pytest.param(".[$ENV | tostring]", id="all-of-it"),
        pytest.param(".[env | tostring]", id="all-of-it-by-function"),
        pytest.param('.["\\($ENV)"]', id="interpolated"),
        pytest.param(".[$$$ENV | tostring]", id="odd-form"),
        pytest.param('.[("GATEWRIGHT_CANARY" | $ENV[.]) // "nothing"]', id="computed-name"),
    ],
)
def test_the_environment_never_appears(worker_with_a_canary: JqWorker, source: str) -> None:
    results = worker_with_a_canary.evaluate_paths((source,), b"{}")

    assert "sesame-4711" not in repr(results)
    assert "GATEWRIGHT_CANARY" not in repr(results)


def test_time_is_the_reason_given_for_a_loop(make_worker: Callable[..., JqWorker]) -> None:
    worker = make_worker(evaluate_ms=80)

    with pytest.raises(EvaluationError, match=r"^the expression did not end within 80 ms$"):
        worker.evaluate_paths(("last(range(1e12))",), b"{}")


def test_memory_is_the_reason_given_for_a_flood(make_worker: Callable[..., JqWorker]) -> None:
    worker = make_worker(evaluate_ms=20_000, memory_mib=128)

    with pytest.raises(EvaluationError, match=r"^the expression used more than 128 MiB$"):
        worker.evaluate_paths(('.["x" * 1e9 | length]',), b"{}")


# --- life of the child ---------------------------------------------------------------------------


@pytest.mark.slow
def test_other_threads_go_on_during_an_endless_evaluation(
    make_worker: Callable[..., JqWorker],
) -> None:
    """A native call that held the interpreter lock would stop them, the server's loop included."""
    worker = make_worker(evaluate_ms=250)
    worker.evaluate_paths((".a | first",), b"{}")
    ended = threading.Event()
    ticks: list[float] = []

    def tick() -> None:
        while not ended.wait(0.01):
            ticks.append(time.monotonic())

    ticker = threading.Thread(target=tick)
    ticker.start()
    with pytest.raises(EvaluationError):
        worker.evaluate_paths(("last(range(1e12))",), b"{}")
    ended.set()
    ticker.join()

    assert len(ticks) > 5


def test_nothing_is_started_before_the_first_call(make_worker: Callable[..., JqWorker]) -> None:
    before = children()
    worker = make_worker()

    assert children() == before
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    assert len(children() - before) == 1


def test_a_child_that_somebody_killed_is_replaced_unnoticed(
    make_worker: Callable[..., JqWorker],
) -> None:
    before = children()
    worker = make_worker()
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    (child,) = children() - before

    os.kill(child, signal.SIGKILL)
    while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)

    assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]


@pytest.mark.slow
def test_a_child_that_does_not_get_to_run_is_given_up(
    make_worker: Callable[..., JqWorker],
) -> None:
    """Its own timer can't help there: it starts with the evaluation."""
    before = children()
    worker = make_worker()
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    (child,) = children() - before

    os.kill(child, signal.SIGSTOP)
    with pytest.raises(EvaluationError, match="did not end within 250 ms"):
        worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)

    assert child not in children()
    assert worker.evaluate_paths((".kind | first(.)",), DOCUMENT_JSON) == [[("kind",)]]


def test_closing_ends_the_children(make_worker: Callable[..., JqWorker]) -> None:
    before = children()
    worker = make_worker()
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    worker.check(".spec | first(.[])", path="query")
    assert len(children() - before) == 2

    worker.close()

    assert children() == before
    with pytest.raises(EvaluationError, match="closed"):
        worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)


def test_many_threads_share_one_child(worker: JqWorker) -> None:
    results: list[Any] = []

    def ask(name: str) -> None:
        document = json.dumps({"names": [{"name": name}] * 3}).encode()
        for _ in range(20):
            found = worker.evaluate_paths((f'.names[] | select(.name == "{name}")',), document)
            results.append(found == [[("names", 0), ("names", 1), ("names", 2)]])

    threads = [threading.Thread(target=ask, args=(f"n{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [True] * 80


@pytest.mark.slow
def test_an_expression_that_ended_a_child_does_not_hold_up_the_others(
    make_worker: Callable[..., JqWorker],
) -> None:
    """Somebody may send the object that it fails on again and again."""
    worker = make_worker(evaluate_ms=20_000, memory_mib=128)
    worker.check(".kind | first(.)", path="query")
    with pytest.raises(EvaluationError, match="used more than 128 MiB"):
        worker.evaluate_paths((HOSTILE,), document(mode="flood"))

    with running(lambda: worker.evaluate_paths((HOSTILE,), document(mode="loop"))):
        assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]


@pytest.mark.slow
def test_a_call_does_not_wait_for_ever_for_those_before_it(
    make_worker: Callable[..., JqWorker],
) -> None:
    worker = make_worker(evaluate_ms=20_000, wait_ms=500)
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    worker.evaluate_paths((HOSTILE,), document(mode="none"))

    with running(lambda: worker.evaluate_paths((HOSTILE,), document(mode="loop"))):
        start = time.monotonic()
        with pytest.raises(EvaluationError, match="busy with other objects for too long"):
            worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
        assert 0.4 < time.monotonic() - start < ENDS_WITHIN_S


# --- large documents -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_largest_object_of_an_api_server_is_evaluated_within_the_default_limits(
    default_worker: JqWorker,
) -> None:
    """Reading it takes jq longer than expressions may take on a usual object."""
    variables = [{"name": "SOME_NAME", "value": "some value"}] * 10
    item = {"name": "side", "env": variables, "ports": [{"containerPort": 8080}] * 10}
    count = 3_300_000 // len(json.dumps({"item": item}))
    document_json = document_for_jq(
        {"spec": {"groups": [{"item": item}] * count + [{"template": {}}]}}
    )
    assert 3_000_000 < len(document_json) < 3 << 20

    (result,) = default_worker.evaluate_paths((GROUPS,), document_json)

    assert result == [("spec", "groups", count, "template")]


def test_a_large_document_holds_up_no_small_one(make_worker: Callable[..., JqWorker]) -> None:
    worker = make_worker(evaluate_ms=20_000)
    padding = "x" * LARGE_DOCUMENT_BYTES
    worker.evaluate_paths((HOSTILE,), document(mode="none", padding=padding))
    endless = document(mode="loop", padding=padding)

    with running(lambda: worker.evaluate_paths((HOSTILE,), endless)):
        assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]


@pytest.mark.slow
def test_an_expression_that_failed_on_a_large_document_is_no_suspect(
    make_worker: Callable[..., JqWorker],
) -> None:
    """The machine was busy, most likely. Small objects of that kind must not suffer for it."""
    before = children()
    worker = make_worker(evaluate_ms=300, evaluate_ms_per_mib=0)
    large = document(mode="loop", padding="x" * LARGE_DOCUMENT_BYTES)
    with pytest.raises(EvaluationError, match="did not end within 300 ms"):
        worker.evaluate_paths((HOSTILE,), large)

    assert worker.evaluate_paths((HOSTILE,), document(mode="none")) == [[("kind",)]]
    assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]
    # That for suspects is not among them.
    assert len(children() - before) == 1


@pytest.mark.slow
def test_many_large_documents_without_end_are_given_up_in_time(
    make_worker: Callable[..., JqWorker],
) -> None:
    """Each has its answer before its caller is gone, whoever came before it."""
    worker = make_worker(evaluate_ms=50, evaluate_ms_per_mib=400, wait_ms=500)
    large = document(mode="loop", padding="x" * LARGE_DOCUMENT_BYTES)
    took_s: list[float] = []

    def ask() -> None:
        start = time.monotonic()
        with pytest.raises(EvaluationError, match=r"did not end within 150 ms|busy"):
            worker.evaluate_paths((HOSTILE,), large)
        took_s.append(time.monotonic() - start)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(took_s) == 20
    assert max(took_s) < 3


# --- a child that does not keep to the protocol --------------------------------------------------

# What a child says first, and the beginning of a script that reads requests as it does.
READY = struct.pack("!cI", b"s", 0)
READS_REQUESTS = f"""
import struct, sys
header = struct.Struct({jq_child.REQUEST.format!r})
def read_request():
    got = sys.stdin.buffer.read(header.size)
    return got and [sys.stdin.buffer.read(sum(header.unpack(got)[-2:]))]
def say(text):
    sys.stdout.buffer.write(text)
    sys.stdout.flush()
say({READY!r})
"""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(struct.pack("!cI", b"R", 1 << 31), "can't be read", id="too-long"),
        pytest.param(b"?" * 50, "can't be read", id="unknown-kind"),
        pytest.param(struct.pack("!cI", b"R", 99) + b"[", "exit code 0", id="ends-too-early"),
        pytest.param(b"", "exit code 0", id="says-nothing"),
    ],
)
def test_an_answer_that_makes_no_sense_is_not_believed(
    make_worker: Callable[..., JqWorker],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answer: bytes,
    reason: str,
) -> None:
    """A child that was taken over from inside can only spoil its own answer."""
    script = tmp_path / "jq_worker.py"
    script.write_text(f"{READS_REQUESTS}read_request()\nsay({answer!r})\n")
    monkeypatch.setattr(jq_child, "_WORKER", script)

    with pytest.raises(EvaluationError, match=reason):
        make_worker().evaluate_paths((".",), b"{}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"nonsense", id="no-json"),
        pytest.param(b'{"a":1}', id="no-list"),
        pytest.param(b"[[],[]]", id="too-many-results"),
        pytest.param(b"[7]", id="no-paths"),
        pytest.param(b"[[7]]", id="no-path"),
        pytest.param(b"[[[true]]]", id="no-key"),
        pytest.param(b"[[[null]]]", id="null-for-a-key"),
    ],
)
def test_a_result_of_another_form_is_a_failure(
    make_worker: Callable[..., JqWorker],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    payload: bytes,
) -> None:
    script = tmp_path / "jq_worker.py"
    frame = struct.pack("!cI", b"R", len(payload)) + payload
    script.write_text(f"{READS_REQUESTS}while read_request():\n    say({frame!r})\n")
    monkeypatch.setattr(jq_child, "_WORKER", script)

    (result,) = make_worker().evaluate_paths((".",), b"{}")

    assert isinstance(result, QueryFailure)


def test_a_child_that_does_not_start_says_why(
    make_worker: Callable[..., JqWorker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "jq_worker.py"
    script.write_text("raise ImportError('no jq here')\n")
    monkeypatch.setattr(jq_child, "_WORKER", script)

    with pytest.raises(EvaluationError, match="does not start: ImportError: no jq here"):
        make_worker().evaluate_paths((".",), b"{}")
