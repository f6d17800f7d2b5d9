"""/api/v2/policy: hierarchical policies of native workload types, one for each type and scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from webhook.api.problems import BadRequestError
from webhook.api.rest.access import Call, identify
from webhook.api.rest.answers import answer_body, answer_json
from webhook.api.rest.document_names import manifest_of
from webhook.api.rest.effective import policies_held
from webhook.api.rest.merging import merge_patch
from webhook.api.rest.native_policies import (
    SECTIONS,
    canonical_policy,
    effective_policy,
    reset_fields,
)
from webhook.api.rest.native_policy_places import PolicyPlace, absent, find_place, types_of
from webhook.api.rest.preconditions import Precondition, read_precondition
from webhook.api.rest.requests import check_keys, check_query, read_flag, read_object
from webhook.api.rest.resources import (
    SHOWN_KEYS,
    WORKLOAD_POLICIES,
    Findings,
    Registered,
    envelope_of,
    findings_in,
    list_objects,
    spec_of,
)
from webhook.api.rest.scope_units import (
    PLACE_KEYS,
    ScopeFilter,
    ScopeUnit,
    read_scope,
    read_scope_filter,
    scope_of_spec,
    show_unit,
)
from webhook.errors import NotFoundError
from webhook.model.kinds import NATIVE_KINDS, GroupVersionKind
from webhook.model.names import did_you_mean
from webhook.store.snapshot import Snapshot

# What people call a policy here is no DNS name, so it is not the document's.
NAME_ANNOTATION = "policy.gatewright.io/display-name"

# `approveClusterDeletion` is about copies of policies elsewhere, which we don't have.
_WRITING = ("validateOnly", "approveClusterDeletion")

routes = web.RouteTableDef()


@routes.get("/api/v2/policy")
async def list_all(request: web.Request) -> web.Response:
    """All policies of native types, without what is in force."""
    call = await identify(request)
    await call.require_right("list", WORKLOAD_POLICIES)
    check_query(request, ("workloadType", "includeFallbackPolicies", *PLACE_KEYS))
    wanted = request.query.get("workloadType", "").lower()
    place = read_scope_filter(request.query)
    objects = await list_objects(call.rest.store, WORKLOAD_POLICIES)
    found = await call.rest.run(_list, objects, wanted, place, call.snapshot)
    return answer_json({"policies": found, "next": None})


@routes.get("/api/v2/policy/{type}")
async def get(request: web.Request) -> web.Response:
    """The policy of one type and scope, and what is in force there."""
    call = await identify(request)
    check_query(request, PLACE_KEYS)
    place = await find_place(call, read_scope(request.query))
    holder = place.holder
    await call.require_right("get", WORKLOAD_POLICIES, holder or place.name)
    if holder is None:
        raise NotFoundError(absent(place))
    return await _answer(call, place, holder)


@routes.put("/api/v2/policy/{type}")
async def replace(request: web.Request) -> web.Response:
    """Write the policy of one type and scope, whether or not there is one."""
    call = await identify(request)
    check_query(request, (*_WRITING, *PLACE_KEYS))
    validate_only = read_flag(request, "validateOnly")
    body = await read_object(request)
    condition, meta = read_precondition(request, _meta_of(body)), _meta_of(body)
    place = await find_place(call, read_scope({**request.query, **meta}))
    if place.own is None:
        await call.require_right("create", WORKLOAD_POLICIES)
    else:
        await call.require_right("update", WORKLOAD_POLICIES, place.own.name)
    check_keys(body, "meta", "policy", "effective", "effectiveUpdatedAt", "type")
    place.require_free()
    policy = canonical_policy(place.mapping, _policy_of(body))
    return await _write(call, place, lambda _: policy, meta, condition, validate_only=validate_only)


@routes.patch("/api/v2/policy/{type}")
async def change(request: web.Request) -> web.Response:
    """Change the policy of one type and scope: first what is `reset`, then what is given."""
    call = await identify(request)
    check_query(request, (*_WRITING, *PLACE_KEYS))
    validate_only = read_flag(request, "validateOnly")
    body = await read_object(request)
    condition, meta = read_precondition(request, _meta_of(body)), _meta_of(body)
    place = await find_place(call, read_scope({**request.query, **meta}))
    await call.require_right(
        "patch", WORKLOAD_POLICIES, place.own.name if place.own else place.name
    )
    check_keys(body, "meta", "policy", "reset", "effective", "effectiveUpdatedAt", "type")
    place.require_free()
    if place.own is None:
        raise NotFoundError(absent(place))
    patch = canonical_policy(place.mapping, _policy_of(body))
    reset = body.get("reset")

    def changed(policy: dict[str, Any]) -> dict[str, Any]:
        left = reset_fields(place.mapping, canonical_policy(place.mapping, policy), reset)
        merged: dict[str, Any] = merge_patch(left, patch)
        return merged

    return await _write(call, place, changed, meta, condition, validate_only=validate_only)


@routes.delete("/api/v2/policy/{type}")
async def delete(request: web.Request) -> web.Response:
    """Delete the policy of one type and scope."""
    call = await identify(request)
    check_query(request, ("approveClusterDeletion", *PLACE_KEYS))
    place = await find_place(call, read_scope(request.query))
    await call.require_right(
        "delete", WORKLOAD_POLICIES, place.own.name if place.own else place.name
    )
    place.require_free()
    holder = place.holder
    if holder is None:
        raise NotFoundError(absent(place))
    own, condition = holder.require_own(), read_precondition(request)
    await call.writer.delete(WORKLOAD_POLICIES, own, condition=condition)
    return web.Response(status=204)


async def _write(
    call: Call,
    place: PolicyPlace,
    changed: Any,
    meta: Mapping[str, Any],
    condition: Precondition,
    *,
    validate_only: bool,
) -> web.Response:
    """Make of the policy that is there what *changed* says, or say whether it could be done."""
    display = meta.get("name")
    if display is not None and not isinstance(display, str):
        raise BadRequestError("meta.name", "must be text")
    annotations = {NAME_ANNOTATION: display} if display else None

    def spec_after(spec: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in spec.items() if key not in SECTIONS}
        kept = kept or {"workloadType": place.type, **place.at.spec}
        policy = changed({key: spec[key] for key in SECTIONS if key in spec})
        return {**kept, **{key: value for key, value in policy.items() if value is not None}}

    writer = call.trial_writer if validate_only else call.writer
    if place.own is None:
        manifest = manifest_of(
            WORKLOAD_POLICIES, place.name, spec_after({}), annotations=annotations
        )
        stored = await writer.create(WORKLOAD_POLICIES, manifest, condition)
    else:
        stored = await writer.change(
            WORKLOAD_POLICIES, place.own, spec_after, condition=condition, annotations=annotations
        )
    if validate_only:
        spec = spec_of(stored)
        policy = {key: spec[key] for key in SECTIONS if key in spec}
        shown: dict[str, Any] = show_unit(place.at.scope.value, place.at.unit)
        if display:
            shown["name"] = display
        if call.warnings:
            shown["warnings"] = call.warnings
        return answer_json({"type": place.type, "meta": shown, "policy": policy})
    found = Registered(WORKLOAD_POLICIES, stored.name, spec_of(stored), stored)
    return await _answer(call, place, found, status=201 if place.own is None else 200)


def _list(
    objects: Iterable[Registered], wanted: str, place: ScopeFilter, snapshot: Snapshot
) -> list[dict[str, Any]]:
    """Those at *place*, one for each type; of the type *wanted*, in small letters, if there is."""
    findings = findings_in(snapshot)
    found = []
    for one in objects:
        at = scope_of_spec(one.spec)
        if at is None or not place.holds(at):
            continue
        for workload_type in types_of(one.spec):
            if wanted in ("", workload_type.lower()):
                found.append({"type": workload_type, "meta": _meta(one, at, findings)})
    return found


def _effective(snapshot: Snapshot, kind: GroupVersionKind, at: ScopeUnit) -> dict[str, Any]:
    return effective_policy(policies_held(snapshot, kind, at, is_strict=False))


async def _answer(
    call: Call, place: PolicyPlace, holder: Registered, *, status: int = 200
) -> web.Response:
    kind = NATIVE_KINDS[place.type]
    snapshot = call.snapshot
    meta = _meta(holder, place.at, findings_in(snapshot), call.warnings)
    policy = {key: holder.spec[key] for key in SECTIONS if key in holder.spec}
    body = {
        "type": place.type,
        "meta": meta,
        "policy": canonical_policy(snapshot.mappings[kind], policy),
        "effective": await call.rest.run(_effective, snapshot, kind, place.at),
    }
    answer = answer_body(body, status=status)
    if meta.get("resourceVersion"):
        answer.headers["ETag"] = f'"{meta["resourceVersion"]}"'
    return answer


def _meta(
    found: Registered, at: ScopeUnit, findings: Findings, warnings: Iterable[str] = ()
) -> dict[str, Any]:
    meta: dict[str, Any] = {"id": found.id, "name": found.name, "document": found.name}
    if found.stored is not None:
        annotations = found.stored.manifest["metadata"].get("annotations") or {}
        meta["name"] = annotations.get(NAME_ANNOTATION, found.name)
        meta |= envelope_of(found.stored, findings, warnings)
    return {**meta, **show_unit(at.scope.value, at.unit)}


def _meta_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """
    Raises:
        BadRequestError: `meta` is there and no object, or has keys that mean nothing.
    """
    meta = body.get("meta", {})
    if not isinstance(meta, dict):
        raise BadRequestError("meta", "must be an object")
    check_keys(meta, "name", "resourceVersion", *PLACE_KEYS, *SHOWN_KEYS, "document", at="meta.")
    return meta


def _policy_of(body: Mapping[str, Any]) -> dict[str, Any]:
    policy = body.get("policy")
    if policy is None:
        return {}
    if not isinstance(policy, dict):
        raise BadRequestError("policy", "must be an object")
    for key in policy:
        if key.lower() not in [section.lower() for section in SECTIONS]:
            raise BadRequestError(f"policy.{key}", f"unknown field{did_you_mean(key, SECTIONS)}")
    return policy
