"""What a Prometheus may answer, and that nothing but a vector counts as one."""

from __future__ import annotations

import asyncio
import gzip
import re
import ssl
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.clients.prometheus_server import (
    FakePrometheus,
    Step,
    answer,
    asking,
    babble,
    cut,
    cut_inside,
    drip,
    error,
    flood,
    hang,
    prometheus,
    result,
    vector,
)
from webhook.clients.prometheus import MAX_BODY_BYTES, PrometheusClient, Retries
from webhook.clients.prometheus_access import PrometheusCredentials, parse_base_url
from webhook.clients.prometheus_answers import read_value
from webhook.errors import PrometheusError, PrometheusFault, SettingsError
from webhook.model.rightsizing.samples import Sample
from webhook.tls.directory import ensure_development_certificate

AT = datetime(2026, 1, 1, 0, 0, 0, 250_900, tzinfo=UTC)
TOKEN = "s3cret-token"
Fault = PrometheusFault


async def ask(url: str, **options: Any) -> tuple[Sample, ...]:
    async with asking(url, **options) as client:
        return await client.query("up", at=AT)


async def fault_of(fake: FakePrometheus, **options: Any) -> PrometheusError:
    with pytest.raises(PrometheusError) as e:
        await ask(fake.url, **options)
    return e.value


async def test_a_query_is_posted_with_its_time_and_what_it_may_take() -> None:
    async with prometheus(vector()) as fake:
        assert await ask(f"{fake.url}/prom/", timeout_s=5.0) == ()

    (asked,) = fake.asked
    assert (asked.method, asked.path, asked.authorization) == ("POST", "/prom/api/v1/query", "")
    assert asked.form["query"] == "up"
    assert asked.form["time"] == "1767225600.250"
    assert 4000 < int(asked.form["timeout"].removesuffix("ms")) <= 5000


async def test_values_are_exactly_what_was_written() -> None:
    """A float would make 0.1 + 0.2 of this."""
    labels = {"pod": "llm-0", "container": "inference"}
    async with prometheus(vector((labels, "0.30000000000000004"), ({}, "1e-09"))) as fake:
        samples = await ask(fake.url)

    assert samples == (Sample(labels, Decimal("0.30000000000000004")), Sample({}, Decimal("1e-9")))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("0", Decimal(0), id="zero"),
        pytest.param("-0", Decimal(0), id="zero-from-below"),
        pytest.param("80.5", Decimal("80.5"), id="decimal"),
        pytest.param("0.0", Decimal(0), id="zero-with-places"),
        pytest.param("9" * 300, Decimal("9" * 300), id="large-in-full"),
        pytest.param("9" * 301, Decimal("9" * 301), id="larger-in-full"),
        pytest.param("1.5e+02", Decimal(150), id="exponent"),
        pytest.param("5e-324", Decimal("5e-324"), id="smallest-double"),
        pytest.param("1e308", Decimal("1e308"), id="nearly-largest-double"),
        pytest.param("NaN", None, id="nan"),
        pytest.param("+Inf", None, id="infinity"),
        pytest.param("-Inf", None, id="negative-infinity"),
        pytest.param("1e400", None, id="beyond-every-double"),
        pytest.param("9" * 400, None, id="beyond-every-double-in-full"),
        pytest.param("1e999999999999999999999", None, id="beyond-every-decimal"),
        pytest.param("-5", None, id="negative"),
        pytest.param("-1e-9", None, id="negative-and-small"),
    ],
)
async def test_what_is_no_amount_of_usage_is_no_sample_and_no_error(
    text: str, want: Decimal | None
) -> None:
    """Trial B27. It must not become zero, nor a huge number of the other sign."""
    async with prometheus(vector(({"pod": "a"}, text), ({"pod": "b"}, "40"))) as fake:
        samples = await ask(fake.url)

    assert samples == (Sample({"pod": "a"}, want), Sample({"pod": "b"}, Decimal(40)))
    assert str(samples[0].value) != "-0"


async def test_a_histogram_is_no_sample() -> None:
    histogram = {"metric": {"pod": "a"}, "histogram": [1, {"count": "1", "sum": "80"}]}
    async with prometheus(result("vector", [histogram])) as fake:
        assert await ask(fake.url) == (Sample({"pod": "a"}, None),)


