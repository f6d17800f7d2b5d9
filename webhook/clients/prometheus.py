"""Instant queries to one Prometheus, or to what speaks its HTTP API."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import orjson

from webhook.clients.bodies import read_bounded
from webhook.clients.prometheus_access import (
    PrometheusCredentials,
    credentials_for,
    load_tls,
    parse_base_url,
)
from webhook.clients.prometheus_answers import clean_text, read_error, read_vector
from webhook.errors import PrometheusError, PrometheusFault
from webhook.model.rightsizing.samples import Sample

USER_AGENT = "gatewright"

# 100,000 series of a namespace are about 20 MB. More is an answer to another question.
MAX_BODY_BYTES = 32 * 2**20
# Of an error: a message, or a page of a proxy.
_MAX_ERROR_BYTES = 64 * 2**10

_CONNECT_TIMEOUT_S = 10.0
_RETRY_AFTER_MAX_DIGITS = 6
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Retries:
    """
    How often one query is asked, and how long lies between, in seconds.

    Each wait is a random part (at least half) of one that doubles from *first_wait* up to
    *longest_wait*.
    """

    attempts: int = 4
    first_wait: float = 0.25
    longest_wait: float = 5.0

    def wait_s(self, attempt: int) -> float:
        """The wait after the attempt of that number, counted from 0."""
        longest = min(self.longest_wait, self.first_wait * 2.0**attempt)
        return longest * random.uniform(0.5, 1.0)


class PrometheusClient:
    """
    Instant queries to one Prometheus. One session, made at the first query.

    Every fault of a query is a `PrometheusError`; its text holds no credentials.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 30.0,
        credentials: PrometheusCredentials | None = None,
        ca_file: Path | None = None,
        insecure: bool = False,
        retries: Retries = Retries(),
    ) -> None:
        """
        *url* may come from a document. *credentials* are used if theirs is the same URL, path
        included (upper and lower case of the host, the scheme's own port and a slash at the end
        make no difference). *timeout_s* is for one attempt. *ca_file* replaces the system's
        authorities; *insecure* accepts any certificate.

        Raises:
            PrometheusError: *url* is none of a Prometheus, or holds credentials.
            SettingsError: the credentials' URL is none, or the file of authorities is not usable.
        """
        self._base = parse_base_url(url)
        self._timeout_s = timeout_s
        self._credentials = credentials_for(self._base, credentials)
        self._tls = load_tls(ca_file, insecure=insecure)
        self._retries = retries
        self._session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        """The URL that is asked, without a slash at its end."""
        return str(self._base).rstrip("/")

    @property
    def shows_credentials(self) -> bool:
        """Whether queries carry a token: there is one, and it is for this URL."""
        return self._credentials is not None

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]:
        """
        The instant vector that *promql* yields at the time *at* (cut to milliseconds).

        All attempts together take at most *within_s*, by default as long as one may. Asked again
        is where no whole answer came and where the server has a fault of its own (5xx) or too much
        to do (429), not where it refuses the query.

        Raises:
            PrometheusError: there is no vector, not all of it, or something that is none.
        """
        now = asyncio.get_running_loop().time
        deadline = now() + (self._timeout_s if within_s is None else within_s)
        attempt = 0
        while True:
            try:
                return await self._ask(promql, at, min(self._timeout_s, deadline - now()))
            except PrometheusError as error:
                wait_s = max(self._retries.wait_s(attempt), error.retry_after_s or 0.0)
                attempt += 1
                last = attempt >= self._retries.attempts or now() + wait_s >= deadline
                if last or not error.temporary:
                    raise
            await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """End all queries and connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, promql: str, at: datetime, timeout_s: float) -> tuple[Sample, ...]:
        milliseconds = (at - _EPOCH) // timedelta(milliseconds=1)
        form = {
            "query": promql,
            "time": f"{milliseconds // 1000}.{milliseconds % 1000:03d}",
            # It shall not go on for nobody.
            "timeout": f"{max(1, round(timeout_s * 1000))}ms",
        }
        token = self._credentials.read_token() if self._credentials else ""
        try:
            # Not aiohttp's own: that does not count what comes before the request.
            async with asyncio.timeout(timeout_s):
                answer, body = await self._post(form, token)
        except aiohttp.ConnectionTimeoutError:
            text = f"no connection within {_CONNECT_TIMEOUT_S:g} s"
            raise PrometheusError(PrometheusFault.UNREACHABLE, text, temporary=True) from None
        except TimeoutError:
            raise PrometheusError(
                PrometheusFault.TIMEOUT, f"no whole answer within {timeout_s:.3g} s", temporary=True
            ) from None
        except Exception as error:  # noqa: BLE001  Whatever an HTTP library comes to.
            raise _connection_error(error, token) from None
        # What fails from here on is no matter of the connection.
        return self._read(answer, body, token)

    async def _post(
        self, form: Mapping[str, str], token: str
    ) -> tuple[aiohttp.ClientResponse, bytes | None]:
        """The answer, which is closed, and its body; None where that is too large, or not read."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self._open().post(
            self._base / "api/v1/query",
            data=form,
            headers=headers,
            # A token is for this server, and its answers alone are believed.
            allow_redirects=False,
            ssl=self._tls,
        ) as answer:
            if answer.status == HTTPStatus.OK:
                return answer, await read_bounded(answer, MAX_BODY_BYTES)
            if answer.status >= HTTPStatus.BAD_REQUEST:
                return answer, await read_bounded(answer, _MAX_ERROR_BYTES)
            return answer, None

    @staticmethod
    def _read(answer: aiohttp.ClientResponse, body: bytes | None, token: str) -> tuple[Sample, ...]:
        if answer.status != HTTPStatus.OK:
            raise _refusal(answer, body or b"", token)
        if body is None:
            text = f"the answer is larger than {MAX_BODY_BYTES} bytes"
            raise PrometheusError(PrometheusFault.TOO_LARGE, text)
        try:
            told = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise PrometheusError(PrometheusFault.BAD_ANSWER, "the answer is no JSON") from None
        return read_vector(told, secret=token)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
                # Nothing compressed: what unpacks to more than its bound never comes.
                headers={
                    "User-Agent": USER_AGENT,
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                },
            )
        return self._session


