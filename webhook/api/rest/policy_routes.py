"""/api/v1/policies: flat policies for any kind, and what is in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from webhook.api.problems import BadRequestError
from webhook.api.rest.access import Call, identify
from webhook.api.rest.answers import LIST_PARAMETERS, answer_body, answer_json, answer_list
from webhook.api.rest.document_names import (
    document_name_for,
    manifest_of,
    read_document_name,
    read_workload_type,
)
from webhook.api.rest.effective import effective_rules
from webhook.api.rest.mapping_info import require_mapping
from webhook.api.rest.merging import merge_rules
from webhook.api.rest.preconditions import Precondition, read_precondition
from webhook.api.rest.requests import check_keys, check_query, read_object
from webhook.api.rest.resources import (
    GVK_POLICIES,
    SHOWN_KEYS,
    Findings,
    Registered,
    envelope_of,
    find_by_id,
    findings_in,
    list_objects,
    spec_of,
)
from webhook.api.rest.scope_units import PLACE_KEYS, ScopeUnit, read_scope, scope_of_spec, show_unit
from webhook.errors import ConflictError, NotFoundError
from webhook.model.kinds import GroupVersionKind

COLUMNS = (
    "id",
    "name",
    "type",
    "scope",
    "description",
    "group",
    "version",
    "kind",
    "createdAt",
    "updatedAt",
)
_IDENTITY = ("workloadType", *PLACE_KEYS)
_CONTENT = ("description", "rules", "mode")

# That of the workload types API, as is that it isn't empty.
DESCRIPTION_MAX_CHARS = 1023

# Ids are UUIDs: no other path below `/policies` is one.
_ONE = "/api/v1/policies/{id:[0-9a-fA-F-]{36}}"

routes = web.RouteTableDef()


@routes.get("/api/v1/policies")
async def list_all(request: web.Request) -> web.Response:
    """All flat policies."""
    call = await identify(request)
    await call.require_right("list", GVK_POLICIES)
    check_query(request, LIST_PARAMETERS)
    objects = await list_objects(call.rest.store, GVK_POLICIES)
    return await answer_list(call, GVK_POLICIES, objects, COLUMNS, shown=_show)


@routes.post("/api/v1/policies")
async def create(request: web.Request) -> web.Response:
    """Write a policy for a kind and a scope."""
    call = await identify(request)
    await call.require_right("create", GVK_POLICIES)
    check_query(request, ())
    body = await read_object(request)
    check_keys(body, "name", *_IDENTITY, *_CONTENT)
    _check_description(body)
    kind, place = read_workload_type(body), read_scope(body)
    objects = await list_objects(call.rest.store, GVK_POLICIES)
    condition = read_precondition(request)
    name = _name_for(body.get("name"), kind, place, objects, condition)
    spec = {
        "workloadType": _show_kind(kind),
        **place.spec,
        **{key: body[key] for key in _CONTENT if body.get(key) is not None},
    }
    manifest = manifest_of(GVK_POLICIES, name, spec)
    stored = await call.writer.create(GVK_POLICIES, manifest, condition)
    found = Registered(GVK_POLICIES, name, spec_of(stored), stored)
    return await _answer(call, found, status=201)


@routes.post("/api/v1/policies/effective")
async def show_effective(request: web.Request) -> web.Response:
    """What is in force for a kind in all of a scope."""
    call = await identify(request)
    await call.require_path()
    check_query(request, ())
    body = await read_object(request)
    check_keys(body, *_IDENTITY)
    kind, place = read_workload_type(body), read_scope(body)
    snapshot = call.snapshot
    require_mapping(snapshot, kind)
    return answer_json(
        {
            "workloadType": _show_kind(kind),
            **show_unit(place.scope.value, place.unit),
            "effectiveRules": await call.rest.run(effective_rules, snapshot, kind, place),
        }
    )


@routes.get(_ONE)
async def get(request: web.Request) -> web.Response:
    """One policy, and what is in force beside it."""
    call = await identify(request)
    found = await _find(call, "get")
    check_query(request, ())
    return await _answer(call, found)


@routes.put(_ONE)
async def replace(request: web.Request) -> web.Response:
    """Replace rules and description."""
    call = await identify(request)
    found = await _find(call, "update")
    check_query(request, ())
    body = await read_object(request)
    condition = read_precondition(request, body)
    _check_same(found, body)
    content = {key: body[key] for key in _CONTENT if body.get(key) is not None}

    def changed(spec: dict[str, Any]) -> dict[str, Any]:
        return {**{key: value for key, value in spec.items() if key not in _CONTENT}, **content}

    return await _change(call, found, changed, condition)


@routes.patch(_ONE)
async def change(request: web.Request) -> web.Response:
    """Change the description, and the rules that are named."""
    call = await identify(request)
    found = await _find(call, "patch")
    check_query(request, ())
    body = await read_object(request)
    condition = read_precondition(request, body)
    _check_same(found, body)

    def changed(spec: dict[str, Any]) -> dict[str, Any]:
        merged = dict(spec)
        for key in ("description", "mode"):
            if key in body:
                merged[key] = body[key]
            if merged.get(key) is None:
                merged.pop(key, None)
        if body.get("rules") is not None:
            merged["rules"] = merge_rules(spec.get("rules"), body["rules"])
        return merged

    return await _change(call, found, changed, condition)


@routes.delete(_ONE)
async def delete(request: web.Request) -> web.Response:
    """Delete one policy."""
    call = await identify(request)
    found = await _find(call, "delete")
    check_query(request, ())
    await call.writer.delete(
        GVK_POLICIES, found.require_own(), condition=read_precondition(request)
    )
    return web.Response(status=204)


async def _change(
    call: Call, found: Registered, changed: Any, condition: Precondition
) -> web.Response:
    stored = await call.writer.change(
        GVK_POLICIES, found.require_own(), changed, condition=condition
    )
    return await _answer(call, Registered(GVK_POLICIES, stored.name, spec_of(stored), stored))


async def _find(call: Call, verb: str) -> Registered:
    """
    The policy whose id is in the path.

    Raises:
        ForbiddenError: the caller may not do *verb* to it.
        NotFoundError: there is none, and he may know that.
    """
    identity = call.request.match_info["id"]
    found = find_by_id(await list_objects(call.rest.store, GVK_POLICIES), identity)
    await call.require_right(verb, GVK_POLICIES, found or "")
    if found is None:
        raise NotFoundError(f"there is no policy with the id {identity!r}")
    return found


def _name_for(
    told: Any,
    kind: GroupVersionKind,
    place: ScopeUnit,
    objects: list[Registered],
    condition: Precondition,
) -> str:
    """
    The name of a new policy: the one that is given, or made from its kind and scope.

    Raises:
        ConflictError: there is a policy of that name, or without one of that kind and scope.
        PreconditionError: that is so, and *condition* asks for none.
    """
    if told is not None:
        name = read_document_name(told)
        if any(one.name.lower() == name for one in objects):
            condition.check_shipped()
            raise ConflictError(f"there is a policy {name!r} already")
        return name
    for one in objects:
        if one.kind == kind and place.is_of(one.spec):
            condition.check_shipped()
            raise ConflictError(
                f"there is a policy for {kind} at {place} already: {one.name} (id {one.id});"
                " change that one, or give this one a name"
            )
    taken = [one.name for one in objects]
    parts = [kind.group, kind.version, kind.kind, place.scope.value, place.unit]
    return document_name_for(parts, taken)


def _check_description(body: Mapping[str, Any], known: Any = None) -> None:
    """
    Raises:
        BadRequestError: the description is too short or too long, and not the *known* one, which
            somebody else may have written.
    """
    told = body.get("description")
    if isinstance(told, str) and told != known and not 1 <= len(told) <= DESCRIPTION_MAX_CHARS:
        raise BadRequestError(
            "description",
            f"must have 1 to {DESCRIPTION_MAX_CHARS} characters, not {len(told)}"
            "; a policy without one leaves it out",
        )


def _check_same(found: Registered, body: dict[str, Any]) -> None:
    """
    Raises:
        BadRequestError: *body* has unknown keys, or would move the policy elsewhere.
    """
    check_keys(body, "name", *_IDENTITY, *_CONTENT, *SHOWN_KEYS, "effectiveRules")
    _check_description(body, found.spec.get("description"))
    there = scope_of_spec(found.spec)
    if body.get("workloadType") is not None and read_workload_type(body) != found.kind:
        raise BadRequestError("workloadType", "can't be changed")
    if body.get("name") not in (None, found.name):
        raise BadRequestError("name", "can't be changed")
    if any(body.get(key) is not None for key in PLACE_KEYS) and there is not None:
        given = read_scope({**show_unit(there.scope.value, there.unit), **_given_ids(body)})
        if not given.is_of(found.spec):
            raise BadRequestError("scope", "can't be changed")


def _given_ids(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: body[key] for key in PLACE_KEYS if body.get(key) is not None}


async def _answer(call: Call, found: Registered, *, status: int = 200) -> web.Response:
    """One policy, with what is in force at its place."""
    snapshot, place = call.snapshot, scope_of_spec(found.spec)
    body = _show(found, findings_in(snapshot), call.warnings)
    if place is not None:
        body["effectiveRules"] = await call.rest.run(
            effective_rules, snapshot, found.kind, place, is_strict=False
        )
    return answer_body(body, status=status)


def _show(found: Registered, findings: Findings, warnings: Iterable[str] = ()) -> dict[str, Any]:
    place = scope_of_spec(found.spec)
    body: dict[str, Any] = {
        "id": found.id,
        "name": found.name,
        "workloadType": _show_kind(found.kind),
        **show_unit(found.scope, place.unit if place is not None else ""),
        **{key: found.spec[key] for key in _CONTENT if key in found.spec},
    }
    if found.stored is None:
        return body
    return {**body, **envelope_of(found.stored, findings, warnings)}


def _show_kind(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