async def test_remarks_that_say_nothing_about_missing_series_are_no_error() -> None:
    async with prometheus(result("vector", [], infos=["metric might not be a counter"])) as fake:
        assert await ask(fake.url) == ()


def one_sample(element: Any) -> Step:
    return result("vector", [element])


def encoded(how: str) -> Step:
    return answer("x", content_encoding=how)


@pytest.mark.parametrize(
    ("step", "fault", "text"),
    [
        pytest.param(result("scalar", [1, "5"]), Fault.BAD_ANSWER, "of type scalar", id="scalar"),
        pytest.param(result("matrix", []), Fault.BAD_ANSWER, "of type matrix", id="matrix"),
        pytest.param(result("string", [1, "5"]), Fault.BAD_ANSWER, "of type string", id="string"),
        pytest.param(result("vector", {}), Fault.BAD_ANSWER, "no list", id="vector-of-no-list"),
        pytest.param(
            answer({"status": "success", "data": {"resultType": ["x"], "result": []}}),
            Fault.BAD_ANSWER,
            r"of type \(none\)",
            id="type-of-another-type",
        ),
        pytest.param(answer({}), Fault.BAD_ANSWER, "neither success nor", id="empty-object"),
        pytest.param(answer({"status": "success"}), Fault.BAD_ANSWER, "neither", id="no-data"),
        pytest.param(
            answer({"status": "maybe", "data": {"resultType": "vector", "result": []}}),
            Fault.BAD_ANSWER,
            "neither",
            id="unknown-status",
        ),
        pytest.param(answer([]), Fault.BAD_ANSWER, "is an object", id="list"),
        pytest.param(answer("null"), Fault.BAD_ANSWER, "is an object", id="null"),
        pytest.param(answer(""), Fault.BAD_ANSWER, "no JSON", id="nothing"),
        pytest.param(answer("<html>login</html>", kind="text/html"), Fault.BAD_ANSWER, "no JSON", id="html"),
        pytest.param(answer(b'{"status": "\xff"}'), Fault.BAD_ANSWER, "no JSON", id="no-utf-8"),
        pytest.param(answer("[" * 100_000), Fault.BAD_ANSWER, "no JSON", id="very-deep"),
        pytest.param(answer({}, 204), Fault.BAD_ANSWER, "HTTP 204 No Content", id="no-content"),
        pytest.param(one_sample(7), Fault.BAD_ANSWER, "no labels", id="sample-is-a-number"),
        pytest.param(one_sample({"value": [1, "5"]}), Fault.BAD_ANSWER, "no labels", id="no-labels"),
        pytest.param(
            one_sample({"metric": {"pod": 7}, "value": [1, "5"]}),
            Fault.BAD_ANSWER,
            "no labels",
            id="label-of-another-type",
        ),
        pytest.param(one_sample({"metric": {}}), Fault.BAD_ANSWER, "no value", id="no-value"),
        pytest.param(
            one_sample({"metric": {}, "value": [1, 5]}), Fault.BAD_ANSWER, "no value", id="value-as-number"
        ),
        pytest.param(
            one_sample({"metric": {}, "value": ["5"]}), Fault.BAD_ANSWER, "no value", id="value-without-time"
        ),
        pytest.param(
            one_sample({"metric": {}, "value": [1, "abc"]}), Fault.BAD_ANSWER, "no number", id="value-is-a-word"
        ),
        pytest.param(
            one_sample({"metric": {}, "value": [1, "1_0"]}), Fault.BAD_ANSWER, "no number", id="python-s-digits"
        ),
        pytest.param(
            one_sample({"metric": {}, "value": [1, "٣"]}), Fault.BAD_ANSWER, "no number", id="other-digits"
        ),
        pytest.param(
            one_sample({"metric": {}, "value": [1, "1" * 5000]}), Fault.BAD_ANSWER, "no number", id="endless-digits"
        ),
        pytest.param(
            error("bad_data", "parse error: unexpected {", 200), Fault.FAILED, "parse error", id="error-with-200"
        ),
        pytest.param(answer({"status": "error"}), Fault.FAILED, "no reason", id="error-without-reason"),
        pytest.param(
            result("vector", [], warnings=["store b did not answer"]),
            Fault.PARTIAL,
            "store b did not answer",
            id="warning",
        ),
        pytest.param(
            result("vector", [], warnings={"no": "list"}), Fault.PARTIAL, "not said why", id="odd-warning"
        ),
        pytest.param(error("bad_data", "1:5: parse error", 400), Fault.REFUSED, "HTTP 400 Bad Request: 1:5: ", id="400"),
        pytest.param(answer("", 401), Fault.REFUSED, "HTTP 401 Unauthorized$", id="401"),
        pytest.param(
            answer("Forbidden (user=gatewright)\nmore", 403, kind="text/plain"),
            Fault.REFUSED,
            r"HTTP 403 Forbidden: Forbidden \(user=gatewright\)$",
            id="403",
        ),
        pytest.param(answer("<html>x</html>", 404, kind="text/html"), Fault.REFUSED, "HTTP 404 Not Found$", id="404"),
        pytest.param(error("execution", "too many series", 422), Fault.REFUSED, "too many series", id="422"),
        pytest.param(error("timeout", "query timed out", 503), Fault.TIMEOUT, "query timed out", id="query-timed-out"),
        pytest.param(babble, Fault.BAD_ANSWER, "no HTTP", id="no-http"),
        pytest.param(encoded("rot13"), Fault.BAD_ANSWER, "no JSON", id="odd-encoding"),
    ],
)  # fmt: skip
async def test_everything_but_a_whole_vector_is_an_error_told_once(
    step: Step, fault: PrometheusFault, text: str
) -> None:
    async with prometheus(step) as fake:
        told = await fault_of(fake)

    assert told.fault is fault
    assert not told.temporary
    assert len(fake.asked) == 1
    assert str(told).startswith(f"{fault}: ")
    assert re.search(text, told.message)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    """Neither with a token nor without: whoever answers there is not the one that was asked."""
    async with prometheus(vector()) as other:
        elsewhere = answer("", status, location=f"{other.url}/?t={TOKEN}")
        async with prometheus(elsewhere) as fake:
            told = await fault_of(fake, credentials=PrometheusCredentials(fake.url, TOKEN))

    assert told.fault is Fault.REDIRECTED
    assert TOKEN not in str(told)
    assert len(fake.asked) == 1
    assert other.asked == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "fault"),
    [
        pytest.param(cut, Fault.UNREACHABLE, id="connection-lost"),
        pytest.param(cut_inside, Fault.UNREACHABLE, id="connection-lost-inside-the-body"),
        pytest.param(answer("", 500), Fault.FAILED, id="500"),
        pytest.param(answer("", 502, kind="text/html"), Fault.FAILED, id="502"),
        pytest.param(answer("Service Unavailable", 503, kind="text/plain"), Fault.FAILED, id="503"),
        pytest.param(answer("", 429), Fault.REFUSED, id="429"),
        pytest.param(answer("", 429, retry_after="soon"), Fault.REFUSED, id="429-soon"),
    ],
)
async def test_what_may_pass_is_asked_again_and_then_told(
    step: Step, fault: PrometheusFault
) -> None:
    async with prometheus(step) as fake:
        told = await fault_of(fake)
    assert (told.fault, told.temporary, len(fake.asked)) == (fault, True, 3)

    async with prometheus(step, step, vector()) as fake:
        assert await ask(fake.url) == ()
    assert len(fake.asked) == 3


