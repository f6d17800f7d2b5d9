"""What Prometheus answers, read: vectors, values, errors. Nothing in it is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import orjson

from webhook.errors import PrometheusError, PrometheusFault
from webhook.model.rightsizing.samples import Sample

_MAX_TEXT_CHARS = 300

# Prometheus writes a double in full: the largest has 309 digits, the smallest 326 characters.
_MAX_NUMBER_CHARS = 1024
# As nearly all are: not negative, below every bound. The rest is looked at more closely.
_PLAIN_NUMBER = re.compile(r"[0-9]{1,300}(?:\.[0-9]{1,300})?")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE](?P<exponent>[+-]?[0-9]+))?")
_NO_NUMBER = frozenset({"nan", "inf", "+inf", "-inf"})
# Beyond every double, whatever stands before it: the largest is 1.8e308.
_MAX_EXPONENT_DIGITS = 4
_MAX_EXPONENT = 308

_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_ZERO = Decimal(0)


def read_vector(told: Any, *, secret: str = "") -> tuple[Sample, ...]:
    """
    The samples of an answer to an instant query, decoded from JSON.

    Raises:
        PrometheusError: it is an error, another type than a vector, not everything that there is
            (it warns), or no answer of Prometheus at all. Never shows *secret*.
    """
    if not isinstance(told, dict):
        raise _bad("an answer of Prometheus is an object")
    if told.get("status") == "error":
        text = clean_text(told.get("error"), secret=secret) or "no reason was given"
        raise PrometheusError(PrometheusFault.FAILED, text)
    warnings = told.get("warnings")
    if warnings:
        # Of several stores one did not answer, or series are left out. With half of the samples
        # a workload looks idle that is not.
        first = warnings[0] if isinstance(warnings, list) else warnings
        text = clean_text(first, secret=secret) or "it is not said why"
        raise PrometheusError(PrometheusFault.PARTIAL, f"the answer may not be all: {text}")
    data = told.get("data")
    if told.get("status") != "success" or not isinstance(data, dict):
        raise _bad("it says neither success nor error")
    kind, result = data.get("resultType"), data.get("result")
    if kind != "vector":
        raise _bad(f"the result is of type {clean_text(kind, secret=secret) or '(none)'}")
    if not isinstance(result, list):
        raise _bad("the vector is no list")
    return tuple([_read_sample(element) for element in result])


def read_value(text: str) -> Decimal | None:
    """
    The amount that Prometheus wrote, exactly; None where it is none (see `Sample`).

    Raises:
        PrometheusError: *text* is nothing that Prometheus writes.
    """
    if _PLAIN_NUMBER.fullmatch(text):
        return Decimal(text) or _ZERO
    if text.lower() in _NO_NUMBER:
        return None
    number = _NUMBER.fullmatch(text) if len(text) <= _MAX_NUMBER_CHARS else None
    if number is None:
        raise _bad("a value is no number")
    if len((number["exponent"] or "").lstrip("+-0")) > _MAX_EXPONENT_DIGITS:
        return None
    value = Decimal(text)
    if value < 0 or value.adjusted() > _MAX_EXPONENT:
        return None
    return value or _ZERO  # not -0


def read_error(body: bytes, content_type: str, *, secret: str = "") -> tuple[str, str]:
    """
    What the body of an error says: Prometheus' word for its kind (`bad_data`, `timeout`), and a
    text. Either is empty where there is none; *secret* is not in them.
    """
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        told = None
    if isinstance(told, dict):
        kind = clean_text(told.get("errorType"), secret=secret)
        return kind, clean_text(told.get("error"), secret=secret)
    if content_type != "text/plain":
        return "", ""  # a page of a proxy
    first = body.decode(errors="replace").strip().partition("\n")[0]
    return "", clean_text(first, secret=secret)


def clean_text(text: object, *, secret: str = "") -> str:
    """*text* as one short line without *secret*; empty where it is no text."""
    if not isinstance(text, str):
        return ""
    if secret:
        # Before it is cut: half of a secret is one, too.
        text = text.replace(secret, "(not shown)")
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[: _MAX_TEXT_CHARS - 1]}…"


def _read_sample(element: Any) -> Sample:
    labels = element.get("metric") if isinstance(element, dict) else None
    if not isinstance(labels, dict) or not _are_texts(labels.values()):
        raise _bad("a sample has no labels")
    if "value" not in element and "histogram" in element:
        return Sample(labels, None)
    value = element.get("value")
    # A pattern says it shorter, and takes twice as long.
    if isinstance(value, list) and len(value) == 2:
        time, text = value
        if isinstance(time, int | float) and isinstance(text, str):
            return Sample(labels, read_value(text))
    raise _bad("a sample has no value")


def _are_texts(values: Iterable[object]) -> bool:
    """Whether all are. Joining them looks at each far faster than a loop, and answers are long."""
    try:
        "".join(values)  # type: ignore[arg-type]  # what is no text raises
    except TypeError:
        return False
    return True


def _bad(problem: str) -> PrometheusError:
    return PrometheusError(PrometheusFault.BAD_ANSWER, f"this is no answer to a query: {problem}")
