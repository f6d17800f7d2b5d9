"""Calls to one API server, as raw JSON."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from webhook.clients.bodies import read_bounded
from webhook.clients.kubeconfig import KubeAccess, is_token, load_access
from webhook.errors import KubeError
from webhook.model.files import load_bytes

USER_AGENT = "gatewright"

# A projected token is written anew long before it ends; a look a minute is what client-go takes.
_TOKEN_AGE_S = 60.0

# A connection whose other end is gone without a word is found out after half a minute.
_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVE_PROBES = 15, 5, 3

_CONNECT_TIMEOUT_S = 10.0
# Of a call that is bounded as a whole already: the library's own bound would cost as much again.
_NO_OTHER_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S)

# An API server takes 3 MiB of an object at most, and etcd keeps 1.5 MiB; what base64 and escapes
# add to that is less than this. A watch event is one object, and one line.
MAX_OBJECT_BYTES = 16 * 2**20
# Of a page of a list, of however many objects: it is held whole. Of larger ones, whoever reads the
# list asks for fewer at a time.
MAX_PAGE_BYTES = 64 * 2**20
# Of a refusal: its message, and what `details` says of each cause.
_MAX_REFUSAL_BYTES = 2**20

_MESSAGE_MAX_CHARS = 500

JSON = "application/json"
# Of objects their metadata alone (Kubernetes: "Alternate representations of resources"): of one,
# as in the events of a watch, and of a list. A server that can't sends all of them.
METADATA = f"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


def load_kube_client(
    kubeconfig: Path | None, *, context: str = "", may_run: bool = False
) -> KubeClient:
    """
    A client for the cluster of *kubeconfig*, or of the surroundings; see `load_access`.

    Raises:
        SettingsError: there is none, or it can't be used.
    """
    return KubeClient(load_access(kubeconfig, context=context, may_run=may_run))


class KubeClient:
    """
    Calls to one API server, as raw JSON. One session, made at the first call.

    Every fault is a `KubeError`. A call that is refused since its token has ended is made once
    more if the token's file holds another one by then.
    """

    def __init__(self, access: KubeAccess) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None
        self._token = ""
        self._token_read_at = -math.inf

    @property
    def server(self) -> str:
        return self._access.server

    @property
    def namespace(self) -> str:
        """The namespace to work in where none is said; empty if none is configured."""
        return self._access.namespace

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_s: float = 10.0,
        max_bytes: int | None = None,
    ) -> bytes:
        """
        The body of the answer to one call. *path* begins with a slash.

        It has *max_bytes* at most; where that is not said, as much as one object may have, or as
        many as a `limit` in *params* asks for.

        Raises:
            KubeError: it was refused, is larger, or was not there as a whole within *timeout_s*.
        """
        if max_bytes is None:
            max_bytes = _max_answer_bytes(params or {})
        headers = {"Accept": accept} | ({} if body is None else {"Content-Type": content_type})
        with _as_kube_errors(timeout_s):
            # Of all of it: a call may take two requests.
            async with (
                asyncio.timeout(timeout_s),
                self._call(
                    method,
                    path,
                    params=params,
                    data=None if body is None else orjson.dumps(body),
                    headers=headers,
                    timeout=_NO_OTHER_TIMEOUT,
                ) as answer,
            ):
                received = await read_bounded(answer, max_bytes)
        if received is None:
            raise _too_large("the answer", max_bytes)
        return received

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str], timeout_s: float, accept: str = JSON
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """
        The lines of an answer that goes on, as a watch's does, until the server ends it.

        Raises:
            KubeError: it was refused, broke off, has a line that is larger than an object, or had
                not ended after *timeout_s*.
        """
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_TIMEOUT_S)
        with _as_kube_errors(timeout_s):
            headers = {"Accept": accept}
            async with self._call(
                "GET", path, params=params, headers=headers, timeout=timeout
            ) as answer:
                yield _lines(answer.content)

    async def close(self) -> None:
        """End all calls and connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @contextlib.asynccontextmanager
    async def _call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        **options: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        access = self._access
        if access.tls is not None:
            options["ssl"] = access.tls
        if access.server_name:
            options["server_hostname"] = access.server_name
        if access.proxy:
            options["proxy"] = access.proxy
        authorization, newer = self._authorization(), None
        while True:
            async with self._open().request(
                method,
                access.server + path,
                headers={**authorization, **headers},
                # A token is for this server and no other.
                allow_redirects=False,
                **options,
            ) as answer:
                if answer.status == HTTPStatus.UNAUTHORIZED and newer is None:
                    newer = self._newer_than(authorization)
                    if newer is not None:
                        # Who is not known has done nothing yet, whatever the method is.
                        authorization = newer
                        continue
                try:
                    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
                        if answer.status == HTTPStatus.UNAUTHORIZED:
                            # It may be replaced later.
                            self._token_read_at = -math.inf
                        # The status says what matters, also where it comes with too many words.
                        raise _refusal(
                            answer, await read_bounded(answer, _MAX_REFUSAL_BYTES) or b""
                        )
                    yield answer
                finally:
                    # Of an answer that was read to its end, the connection is given back already.
                    # One that is broken off does not wait until the other end agrees.
                    connection = answer.connection
                    if connection is not None and connection.transport is not None:
                        connection.transport.abort()
                return

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(socket_factory=_socket, keepalive_timeout=60.0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": USER_AGENT},
            )
        return self._session

    def _authorization(self) -> dict[str, str]:
        path = self._access.token_file
        token = self._access.token
        if path is not None:
            now = time.monotonic()
            if now - self._token_read_at > _TOKEN_AGE_S:
                try:
                    read = load_bytes(path).decode("ascii").strip()
                except (OSError, ValueError):
                    raise KubeError(0, "Unreachable", f"cannot read the token in {path}") from None
                if read and not is_token(read):
                    raise KubeError(0, "Unreachable", f"there is no token in {path}")
                self._token = read
                self._token_read_at = now
            token = self._token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _newer_than(self, refused: Mapping[str, str]) -> dict[str, str] | None:
        """
        What to call with in place of *refused*: the token's file may have been replaced since we
        read it. None if it was not.
        """
        if self._access.token_file is None:
            return None
        self._token_read_at = -math.inf
        try:
            newer = self._authorization()
        except KubeError:
            return None
        return newer if newer != refused else None


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        # Not all systems have all of them.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