async def test_nobody_at_the_other_end_is_told_with_host_and_port() -> None:
    async with prometheus(vector()) as fake:
        url = fake.url

    with pytest.raises(PrometheusError, match=r": 127\.0\.0\.1:\d+: Connection refused$") as e:
        await ask(url)
    assert e.value.fault is Fault.UNREACHABLE


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [pytest.param(hang, id="silent"), pytest.param(drip, id="dripping")]
)
async def test_a_slow_answer_is_waited_for_no_longer_than_said(step: Step) -> None:
    async with prometheus(step) as fake:
        begun = time.monotonic()
        told = await fault_of(fake, timeout_s=0.2)

    assert told.fault is Fault.TIMEOUT
    assert told.temporary
    assert time.monotonic() - begun < 2


@pytest.mark.slow
async def test_all_attempts_together_end_at_the_callers_deadline() -> None:
    async with prometheus(hang, vector()) as fake, asking(fake.url, timeout_s=0.1) as client:
        # The first attempt has its time; the second one may use what is left.
        assert await client.query("up", at=AT, within_s=2) == ()

    slow = Retries(attempts=9, first_wait=0.4, longest_wait=0.4)
    async with prometheus(answer("", 500)) as fake:
        begun = time.monotonic()
        told = await fault_of(fake, timeout_s=1.0, retries=slow)
    assert told.status == 500
    assert time.monotonic() - begun < 1.2
    assert 2 <= len(fake.asked) <= 5


