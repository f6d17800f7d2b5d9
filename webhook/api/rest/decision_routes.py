"""GET /api/v1/decisions: what this replica refused and changed lately."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice

from aiohttp import web

from webhook.api.problems import BadRequestError
from webhook.api.recent_decisions import KEPT_OUTCOMES, DecisionFilter, decode_kept
from webhook.api.rest.access import identify
from webhook.api.rest.answers import answer_json
from webhook.api.rest.lists import make_token, read_limit, read_token
from webhook.api.rest.requests import check_query
from webhook.model.rightsizing.times import read_time

PARAMETERS = ("outcome", "namespace", "policy", "kind", "since", "limit", "next")

_DEFAULT_LIMIT = 100
_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

routes = web.RouteTableDef()


@routes.get("/api/v1/decisions")
async def list_decisions(request: web.Request) -> web.Response:
    """The decision records that fit, the newest first."""
    call = await identify(request)
    await call.require_path()
    check_query(request, PARAMETERS)
    query = request.query
    wanted = DecisionFilter(
        outcome=_read_outcome(query.get("outcome", "")),
        namespace=query.get("namespace", ""),
        policy=query.get("policy", ""),
        kind=query.get("kind", ""),
        since=_read_since(query["since"]) if "since" in query else None,
    )
    limit = read_limit(query, _DEFAULT_LIMIT)
    before = _read_place(query["next"]) if "next" in query else None
    found = list(islice(call.rest.decisions.find(wanted, before=before), limit + 1))
    page = found[:limit]
    return answer_json(
        {
            "decisions": [decode_kept(kept) for kept in page],
            "next": make_token(page[-1].number) if len(found) > limit else None,
            "replica": call.rest.replica,
        }
    )


def _read_outcome(text: str) -> str:
    if text and text not in KEPT_OUTCOMES:
        raise BadRequestError("outcome", f"must be {' or '.join(KEPT_OUTCOMES)}")
    return text


def _read_since(text: str) -> datetime:
    """A moment, or how long ago: `2026-01-01T00:00:00Z`, `90m`."""
    ago = _DURATION.fullmatch(text)
    try:
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return read_time(text)
    except (ValueError, OverflowError):
        problem = "must be a time as in 2026-01-01T00:00:00Z, or how long ago: 90m"
        raise BadRequestError("since", problem) from None


def _read_place(token: str) -> int:
    number = read_token(token)
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadRequestError("next", "is no token of this list")
    return number
