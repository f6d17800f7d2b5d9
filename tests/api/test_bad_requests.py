"""Whatever is sent, the answer is short, and the next request is served (B16)."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import re
import time
import zlib
from typing import Any

import orjson
import pytest
from yarl import URL

from tests.api.door import answer_of
from tests.api.gate import Gate, GateServer
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.api.app import build_app

DOORS = ["/mutate", "/validate"]

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))

ENVELOPE = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
GOOD = orjson.dumps(make_review(object=make_pod()))

BODIES = {
    "no-request": orjson.dumps(ENVELOPE),
    "request-null": orjson.dumps({**ENVELOPE, "request": None}),
    "request-list": orjson.dumps({**ENVELOPE, "request": []}),
    "no-uid": orjson.dumps(make_review(uid=None)),
    "object-text": orjson.dumps(make_review(object="pod")),
    "object-list": orjson.dumps(make_review(object=[])),
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "number": b"42",
    "broken": b'{"kind": ',
    "nan": b'{"request": NaN}',
    "utf-16": '{"request": {}}'.encode("utf-16"),
    "deep": b"[" * 100_000 + b"]" * 100_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_that_is_no_review_is_400(door: str, body: bytes) -> None:
    async with Gate(POLICY) as gate:
        answer = await gate.post(door, body)
        text = await answer.read()

        assert answer.status == 400
        assert answer.content_type == "application/json"
        assert orjson.loads(text).keys() == {"code", "message"}
        assert len(text) < 300
        assert b"Traceback" not in text
        assert (await gate.post(door, GOOD)).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Content-Type": "application/json"}, 200, id="json"),
        pytest.param({"Content-Type": "application/json; charset=utf-8"}, 200, id="utf-8"),
        pytest.param({"Content-Type": "text/plain"}, 415, id="text"),
        pytest.param({"Content-Type": "application/yaml"}, 415, id="yaml"),
        pytest.param({"Content-Type": ""}, 415, id="none"),
        pytest.param({"Content-Encoding": "lz4"}, 415, id="unknown-encoding"),
        pytest.param({"Content-Encoding": "gzip"}, 400, id="not-in-its-encoding"),
    ],
)
async def test_the_type_and_encoding_of_the_body_are_checked(
    headers: dict[str, str], status: int
) -> None:
    async with Gate(POLICY) as gate:
        answer = await gate.post("/validate", GOOD, **headers)

        assert answer.status == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(gzip.compress(GOOD), 200, id="whole"),
        pytest.param(gzip.compress(GOOD)[:-20], 400, id="cut-off"),
        pytest.param(gzip.compress(GOOD)[:5], 400, id="header-only"),
        pytest.param(gzip.compress(b" " * 20_000_000), 413, id="bomb"),
    ],
)
async def test_a_compressed_body_is_read_or_refused(body: bytes, status: int) -> None:
    async with Gate(POLICY) as gate:
        answer = await gate.post("/validate", body, **{"Content-Encoding": "gzip"})

        assert answer.status == status
        assert (await gate.post("/validate", GOOD)).status == 200


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize(
    ("second", "body", "status"),
    [
        pytest.param("gzip", gzip.compress(GOOD), 415, id="gzip"),
        pytest.param("deflate", zlib.compress(GOOD), 415, id="deflate"),
        # Already the library can't unpack it.
        pytest.param("br", GOOD, 400, id="brotli"),
    ],
)
async def test_a_body_with_two_encodings_is_refused(
    path: str, second: str, body: bytes, status: int
) -> None:
    """One of them is what it is unpacked by, the other one what bounds would go by."""
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Encoding", "identity"),
        ("Content-Encoding", second),
    ]
    async with Gate(POLICY) as gate:
        answer = await gate.client.post(path, data=body, headers=headers)

        assert answer.status == status
        assert (await gate.post("/validate", GOOD)).status == 200


def make_bomb(gibibytes: int) -> bytes:
    """Spaces, packed: a thousandth of their size. What is at the end is wrong, and never read."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.flush(zlib.Z_FULL_FLUSH)
    part = packer.compress(b" " * 2**24) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + part * (gibibytes * 64)


