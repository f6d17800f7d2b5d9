"""Answers of the API that are no problem: one object, or a page of a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web
from aiohttp.hdrs import ETAG

from webhook.admission.texts import to_json
from webhook.api.problems import BadRequestError
from webhook.api.rest.access import Call
from webhook.api.rest.lists import read_list_query, select_page
from webhook.api.rest.resources import Findings, Registered, Resource, findings_in, show

LIST_PARAMETERS = ("filterBy", "sortBy", "sortOrder", "limit", "next")


def answer_json(
    body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """*body* as JSON; integers and floats as they are."""
    return web.Response(
        status=status, body=to_json(body), content_type="application/json", headers=headers
    )


def answer_object(call: Call, found: Registered, *, status: int = 200) -> web.Response:
    """One object, with its version as `ETag`."""
    return answer_body(show(found, findings_in(call.snapshot), call.warnings), status=status)


def answer_body(body: Mapping[str, Any], *, status: int = 200) -> web.Response:
    """*body*, with its `resourceVersion` as `ETag`."""
    version = body.get("resourceVersion")
    headers = {str(ETAG): f'"{version}"'} if version else None
    return answer_json(body, status=status, headers=headers)


async def answer_list(
    call: Call,
    resource: Resource,
    objects: Sequence[Registered],
    columns: Sequence[str],
    *,
    sort_by: str = "name",
    shown: Callable[[Registered, Findings], dict[str, Any]] = show,
) -> web.Response:
    """The page of *objects* that the request wants; each as *shown* makes it of what is found."""
    query = call.request.query
    wanted = read_list_query(query, query.getall("filterBy", []), columns, sort_by)
    used = [*(condition.column for condition in wanted.conditions), wanted.sort_by]
    if "createdAt" in used and not call.rest.has_cluster:
        # Whoever filters by what is not there would get nothing, and not know why.
        raise BadRequestError(
            "createdAt", "is not known without a cluster: files have no such time; use updatedAt"
        )
    snapshot = call.snapshot

    def make() -> dict[str, Any]:
        page, following = select_page([(columns_of(one), one) for one in objects], wanted)
        findings = findings_in(snapshot)
        return {resource.list_key: [shown(one, findings) for one in page], "next": following}

    # With thousands of objects this takes tenths of a second.
    return answer_json(await call.rest.run(make))


def columns_of(found: Registered) -> dict[str, str]:
    """What lists of any resource can be filtered and sorted by."""
    kind = found.kind
    created = found.stored.manifest["metadata"].get("creationTimestamp") if found.stored else None
    return {
        "id": found.id,
        "name": found.name,
        "scope": found.scope,
        "description": str(found.spec.get("description") or ""),
        "group": kind.group,
        "version": kind.version,
        "kind": kind.kind,
        "type": str(kind),
        "createdAt": str(created or ""),
        "updatedAt": found.stored.updated if found.stored else "",
    }