@pytest.mark.slow
async def test_a_server_that_asks_to_be_left_alone_is() -> None:
    busy = answer("", 429, retry_after="1")
    async with prometheus(busy, vector()) as fake:
        begun = time.monotonic()
        await ask(fake.url)
    assert time.monotonic() - begun >= 1

    # Longer than we have: then this was the answer.
    async with prometheus(answer("", 429, retry_after="3600"), vector()) as fake:
        assert (await fault_of(fake)).retry_after_s == 3600
    assert len(fake.asked) == 1


def test_waits_grow_and_are_never_the_same_for_all() -> None:
    retries = Retries(first_wait=1, longest_wait=4)

    for attempt, longest in ((0, 1), (1, 2), (2, 4), (3, 4), (1000, 4)):
        waits = {retries.wait_s(attempt) for _ in range(50)}
        assert longest / 2 <= min(waits) < max(waits) <= longest


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(flood, id="without-end"),
        pytest.param(
            answer(gzip.compress(bytes(2 * MAX_BODY_BYTES)), content_encoding="gzip"), id="packed"
        ),
    ],
)
async def test_an_answer_is_left_at_its_bound(step: Step) -> None:
    async with prometheus(step) as fake:
        told = await fault_of(fake, timeout_s=20.0)

    assert told.fault is Fault.TOO_LARGE
    assert str(MAX_BODY_BYTES) in told.message
    assert len(fake.asked) == 1


async def test_an_error_without_end_is_still_one_short_line() -> None:
    text = "x\n\x1b[31m" * 5000
    async with prometheus(error("bad_data", text, 400)) as fake:
        told = await fault_of(fake)

    assert len(str(told)) < 400
    assert str(told).isprintable()


async def test_a_query_that_is_given_up_leaves_no_connection_behind() -> None:
    async with prometheus(hang, vector()) as fake, asking(fake.url) as client:
        task = asyncio.create_task(client.query("up", at=AT))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await client.query("up", at=AT) == ()


async def test_a_client_can_be_closed_twice_and_used_again() -> None:
    async with prometheus(vector()) as fake, asking(fake.url) as client:
        await client.query("up", at=AT)
        await client.close()
        await client.close()
        assert await client.query("up", at=AT) == ()


async def test_a_token_is_shown_to_the_url_that_it_is_for() -> None:
    async with prometheus(vector()) as fake:
        await ask(fake.url, credentials=PrometheusCredentials(f"{fake.url}/", TOKEN))

    assert [asked.authorization for asked in fake.asked] == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("http://127.0.0.1:1", id="port"),
        pytest.param("https://127.0.0.1:{port}", id="scheme"),
        pytest.param("http://localhost:{port}", id="host"),
        pytest.param("http://127.0.0.1.evil.example:{port}", id="longer-host"),
        pytest.param("http://127.0.0.1:{port}/tenant-b", id="path"),
    ],
)
async def test_a_token_is_shown_to_no_other_url(other: str) -> None:
    """A document names the URL, and whoever may write it must not get the token that way."""
    async with prometheus(vector()) as fake:
        port = fake.url.rpartition(":")[2]
        credentials = PrometheusCredentials(other.format(port=port), TOKEN)
        await ask(fake.url, credentials=credentials)

    assert [asked.authorization for asked in fake.asked] == [""]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("https://Prom.example", "https://prom.example:443/", id="port-case-and-slash"),
        pytest.param("http://prom.example:80/a", "http://prom.example/a/", id="path"),
    ],
)
def test_one_url_in_two_spellings_is_one(one: str, other: str) -> None:
    client = PrometheusClient(one, credentials=PrometheusCredentials(other, TOKEN))

    assert client.shows_credentials


