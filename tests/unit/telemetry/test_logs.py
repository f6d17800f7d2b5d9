from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from webhook.errors import QuantityError, SettingsError
from webhook.telemetry.logs import (
    DECISION_LOGGER,
    LEVELS,
    configure_logging,
    describe_exception,
    log_loop_error,
)

CANARY = "hunter2-canary"

log = logging.getLogger("gatewright.test")


class Lines:
    """What was logged, line by line."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def last(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.text.splitlines()[-1])
        return found


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    kept = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:], root.level, logging.raiseExceptions = kept


@pytest.fixture
def lines(restored_logging: None) -> Lines:
    stream = io.StringIO()
    configure_logging("debug", stream)
    return Lines(stream)


def raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error) as caught:
        return caught


def test_a_record_is_one_json_line_with_time_level_logger_and_message(lines: Lines) -> None:
    log.warning("changed %s", "tls.crt")

    got = lines.last
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", got.pop("time"))
    assert got == {"level": "warning", "logger": "gatewright.test", "message": "changed tls.crt"}


def test_extras_stand_beside_the_message(lines: Lines) -> None:
    log.info("loaded", extra={"revision": "f00d", "fields": {"name": "train", "count": 3}})

    assert (lines.last["revision"], lines.last["name"], lines.last["count"]) == ("f00d", "train", 3)


def test_extras_do_not_replace_what_a_line_says_itself(lines: Lines) -> None:
    log.info("loaded", extra={"fields": {"message": "other", "level": "none", "time": "never"}})

    assert (lines.last["message"], lines.last["level"]) == ("loaded", "info")


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[31m", "a\x00b", "a\u2028b", '"}{', "\ud800"])
def test_a_message_cannot_break_its_line(lines: Lines, text: str) -> None:
    log.info("%s", text, extra={"fields": {"text": text, text: 1}})

    assert lines.text.count("\n") == 1
    assert lines.last["level"] == "info"


def test_values_that_json_cannot_hold_are_logged_as_text(lines: Lines) -> None:
    log.info("large", extra={"number": 2**70, "what": {1: io.StringIO}})

    assert f'"number": {2**70}' in lines.text
    assert "StringIO" in lines.last["what"]["1"]


def test_an_endless_message_is_cut(lines: Lines) -> None:
    log.info("x" * 1_000_000)

    assert len(lines.text) < 4096


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError(f"cannot parse {CANARY}"), id="foreign"),
        pytest.param(QuantityError(f"{CANARY} is no quantity"), id="of-ours-with-a-value"),
        pytest.param(KeyError(CANARY), id="key"),
    ],
)
def test_an_exception_is_logged_by_type_and_place_and_without_its_text(
    lines: Lines, error: Exception
) -> None:
    log.error("failed", exc_info=raised(error))

    assert CANARY not in lines.text
    assert lines.last["exception"].startswith(type(error).__name__)
    assert re.search(r"test_logs\.py:\d+ raised", lines.last["exception"])


def test_our_own_texts_about_settings_are_shown(lines: Lines) -> None:
    log.error("failed", exc_info=raised(SettingsError("--listen: must be HOST:PORT")))

    assert "--listen: must be HOST:PORT" in lines.last["exception"]


def test_the_cause_of_an_exception_is_named_too() -> None:
    error = RuntimeError(CANARY)
    error.__cause__ = raised(KeyError(CANARY))

    text = describe_exception(raised(error))

    assert re.match(r"RuntimeError at .*; from KeyError at ", text)
    assert CANARY not in text


def test_a_recursion_is_described_in_a_few_words() -> None:
    def endless() -> None:
        endless()

    with pytest.raises(RecursionError) as caught:
        endless()

    assert len(describe_exception(caught.value)) < 1500


@pytest.mark.parametrize("level", LEVELS)
def test_decisions_are_written_at_every_level(restored_logging: None, level: str) -> None:
    stream = io.StringIO()
    configure_logging(level, stream)

    logging.getLogger(DECISION_LOGGER).info("review answered", extra={"fields": {"uid": "u"}})

    assert Lines(stream).last["uid"] == "u"


@pytest.mark.parametrize(
    ("level", "want"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)]
)
def test_the_level_decides_what_else_is_written(
    restored_logging: None, level: str, want: int
) -> None:
    stream = io.StringIO()
    configure_logging(level, stream)

    for method in (log.debug, log.info, log.warning, log.error):
        method("line")

    assert stream.getvalue().count("\n") == want


async def test_an_error_in_the_event_loop_is_logged_without_values(lines: Lines) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)

    def fail(value: str) -> None:
        raise ValueError(value)

    loop.call_soon(fail, CANARY)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert CANARY not in lines.text
    assert lines.last["message"].startswith("unhandled error in the event loop: Exception in")
    assert "ValueError at " in lines.last["exception"]


async def test_the_event_loop_is_silent_about_its_data_at_debug_level(lines: Lines) -> None:
    assert not logging.getLogger("asyncio").isEnabledFor(logging.DEBUG)