async def test_after_a_packed_body_the_rest_of_one_that_is_refused_is_read_as_ever() -> None:
    """Else the connection would end with the refusal."""

    def request(body: bytes, content_type: str, more: str = "") -> bytes:
        head = (
            f"POST /validate HTTP/1.1\r\nHost: gate\r\nContent-Type: {content_type}\r\n"
            f"{more}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async with Gate(POLICY) as gate, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.client.port)
        writer.write(request(gzip.compress(GOOD), "application/json", "Content-Encoding: gzip\r\n"))
        assert await answer_of((reader, writer)) == 200

        refused = request(GOOD, "text/plain")
        writer.write(refused[:-50])
        assert await answer_of((reader, writer)) == 415
        writer.write(refused[-50:] + request(GOOD, "application/json"))

        assert await answer_of((reader, writer)) == 200
        writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", [*DOORS, "/nothing", "/api/v1/decisions"])
async def test_the_rest_of_what_is_refused_is_not_unpacked(path: str) -> None:
    """Or 4 MB keep the server busy for seconds, long after it has answered."""
    bomb = make_bomb(4)
    async with Gate(POLICY) as gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.client.port)
        head = f"POST {path} HTTP/1.1\r\nHost: gate\r\nContent-Type: application/json\r\n"
        encoding = f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
        started = time.process_time()
        writer.write(head.encode() + encoding.encode() + bomb)
        status = await reader.readline()
        # To the end of the connection, which may be an abrupt one.
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), timeout=15)
        took_s = time.process_time() - started
        writer.close()
        assert (await gate.post("/mutate", GOOD)).status == 200

    assert status.split()[1] in (b"404", b"413")
    # Of what it may have, 24 MiB, and this test's own.
    assert took_s < 1.0


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_another_method_is_405_and_says_which_is_right(path: str, method: str) -> None:
    async with Gate(POLICY) as gate:
        answer = await gate.client.request(method, path)

        assert answer.status == 405
        assert answer.headers["Allow"] == "POST"
        assert (await answer.json())["code"] == 405


@pytest.mark.parametrize("path", ["/", "/mutate/", "/MUTATE", "/metrics", "/%00"])
async def test_another_path_is_404(path: str) -> None:
    async with Gate(POLICY) as gate:
        answer = await gate.client.post(URL(path, encoded=True), data=GOOD)

        assert answer.status == 404
        assert (await answer.json())["code"] == 404


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_over_the_limit_is_413(is_chunked: bool) -> None:
    async def chunks() -> Any:
        for _ in range(40):
            yield b" " * 1000

    async with Gate(POLICY, max_body_bytes=20_000) as gate:
        body = chunks() if is_chunked else b" " * 40_000
        answer = await gate.client.post(
            "/validate", data=body, headers={"Content-Type": "application/json"}
        )

        assert answer.status == 413
        assert "20000 bytes" in (await answer.json())["message"]


async def send_half(gate: Gate) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request whose body stops in the middle, on a connection that stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.client.port)
    writer.write(
        b"POST /mutate HTTP/1.1\r\nHost: gate\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n" + b"{" * 500
    )
    await writer.drain()
    return reader, writer


async def test_a_body_that_does_not_arrive_is_408() -> None:
    async with Gate(POLICY, read_timeout_s=0.05) as gate:
        reader, writer = await send_half(gate)

        status = await reader.readline()
        writer.close()

        assert status.startswith(b"HTTP/1.1 408 ")
        assert (await gate.post("/mutate", GOOD)).status == 200


async def test_a_caller_who_hangs_up_leaves_no_trace_but_a_count(log: io.StringIO) -> None:
    async with Gate(POLICY) as gate:
        _, writer = await send_half(gate)
        writer.close()
        await writer.wait_closed()

        assert (await gate.post("/mutate", GOOD)).status == 200
    assert '"error"' not in log.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [b"", b"POST /mutate HTTP/1.1\r\nX-Half: "], ids=["nothing", "half"]
)
async def test_who_never_ends_what_he_began_is_hung_up_on(sent: bytes) -> None:
    async with Gate(POLICY) as gate:
        server = GateServer(build_app(gate.services))
        await server.start_server(access_log=None, keepalive_timeout=0.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)

        assert await asyncio.wait_for(reader.read(), timeout=10) == b""
        writer.close()
        await server.close()


CANARY = b"hunter2-canary"
HEAD = b"POST /mutate HTTP/1.1\r\nHost: gate\r\nContent-Type: application/json\r\n"