async def test_a_token_file_is_read_anew_for_each_query(tmp_path: Path) -> None:
    file = tmp_path / "token"
    async with prometheus(vector()) as fake:
        credentials = PrometheusCredentials(fake.url, token_file=file)
        async with asking(fake.url, credentials=credentials) as client:
            for token in ("first", "second\n"):
                file.write_text(token)
                await client.query("up", at=AT)

    assert [asked.authorization for asked in fake.asked] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="absent"),
        pytest.param(b"", id="empty"),
        pytest.param(b"two\r\nX-Evil: 1", id="two-lines"),
        pytest.param(b"t\xc3\xa9l\xc3\xa9", id="no-ascii"),
    ],
)
async def test_an_unusable_token_file_is_an_error_that_names_it(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    async with prometheus(vector()) as fake:
        told = await fault_of(fake, credentials=PrometheusCredentials(fake.url, token_file=file))

    assert told.fault is Fault.NO_TOKEN
    assert str(told) == f"NoToken: there is no token in {file}"
    assert fake.asked == []


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(answer(f"no rights: Bearer {TOKEN}", 403, kind="text/plain"), id="text"),
        pytest.param(error("bad_data", f"bad header {TOKEN}", 400), id="error"),
        pytest.param(error("internal", "x" * 290 + TOKEN, 200), id="cut-inside-of-it"),
        pytest.param(result("vector", [], warnings=[f"got {TOKEN}"]), id="warning"),
        pytest.param(result(f"type {TOKEN}", []), id="type"),
    ],
)
async def test_a_server_that_repeats_the_token_does_not_bring_it_into_a_message(
    step: Step,
) -> None:
    async with prometheus(step) as fake:
        credentials = PrometheusCredentials(fake.url, TOKEN)
        told = await fault_of(fake, credentials=credentials)

    assert fake.asked[0].authorization == f"Bearer {TOKEN}"
    assert TOKEN[:8] not in str(told)
    assert TOKEN not in repr(credentials)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("", id="empty"),
        pytest.param("prometheus:9090", id="no-scheme"),
        pytest.param("ftp://prometheus", id="other-scheme"),
        pytest.param("file:///etc/passwd", id="file"),
        pytest.param("http://", id="no-host"),
        pytest.param("http://prometheus:port", id="port-is-a-word"),
        pytest.param("http://prometheus:99999", id="port-too-large"),
        pytest.param("http://[::1", id="half-an-address"),
        pytest.param("http://prometheus/?token=hunter2", id="query"),
        pytest.param("http://prometheus/#hunter2", id="fragment"),
        pytest.param("http://admin:hunter2@prometheus", id="password"),
        pytest.param("http://hunter2@prometheus", id="user"),
        pytest.param("http://prometheus..monitoring.svc:9090", id="empty-label"),
        pytest.param("http://.prometheus", id="empty-first-label"),
        pytest.param("http://..", id="dots"),
        pytest.param("http://a...", id="dots-at-the-end"),
        pytest.param(f"http://{'a' * 64}.svc:9090", id="long-label"),
        pytest.param(f"http://{'.'.join(['a' * 60] * 5)}", id="long-name"),
        pytest.param("http://xn--a", id="no-punycode"),
        pytest.param("http://a b", id="space"),
        pytest.param("http://a\x00b", id="zero"),
        pytest.param("http://a\udcff", id="surrogate"),
    ],
)
def test_a_url_that_is_none_or_holds_credentials_is_refused_without_being_told(url: str) -> None:
    with pytest.raises(PrometheusError) as e:
        PrometheusClient(url)

    assert e.value.fault is Fault.BAD_URL
    assert "hunter2" not in str(e.value)