@contextlib.contextmanager
def _as_kube_errors(timeout_s: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise KubeError(0, "Timeout", f"no whole answer within {timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise KubeError(0, "Unreachable", _describe(error)[:_MESSAGE_MAX_CHARS]) from error


def _describe(error: Exception) -> str:
    """What happened, without what the library says about itself."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"{error.host}:{error.port}: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            cause = error.os_error
            return f"{error.host}:{error.port}: {cause.strerror or cause}"
        case aiohttp.ClientPayloadError():
            return "the connection broke off"
    return str(error) or type(error).__name__


def _max_answer_bytes(params: Mapping[str, str]) -> int:
    objects = max(1, int(params.get("limit", 1)))
    return min(objects * MAX_OBJECT_BYTES, MAX_PAGE_BYTES)


def _too_large(what: str, max_bytes: int) -> KubeError:
    return KubeError(0, "TooLarge", f"{what} is larger than {max_bytes} bytes")


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Not the stream's own lines: those end with an error at 64 KiB."""
    parts: list[bytes] = []
    size = 0
    async for chunk in content.iter_any():
        first, *rest = chunk.split(b"\n")
        parts.append(first)
        size += len(first)
        for piece in rest:
            if line := b"".join(parts):
                yield line
            parts, size = [piece], len(piece)
        if size > MAX_OBJECT_BYTES:
            raise _too_large("an event", MAX_OBJECT_BYTES)
    # What is left is no whole line: the stream broke off inside of it.


def _refusal(answer: aiohttp.ClientResponse, body: bytes) -> KubeError:
    """The error that an answer tells: a `Status` of Kubernetes, or any text."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        told = None
    if not isinstance(told, dict) or told.get("kind") != "Status":
        text = body.decode(errors="replace").strip() or (answer.reason or "")
        told = {"message": text[:_MESSAGE_MAX_CHARS]}
    details = told.get("details")
    return KubeError(
        answer.status,
        str(told.get("reason") or (answer.reason or "").replace(" ", "")),
        str(told.get("message") or "")[: 64 * 1024],
        details if isinstance(details, dict) else {},
        retry_after_s=_retry_after_s(answer.headers.get("Retry-After", "")),
    )


def _retry_after_s(text: str) -> float | None:
    # Kubernetes sends seconds; the other form of HTTP, a date, it never does.
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None
