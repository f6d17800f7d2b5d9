"""/api/v1/policies/formatters and /field-groups: what mappings are made of."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from webhook.api.problems import BadRequestError
from webhook.api.rest.access import Call, identify
from webhook.api.rest.answers import LIST_PARAMETERS, answer_list, answer_object
from webhook.api.rest.document_names import document_name_for, manifest_of, read_name
from webhook.api.rest.merging import merge_patch
from webhook.api.rest.preconditions import CHANGED, Precondition, read_precondition
from webhook.api.rest.requests import check_query, read_object
from webhook.api.rest.resources import (
    FIELD_GROUPS,
    FORMATTERS,
    Registered,
    Resource,
    find_by_name,
    list_objects,
    spec_of,
    system_objects,
    without_shown,
)
from webhook.errors import ConflictError, NotFoundError

COLUMNS = ("id", "name", "scope", "description", "createdAt", "updatedAt")

routes = web.RouteTableDef()


def _add_routes(resource: Resource, path: str) -> None:
    @routes.get(path)
    async def list_all(request: web.Request) -> web.Response:
        call = await identify(request)
        await call.require_right("list", resource)
        check_query(request, LIST_PARAMETERS)
        objects = await list_objects(call.rest.store, resource)
        return await answer_list(call, resource, objects, COLUMNS)

    @routes.post(path)
    async def create(request: web.Request) -> web.Response:
        call = await identify(request)
        await call.require_right("create", resource)
        check_query(request, ())
        return await _create(call, resource, await read_object(request))

    @routes.get(path + "/{name}")
    async def get(request: web.Request) -> web.Response:
        call = await identify(request)
        found = await _find(call, resource, "get")
        check_query(request, ())
        return answer_object(call, found)

    @routes.patch(path + "/{name}")
    async def change(request: web.Request) -> web.Response:
        call = await identify(request)
        found = await _find(call, resource, "patch")
        check_query(request, ())
        patch = without_shown(await read_object(request), "scope")
        condition = read_precondition(request, patch)
        if str(patch.get("name", found.name)).lower() != found.name.lower():
            raise BadRequestError("name", "can't be changed")
        if found.stored is None:
            await _extend_system_group(call, found, patch, condition)
        else:
            await call.writer.change(
                resource,
                found.stored,
                lambda spec: {**merge_patch(spec, patch), "name": found.name},
                condition=condition,
            )
        objects = await list_objects(call.rest.store, resource)
        return answer_object(call, find_by_name(objects, found.name) or found)

    @routes.delete(path + "/{name}")
    async def delete(request: web.Request) -> web.Response:
        call = await identify(request)
        found = await _find(call, resource, "delete")
        check_query(request, ())
        await call.writer.delete(
            resource, found.require_own(), condition=read_precondition(request)
        )
        return web.Response(status=204)


_add_routes(FORMATTERS, "/api/v1/policies/formatters")
_add_routes(FIELD_GROUPS, "/api/v1/policies/field-groups")


async def _find(call: Call, resource: Resource, verb: str) -> Registered:
    """
    The object that the path names.

    Raises:
        ForbiddenError: the caller may not do *verb* to it.
        NotFoundError: there is none, and he may know that.
    """
    name = call.request.match_info["name"]
    objects = await list_objects(call.rest.store, resource)
    found = find_by_name(objects, name)
    await call.require_right(verb, resource, found or name.lower())
    if found is None:
        raise NotFoundError(f"there is no {resource.noun} {name!r}")
    return found


async def _create(call: Call, resource: Resource, body: dict[str, Any]) -> web.Response:
    name = read_name(body)
    condition = read_precondition(call.request)
    objects = await list_objects(call.rest.store, resource)
    twin = find_by_name(objects, name)
    if twin is not None:
        condition.check_shipped()
        raise ConflictError(f"there is a {twin.whose}{resource.noun} {twin.name!r} already")
    taken = [one.stored.name for one in objects if one.stored is not None]
    manifest = manifest_of(resource, document_name_for([name], taken), body)
    stored = await call.writer.create(resource, manifest, condition)
    return answer_object(call, Registered(resource, name, spec_of(stored), stored), status=201)


async def _extend_system_group(
    call: Call, group: Registered, patch: dict[str, Any], condition: Precondition
) -> None:
    """
    Keep what *patch* adds to a group of the system in a document of its own.

    Raises:
        ConflictError: it is no field group, *patch* would change what ships with us, or
            *condition* means a version, which such a group has none of before it is added to.
        PreconditionError: *condition* asks for none.
    """
    if group.resource is not FIELD_GROUPS:
        group.require_own()
    shipped = find_by_name(system_objects(FIELD_GROUPS), group.name)
    if shipped is None:
        raise NotFoundError(f"no field group {group.name!r} ships with us")
    for key, value in patch.items():
        if key == "name":
            continue
        if key not in ("fields", "itemSelectors"):
            problem = f"only fields and item selectors can be added to it, not {key!r}"
            raise ConflictError(f"{group.name} is a system field group; {problem}")
        if not isinstance(value, dict):
            raise BadRequestError(key, "must be an object")
        for twice in sorted(value.keys() & shipped.spec.get(key, {}).keys()):
            raise ConflictError(f"{group.name} is a system field group; {twice} can't be changed")

    def merged(spec: dict[str, Any]) -> dict[str, Any]:
        return {**merge_patch(spec, patch), "name": group.name}

    written = group.written
    if written is None:
        if group.additions:
            raise ConflictError(group.additions[0].read_only)
        condition.check_shipped()
        if condition.versions:
            raise ConflictError(CHANGED)
        documents = await call.rest.store.list_documents(FIELD_GROUPS.kind)
        name = document_name_for([group.name], [one.name for one in documents])
        await call.require_right("create", FIELD_GROUPS, name)
        await call.writer.create(FIELD_GROUPS, manifest_of(FIELD_GROUPS, name, merged({})))
        return
    left = merged(spec_of(written))
    await call.require_right("patch", FIELD_GROUPS, written.name)
    if left.get("fields") or left.get("itemSelectors"):
        await call.writer.change(FIELD_GROUPS, written, merged, condition=condition)
    else:
        await call.require_right("delete", FIELD_GROUPS, written.name)
        await call.writer.delete(FIELD_GROUPS, written, condition=condition)
