"""The process that runs jq: what comes in through its pipe, and what a program makes it say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import budget
from tests.fuzz.mutations import ODD
from webhook.errors import EvaluationError
from webhook.mapping import jq_worker
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.jq_child import ANSWER, COMPILE, EVALUATE, KINDS, READY, REQUEST
from webhook.mapping.results import QueryFailure

pytestmark = pytest.mark.slow

ENDS_WITHIN_S = 20


def request(task: bytes, program: bytes, document: bytes, *, off: tuple[int, int]) -> bytes:
    """A request whose lengths are *off* by so much."""
    lengths = [max(0, len(text) + by) for text, by in zip((program, document), off, strict=True)]
    return REQUEST.pack(task, 500, *lengths) + program + document


OFF = st.sampled_from([0, 0, 0, 0, -1, 1, 7])
REQUESTS = st.builds(
    request,
    st.sampled_from([COMPILE, EVALUATE, EVALUATE, b"?", b"\0"]),
    st.sampled_from([b".", b".a", b".a[", b"\xff", b"", b"error(.)", b"1, 2", b"empty", b"."]),
    st.sampled_from([b"null", b'{"a": [1]}', b"", b"{", b"\xff", b"1 2", b"nan", b'"\\ud800"']),
    off=st.tuples(OFF, OFF),
)


@budget(25)
@given(st.lists(REQUESTS, max_size=6), st.binary(max_size=20))
def test_whatever_comes_in_it_answers_in_whole_frames_and_ends(
    requests: list[bytes], rest: bytes
) -> None:
    limits = map(str, (512 << 20, 5000, 1 << 20))
    done = subprocess.run(
        [sys.executable, "-I", jq_worker.__file__, *limits],
        input=b"".join(requests) + rest,
        capture_output=True,
        env={},
        timeout=ENDS_WITHIN_S,
        check=False,
    )

    kinds = list(frames(done.stdout))
    assert kinds[0] == READY
    assert set(kinds) <= set(KINDS)


def frames(answers: bytes) -> Iterator[bytes]:
    """The kind of each frame, all of which are whole."""
    while answers:
        kind, length = ANSWER.unpack(answers[: ANSWER.size])
        assert len(answers) >= ANSWER.size + length
        answers = answers[ANSWER.size + length :]
        yield kind


PARTS = st.sampled_from(
    [
        *(
            ".",
            ".a",
            ".[]",
            ".[0]",
            ".[-1]",
            ".a.b[]",
            '.["a"]',
            ".[1:]",
            "..",
            "?",
            "//",
            "|",
            ",",
        ),
        *("select(.a)", "map(.)", "empty", "error", "null", "1", '"text"', "[", "]", "{", "}"),
        *(
            "path(..)",
            "to_entries[]",
            "limit(3; .[])",
            "env",
            "input",
            "$__loc__",
            "@json",
            "(",
            ")",
        ),
        *(
            ".a = 1",
            "del(.a)",
            "tojson",
            "fromjson",
            "recurse",
            "# x",
            "try error catch .",
            "\\u0000",
        ),
    ]
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "x/y", ""]), st.sampled_from(ODD), max_size=3
)


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    with JqWorker() as worker:
        yield worker


@budget(120)
@given(st.lists(PARTS, min_size=1, max_size=4).map(" ".join), DOCUMENTS)
def test_any_expression_gives_places_or_a_reason_and_the_next_one_is_answered(
    worker: JqWorker, source: str, document: Any
) -> None:
    body = orjson.dumps(document)
    try:
        (result,) = worker.evaluate_paths((source,), body)
    except EvaluationError as error:
        reason = str(error)
        assert reason
    else:
        assert isinstance(result, QueryFailure) or all(isinstance(path, tuple) for path in result)

    assert worker.evaluate_paths((".spec",), b'{"spec":{}}') == [[("spec",)]]
