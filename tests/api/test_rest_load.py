"""What the API may cost the reviews beside it: large bodies take turns, long work has a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.api.door import close
from tests.api.gate import JSON
from tests.api.rest import FIELD_GROUPS, MAPPINGS, POLICIES, TRAININGS, VIEWER, Api
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.api.limits.bodies import BIG_BODY_BYTES, BodyRoom, Turns

REVIEW = "/api/v1/review"
POD = {"group": "", "version": "v1", "kind": "Pod"}
PATIENCE_S = 10.0
AUTHORIZATION = {"Authorization": f"Bearer {VIEWER}"}


def make_large_pod() -> dict[str, Any]:
    pod = make_pod()
    pod["metadata"]["annotations"] = {"note": "x" * (3 * BIG_BODY_BYTES // 2)}
    return pod


class CountedTurns(Turns):
    """Tells how many have asked for a turn, and how many have one."""

    def __init__(self, at_once: int) -> None:
        super().__init__(at_once)
        self.asked = 0
        self.held = 0
        self.most_held = 0

    @asynccontextmanager
    async def take(self, *, wait_until: float) -> AsyncIterator[None]:
        self.asked += 1
        async with super().take(wait_until=wait_until):
            self.held += 1
            self.most_held = max(self.most_held, self.held)
            try:
                yield
            finally:
                self.held -= 1


@contextmanager
def busy_thread(api: Api) -> Iterator[None]:
    """The thread of the API has something else to do to the end of the block."""
    let_go = threading.Event()
    api.rest.thread.submit(let_go.wait, PATIENCE_S)
    try:
        yield
    finally:
        let_go.set()


async def wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)


async def post_chunked(api: Api, path: str, body: bytes) -> int:
    """The status of the answer to *body*, whose length is not announced."""

    async def chunks() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), BIG_BODY_BYTES // 4):
            yield body[begin : begin + BIG_BODY_BYTES // 4]

    answer = await api.client.session.post(
        api.client.make_url(path), data=chunks(), headers={**JSON, **AUTHORIZATION}
    )
    await answer.read()
    return answer.status


async def post_announced(api: Api, path: str, body: bytes) -> int:
    return (await api.call("POST", path, raw=body)).status


async def test_who_stalls_in_a_large_submission_holds_up_no_review(tmp_path: Path) -> None:
    head = (
        f"POST {REVIEW} HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer {VIEWER}\r\n"
        "Content-Type: application/json\r\nContent-Length: 300000\r\n\r\n{"
    )
    async with Api(tmp_path) as api:
        stalled = [await asyncio.open_connection("127.0.0.1", api.client.port) for _ in range(2)]
        for _, writer in stalled:
            writer.write(head.encode())
        await wait_for(lambda: api.services.running.count == 2)
        # By then they are where they wait for the rest.
        await api.must("GET", "/api/openapi.json")

        body = orjson.dumps(make_review(object=make_large_pod()))
        answer = await api.call("POST", "/validate?timeout=5s", raw=body)
        still_there = api.services.running.count
        await close(*stalled)

    assert answer.status == 200, answer
    assert still_there == 2


@pytest.mark.parametrize(
    ("post", "path", "want"),
    [
        pytest.param(post_chunked, REVIEW, 200, id="chunked-submission"),
        pytest.param(post_announced, REVIEW, 200, id="announced-submission"),
        # What is no policy is read all the same.
        pytest.param(post_announced, POLICIES, 400, id="document"),
    ],
)
async def test_of_large_bodies_one_is_an_object_at_once(
    tmp_path: Path, post: Callable[[Api, str, bytes], Awaitable[int]], path: str, want: int
) -> None:
    turns = CountedTurns(2)
    body = orjson.dumps(make_large_pod())
    async with Api(tmp_path, big_turns=turns) as api:
        statuses = await asyncio.gather(*[post(api, path, body) for _ in range(6)])

    assert statuses == [want] * 6
    assert turns.asked == 6
    assert turns.most_held == 1


async def test_large_submissions_that_take_long_leave_a_turn_to_reviews(tmp_path: Path) -> None:
    """One keeps its turn until it is judged: so long it has ten times the size of its body."""
    turns = CountedTurns(2)
    pod = make_large_pod()
    async with Api(tmp_path, big_turns=turns) as api:
        with busy_thread(api):
            posting = [
                asyncio.create_task(post_chunked(api, REVIEW, orjson.dumps(pod))) for _ in range(4)
            ]
            await wait_for(lambda: api.services.running.count == 4 and turns.held == 1)
            reviewed = await api.call(
                "POST", "/validate?timeout=5s", raw=orjson.dumps(make_review(object=pod))
            )
            held_meanwhile = turns.held
        statuses = await asyncio.gather(*posting)

    assert reviewed.status == 200, reviewed
    assert held_meanwhile == 1
    assert statuses == [200] * 4


async def test_large_submissions_that_wait_leave_their_room_to_reviews(tmp_path: Path) -> None:
    pod = make_large_pod()
    submission, review = orjson.dumps(pod), orjson.dumps(make_review(object=pod))
    room, reviews_room = BodyRoom(2 * len(submission)), BodyRoom(2 * len(review))
    async with Api(tmp_path, room=room, bodies=reviews_room) as api:
        with busy_thread(api):
            posting = [asyncio.create_task(post_chunked(api, REVIEW, submission)) for _ in range(8)]
            # Of two that are there, and one that may exceed the room.
            await wait_for(lambda: room.used_bytes > 2 * len(submission))
            reviewed = await api.call("POST", "/validate?timeout=5s", raw=review)
        statuses = await asyncio.gather(*posting)

    assert reviewed.status == 200, reviewed
    assert statuses == [200] * 8


async def test_small_submissions_take_no_turn(tmp_path: Path) -> None:
    turns = CountedTurns(0)
    async with Api(tmp_path, big_turns=turns) as api:
        status = await post_chunked(api, REVIEW, orjson.dumps(make_pod()))

    assert status == 200
    assert turns.asked == 0


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("GET", f"{POLICIES}/{{id}}", None, id="policy"),
        pytest.param("GET", POLICIES, None, id="policies"),
        pytest.param("GET", MAPPINGS, None, id="mappings"),
        pytest.param("GET", FIELD_GROUPS, None, id="field-groups"),
        pytest.param("GET", "/api/v2/policy", None, id="native-policies"),
        pytest.param("GET", f"{TRAININGS}?scope=system", None, id="native-policy"),
        pytest.param(
            "POST",
            f"{POLICIES}/effective",
            {"workloadType": POD, "scope": "tenant"},
            id="effective",
        ),
        pytest.param("POST", f"{MAPPINGS}/field-info", {}, id="field-info"),
        pytest.param("POST", f"{MAPPINGS}/minimal", {"workloadType": POD}, id="minimal"),
        pytest.param("POST", REVIEW, make_pod(), id="review"),
    ],
)
async def test_what_grows_with_the_documents_is_done_beside_the_event_loop(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    """Reviews are answered by the loop: what takes long there, all of them wait for."""
    policy = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))
    async with Api(tmp_path, policy) as api:
        listed = await api.must("GET", f"{POLICIES}?filterBy=name=={policy['metadata']['name']}")
        path = path.format(id=listed["policies"][0]["id"])
        with busy_thread(api):
            asking = asyncio.create_task(api.call(method, path, body, token=VIEWER))
            for _ in range(3):
                await api.must("GET", "/api/openapi.json")
            was_answered = asking.done()
        answer = await asking

    assert not was_answered
    assert answer.status == 200, answer
