"""/api/v1/policies/mappings: where the parts of a workload type are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web

from webhook.api.problems import BadRequestError
from webhook.api.rest.access import Call, identify
from webhook.api.rest.answers import LIST_PARAMETERS, answer_json, answer_list, answer_object
from webhook.api.rest.document_names import document_name_for, manifest_of, read_workload_type
from webhook.api.rest.mapping_info import field_info, minimal, require_mapping
from webhook.api.rest.merging import merge_patch
from webhook.api.rest.preconditions import read_precondition
from webhook.api.rest.requests import check_keys, check_query, read_object
from webhook.api.rest.resources import (
    MAPPINGS,
    Registered,
    find_by_kind,
    list_objects,
    spec_of,
    without_shown,
)
from webhook.errors import ConflictError, NotFoundError
from webhook.model.kinds import GroupVersionKind, differs_in_case

COLUMNS = (
    "id",
    "group",
    "version",
    "kind",
    "type",
    "scope",
    "description",
    "createdAt",
    "updatedAt",
)

routes = web.RouteTableDef()


@routes.get("/api/v1/policies/mappings")
async def list_all(request: web.Request) -> web.Response:
    """All mappings, those of the system too."""
    call = await identify(request)
    await call.require_right("list", MAPPINGS)
    check_query(request, LIST_PARAMETERS)
    objects = await list_objects(call.rest.store, MAPPINGS)
    return await answer_list(call, MAPPINGS, objects, COLUMNS, sort_by="type")


@routes.post("/api/v1/policies/mappings")
async def create(request: web.Request) -> web.Response:
    """Register a workload type."""
    call = await identify(request)
    await call.require_right("create", MAPPINGS)
    check_query(request, ())
    body = await read_object(request)
    kind = read_workload_type(body)
    condition = read_precondition(request)
    objects = await list_objects(call.rest.store, MAPPINGS)
    twin = find_by_kind(objects, kind)
    if twin is not None:
        condition.check_shipped()
        raise ConflictError(f"there is a {twin.whose}mapping for {kind} already")
    await _check_kind(call, kind, objects)
    taken = [one.stored.name for one in objects if one.stored is not None]
    name = document_name_for([kind.group, kind.version, kind.kind], taken)
    stored = await call.writer.create(MAPPINGS, manifest_of(MAPPINGS, name, body), condition)
    return answer_object(call, Registered(MAPPINGS, name, spec_of(stored), stored), status=201)


@routes.patch("/api/v1/policies/mappings")
async def change(request: web.Request) -> web.Response:
    """Change the mapping of the workload type that the body names."""
    call = await identify(request)
    patch = without_shown(await read_object(request), "scope")
    found = await _find(call, patch, "patch")
    check_query(request, ())
    condition = read_precondition(request, patch)
    stored = await call.writer.change(
        MAPPINGS,
        found.require_own(),
        lambda spec: {**merge_patch(spec, patch), "workloadType": spec.get("workloadType")},
        condition=condition,
    )
    return answer_object(call, Registered(MAPPINGS, stored.name, spec_of(stored), stored))


@routes.delete("/api/v1/policies/mappings")
async def delete(request: web.Request) -> web.Response:
    """Delete the mapping of the workload type that the body names."""
    call = await identify(request)
    body = await read_object(request, optional=True)
    found = await _find(call, body, "delete")
    check_query(request, ())
    condition = read_precondition(request, body)
    check_keys(body, "workloadType")
    await call.writer.delete(MAPPINGS, found.require_own(), condition=condition)
    return web.Response(status=204)


@routes.post("/api/v1/policies/mappings/minimal")
async def show_minimal(request: web.Request) -> web.Response:
    """What a workload type exposes: fields and selectors, no expressions."""
    call = await identify(request)
    await call.require_right("get", MAPPINGS)
    check_query(request, ())
    body = await read_object(request)
    kind = read_workload_type(body)
    check_keys(body, "workloadType")
    snapshot = call.snapshot
    require_mapping(snapshot, kind)
    return answer_json(await call.rest.run(minimal, snapshot, kind))


@routes.post("/api/v1/policies/mappings/field-info")
async def show_field_info(request: web.Request) -> web.Response:
    """What fields are: of one workload type or of all, all of them or those that are named."""
    call = await identify(request)
    await call.require_right("get", MAPPINGS)
    check_query(request, ())
    body = await read_object(request)
    check_keys(body, "workloadType", "fieldsRef")
    snapshot = call.snapshot
    kinds = sorted(snapshot.mappings)
    if body.get("workloadType") is not None:
        kinds = [read_workload_type(body)]
        require_mapping(snapshot, kinds[0])
    wanted = _read_references(body.get("fieldsRef"))
    breakdown = await call.rest.run(field_info, snapshot, kinds, wanted)
    return answer_json({"breakdown": breakdown})


def _read_references(told: Any) -> dict[str, frozenset[str]] | None:
    """The fields that a request is about, and at which selectors; empty means at all."""
    if told is None:
        return None
    if not isinstance(told, list):
        raise BadRequestError("fieldsRef", "must be a list of {field, specSelector}")
    wanted: dict[str, frozenset[str]] = {}
    for index, reference in enumerate(told):
        where = f"fieldsRef[{index}]"
        if not isinstance(reference, dict) or not isinstance(reference.get("field"), str):
            raise BadRequestError(where, "must be {field, specSelector}; specSelector is optional")
        check_keys(reference, "field", "specSelector", at=f"{where}.")
        selector = reference.get("specSelector")
        if selector is not None and not isinstance(selector, str):
            raise BadRequestError(f"{where}.specSelector", "must be text")
        known = wanted.get(reference["field"])
        if known == frozenset() or not selector:
            wanted[reference["field"]] = frozenset()
        else:
            wanted[reference["field"]] = (known or frozenset()) | {selector}
    return wanted


async def _find(call: Call, body: dict[str, Any], verb: str) -> Registered:
    """
    The mapping of the workload type in *body*.

    Raises:
        ForbiddenError: the caller may not do *verb* to it.
        NotFoundError: there is none, and he may know that.
    """
    kind = read_workload_type(body)
    found = find_by_kind(await list_objects(call.rest.store, MAPPINGS), kind)
    name = document_name_for([kind.group, kind.version, kind.kind], ())
    await call.require_right(verb, MAPPINGS, found or name)
    if found is None:
        raise NotFoundError(f"there is no mapping for {kind}")
    return found


async def _check_kind(call: Call, kind: GroupVersionKind, objects: Iterable[Registered]) -> None:
    """
    A kind that nobody serves may be installed later. A version beside those that are served won't,
    nor will a kind that differs from another one in case only.

    Raises:
        BadRequestError: the API server serves the kind in other versions, or in another case.
        ConflictError: there is a mapping for it in another case, and it is not known to be served.
    """
    kinds: Mapping[str, Sequence[str]] = {}
    if call.rest.served is not None:
        kinds = await call.rest.served.kinds_of(kind.group)
    if versions := kinds.get(kind.kind, ()):
        if kind.version not in versions:
            served = ", ".join(versions)
            problem = f"{kind.kind} is not served as {kind.version}, but as {served}"
            raise BadRequestError("workloadType.version", problem)
        return
    for other in kinds:
        if other.lower() == kind.kind.lower():
            problem = f"{other} is served, not {kind.kind}: kinds are told apart by case"
            raise BadRequestError("workloadType.kind", problem)
    twin = next((one for one in objects if differs_in_case(one.kind, kind)), None)
    if twin is not None:
        raise ConflictError(
            f"there is a {twin.whose}mapping for {twin.kind} already; {kind} differs from it in"
            " case only, by which kinds are told apart"
        )