def _refusal(answer: aiohttp.ClientResponse, body: bytes, token: str) -> PrometheusError:
    """The error that an answer other than 200 is."""
    status = answer.status
    said = clean_text(f"HTTP {status} {answer.reason or ''}", secret=token)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        text = f"{said}: it sends us elsewhere, where we don't go"
        return PrometheusError(PrometheusFault.REDIRECTED, text, status=status)
    if status < HTTPStatus.BAD_REQUEST:
        return PrometheusError(PrometheusFault.BAD_ANSWER, said, status=status)
    kind, told = read_error(body, answer.content_type, secret=token)
    text = f"{said}: {told}" if told else said
    if kind == "timeout":
        # It worked on this for as long as it may. Once more would be once more that long.
        return PrometheusError(PrometheusFault.TIMEOUT, text, status=status)
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return PrometheusError(
        PrometheusFault.FAILED if failed else PrometheusFault.REFUSED,
        text,
        status=status,
        temporary=failed or status == HTTPStatus.TOO_MANY_REQUESTS,
        retry_after_s=_retry_after_s(answer.headers.get("Retry-After", "")),
    )


def _connection_error(error: Exception, token: str) -> PrometheusError:
    temporary = isinstance(error, aiohttp.ClientError | OSError)
    match error:
        case aiohttp.ClientResponseError():
            # Its own text holds the URL, and what came, line by line.
            return PrometheusError(PrometheusFault.BAD_ANSWER, "the answer is no HTTP")
        case aiohttp.ClientConnectorCertificateError():
            text = f"{error.host}:{error.port}: {error.certificate_error}"
            temporary = False
        case aiohttp.ClientConnectorError():
            cause = error.os_error
            # asyncio's own text repeats the address. A name that isn't found has no errno.
            number = cause.errno or 0
            what = os.strerror(number) if number > 0 else cause.strerror or str(cause)
            text = f"{error.host}:{error.port}: {what}"
            temporary = not isinstance(error, aiohttp.ClientSSLError)
        case aiohttp.ClientPayloadError():
            text = "the connection broke off"
        case aiohttp.ClientError() | OSError():
            text = str(error) or type(error).__name__
        case _:
            text = f"it can't be asked: {type(error).__name__}: {error}"
    text = clean_text(text, secret=token)
    return PrometheusError(PrometheusFault.UNREACHABLE, text, temporary=temporary)


def _retry_after_s(text: str) -> float | None:
    """None for the other form of HTTP, a date, too."""
    plain = text.isascii() and text.isdigit() and len(text) <= _RETRY_AFTER_MAX_DIGITS
    return float(text) if plain else None