# What no handler ever sees, or not to its end.
UNREADABLE = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "not-chunked": HEAD + b'Transfer-Encoding: chunked\r\n\r\n{"token": "' + CANARY + b'"}\r\n\r\n',
    "chunk-too-long": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\n" + CANARY + b"\r\n\r\n",
    "bare-lines": HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 20\n\n" + CANARY,
    "bad-header": HEAD + b"X: a\x00" + CANARY + b"\r\n\r\n",
    "no-length": HEAD + b"Content-Length: " + CANARY + b"\r\n\r\n",
    "two-lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n" + CANARY,
    "long-header": HEAD + b"X: " + CANARY * 1000 + b"\r\n\r\n",
    "long-line": b"POST /" + CANARY * 1000 + b" HTTP/1.1\r\n\r\n",
    "both-lengths": HEAD
    + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"
    + CANARY,
    "one-length-twice": HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n" + CANARY,
    "lengths-listed": HEAD + b"Content-Length: 2, 2\r\n\r\n" + CANARY,
    "length-signed": HEAD + b"Content-Length: +2\r\n\r\n" + CANARY,
    "length-underscored": HEAD + b"Content-Length: 1_0\r\n\r\n" + CANARY,
    "chunked-and-more": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + CANARY,
    "chunked-twice": HEAD + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n" + CANARY,
    "nearly-chunked": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + CANARY,
    "space-before-colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + CANARY,
    "folded-header": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + CANARY,
    "bare-return": HEAD + b"X: a\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n" + CANARY,
    "chunk-signed": HEAD + b"Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n" + CANARY,
    "chunk-without-end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;\n" + CANARY,
    "length-behind-the-body": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n"
    + CANARY,
    "two-hosts": HEAD + b"Host: other\r\nContent-Length: 2\r\n\r\n" + CANARY,
    "many-headers": HEAD + CANARY.join(b"X-%d: a\r\n" % n for n in range(2000)) + b"\r\n",
    "many-trailers": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    + b"".join(b"X-%d: a\r\n" % n for n in range(2000))
    + CANARY
    + b"\r\n",
    "http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + CANARY,
    "method": b"P\xffST " + CANARY + b" HTTP/1.1\r\n\r\n",
    "version": b"POST /mutate HTTP/" + CANARY + b"\r\n\r\n",
    "expectation": HEAD
    + b"Connection: close\r\nContent-Length: 0\r\nExpect: "
    + CANARY
    + b"\r\n\r\n",
    "type-then-not-chunked": HEAD.replace(b"json", b"yaml")
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + CANARY
    + b"\r\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("is_ops", [False, True], ids=["admission", "ops"])
@pytest.mark.parametrize("sent", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_is_no_http_is_refused_in_our_words_and_quoted_nowhere(
    sent: bytes, is_ops: bool, log: io.StringIO
) -> None:
    async with Gate(POLICY) as gate:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", gate.ops.port if is_ops else gate.client.port
        )
        writer.write(sent)
        told = await asyncio.wait_for(reader.read(), timeout=15)
        writer.close()
        assert (await gate.post("/mutate", GOOD)).status == 200

    # One answer or two: to what could be read of it, and to the rest.
    answers = re.split(rb"HTTP/1\.[01] ", told)[1:]
    assert answers
    for answer in answers:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head[:4] in (b"400 ", b"404 ", b"415 ", b"417 "), head
        assert b"\r\nServer: gatewright" in head
        assert orjson.loads(body).keys() == {"code", "message"}
    for word in (b"aiohttp", b"Python", b"Traceback", CANARY):
        assert word not in told
    assert CANARY.decode() not in log.getvalue()
    assert '"error"' not in log.getvalue()


async def test_what_is_no_http_is_counted_as_malformed() -> None:
    async with Gate(POLICY) as gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.client.port)
        writer.write(UNREADABLE["bare-lines"])
        await reader.read()
        writer.close()
        series = await gate.series()

    assert ("gatewright_requests_rejected_total", (("reason", "malformed"),)) in series
    assert ("gatewright_http_requests_total", (("code", "400"), ("path", "other"))) in series


async def test_rejections_are_counted_by_reason() -> None:
    async with Gate(POLICY) as gate:
        await gate.post("/mutate", b"null")
        await gate.post("/mutate", GOOD, **{"Content-Type": "text/plain"})
        await gate.client.get("/mutate")
        series = await gate.series()

    reasons = {
        dict(labels)["reason"]
        for name, labels in series
        if name == "gatewright_requests_rejected_total"
    }
    assert reasons == {"malformed", "content_type", "method"}