async def test_a_fault_that_the_http_library_does_not_name_is_one_of_prometheus() -> None:
    """Text that has no UTF-8 fails inside of it, with a UnicodeError."""
    async with prometheus(vector()) as fake, asking(fake.url) as client:
        with pytest.raises(PrometheusError) as e:
            await client.query("up\udcff", at=AT)

    assert (e.value.fault, e.value.temporary) == (Fault.UNREACHABLE, False)
    assert "UnicodeEncodeError" in e.value.message


class Misreading(PrometheusClient):
    """Has a fault of its own."""

    @staticmethod
    def _read(*answer: Any) -> tuple[Sample, ...]:
        raise LookupError("spoilt")


async def test_a_fault_of_ours_is_not_said_to_be_one_of_the_connection() -> None:
    """Whoever asks writes it into the log, with where it comes from."""
    async with prometheus(vector()) as fake:
        client = Misreading(fake.url)
        try:
            with pytest.raises(LookupError):
                await client.query("up", at=AT)
        finally:
            await client.close()


@pytest.mark.parametrize(
    ("url", "want"),
    [
        pytest.param("http://prometheus", "http://prometheus", id="bare"),
        pytest.param("http://prometheus:9090/", "http://prometheus:9090", id="slash"),
        pytest.param("https://x/a%2Fb/prom//", "https://x/a%2Fb/prom", id="path-stays-as-it-is"),
        pytest.param("http://[::1]:9090", "http://[::1]:9090", id="ipv6"),
        pytest.param("http://10.0.0.1:9090", "http://10.0.0.1:9090", id="ipv4"),
        pytest.param("http://prom.svc.:9090", "http://prom.svc.:9090", id="absolute-name"),
        pytest.param("http://prom_1", "http://prom_1", id="underscore"),
        pytest.param(f"http://{'a' * 63}", f"http://{'a' * 63}", id="longest-label"),
        pytest.param("http://\xe9.test", "http://xn--9ca.test", id="idna"),
    ],
)
def test_a_url_is_kept(url: str, want: str) -> None:
    assert PrometheusClient(url).url == want
    assert str(parse_base_url(url)).rstrip("/") == want


@pytest.mark.parametrize(
    ("credentials", "text"),
    [
        pytest.param(PrometheusCredentials("prom", TOKEN), "URL of Prometheus is not", id="url"),
        pytest.param(PrometheusCredentials("http://prom"), "no token in them", id="no-token"),
        pytest.param(PrometheusCredentials("http://prom", "a\nb"), "no token", id="two-lines"),
    ],
)
def test_credentials_that_cannot_be_used_are_a_wrong_setting(
    credentials: PrometheusCredentials, text: str
) -> None:
    with pytest.raises(SettingsError, match=text):
        PrometheusClient("http://prom", credentials=credentials)


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_authorities_that_cannot_be_read_are_a_wrong_setting(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_text(content)

    with pytest.raises(SettingsError, match="cannot read the authorities in"):
        PrometheusClient("https://prom", ca_file=file)


@pytest.mark.slow
async def test_a_certificate_counts_if_an_authority_vouches_for_it(tmp_path: Path) -> None:
    made = ensure_development_certificate(tmp_path, ("127.0.0.1",))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(made.certificate, made.key)

    async with prometheus(vector(), tls=tls) as fake:
        told = await fault_of(fake, credentials=PrometheusCredentials(fake.url, TOKEN))
        assert told.fault is Fault.UNREACHABLE
        assert "certificate" in told.message
        assert not told.temporary
        assert fake.asked == []

        assert await ask(fake.url, ca_file=made.ca) == ()
        assert await ask(fake.url, insecure=True) == ()


@pytest.mark.slow
@given(st.text(max_size=40))
def test_any_text_is_a_value_none_or_an_error(text: str) -> None:
    try:
        value = read_value(text)
    except PrometheusError:
        value = None
    assert value is None or (value.is_finite() and value >= 0)


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_every_double_comes_back_as_it_was_written(value: float) -> None:
    assert read_value(repr(value)) == Decimal(repr(value))
    assert read_value(format(Decimal(repr(value)), "f")) == Decimal(repr(value))
