"""Logs: one JSON object a line, on standard error."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import orjson

from webhook.errors import (
    DecodeError,
    EvaluationError,
    ManifestError,
    NotReadyError,
    SettingsError,
    SpecError,
)

# Every review is recorded here, whatever the level of the rest.
DECISION_LOGGER = "gatewright.decision"

LEVELS = ("debug", "info", "warning", "error")

# Longer than any message of ours. A library may put a whole request into one.
_MESSAGE_MAX_CHARS = 2048

_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")

# Their texts show no value of a request. Those of `QuantityError` and the like do.
_SHOWN = (
    DecodeError,
    EvaluationError,
    ManifestError,
    NotReadyError,
    SettingsError,
    SpecError,
)

_PACKAGE_ROOT = str(Path(__file__).parents[2])

# What every record carries; all else on it came in through `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """
    One record as one JSON line.

    Fields of `extra` stand beside `time`, `level`, `logger` and `message`; those of
    `extra={"fields": {...}}` too, which may use names that a log record has itself (`name`).
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_MESSAGE_MAX_CHARS],
        }
        given = record.__dict__
        for key in [key for key in given if key not in _STANDARD]:
            line.setdefault(key, given[key])
        fields = line.pop("fields", None)
        if isinstance(fields, Mapping):
            # What is there already stays as it is, and where it is.
            line = {**line, **fields, **line}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = describe_exception(record.exc_info[1])
        return _dump(line)


def describe_exception(error: BaseException) -> str:
    """
    What was raised and where, innermost first, without any value.

    The text of an exception may quote what it choked on, and that may be somebody's secret
    (a parser shows the line). Only texts that we write ourselves, without values of a request,
    are shown.
    """
    seen: list[str] = []
    current: BaseException | None = error
    while current is not None and len(seen) < 8:
        text = type(current).__name__
        if isinstance(current, _SHOWN):
            text += f": {current}"
        seen.append(f"{text} at {_frames(current.__traceback__)}")
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context
    return "; from ".join(seen)


def _frames(trace: TracebackType | None) -> str:
    # The innermost frames tell most; a recursion has a thousand of them.
    frames = [
        f"{frame.filename.removeprefix(_PACKAGE_ROOT).lstrip('/')}:{frame.lineno} {frame.name}"
        for frame in traceback.StackSummary.extract(
            traceback.walk_tb(trace), limit=-8, lookup_lines=False
        )
    ]
    return " < ".join(reversed(frames)) or "unknown place"


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """
    Send all logs as JSON lines to *stream* (standard error unless given).

    *level* is one of `LEVELS`. Decision records are written at every level.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger(DECISION_LOGGER).setLevel(logging.INFO)
    # Its debug messages show transports and tasks, with the data that they hold.
    logging.getLogger("asyncio").setLevel(max(logging.INFO, root.level))
    # A stack trace of the logging module itself would show the arguments of the call.
    logging.raiseExceptions = False
    # No line shows from where in which thread it comes, and to find out takes a third of the time
    # (Python: "Logging HOWTO", section on optimization).
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """
    Log what the event loop found unhandled.

    The loop's own handler prints the exception's text and the arguments of callbacks.
    """
    error = context.get("exception")
    # `Exception in callback f(<arguments>)`: up to the name is what we want.
    found = str(context.get("message", "")).partition("(")[0].partition("<")[0][:100].strip()
    logging.getLogger("gatewright.loop").error(
        "unhandled error in the event loop: %s",
        found,
        exc_info=error if isinstance(error, BaseException) else None,
    )


def _dump(line: dict[str, Any]) -> str:
    try:
        raw = orjson.dumps(line, default=str)
        text = raw.decode()
        # What nearly every line is; a search through all of it takes longer than the rest.
        if raw.isascii() and b"\x7f" not in raw:
            return text
    except TypeError:
        # An integer beyond 64 bits, half a surrogate pair, a key that is no text.
        text = json.dumps(line, default=str, ensure_ascii=False, skipkeys=True)
        text = text.encode("utf-8", "replace").decode()
    # JSON allows these in a text as they are; a terminal or a reader of lines does not.
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
