"""The API's own description, OpenAPI 3.1: operation by operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from webhook.api.recent_decisions import KEPT_OUTCOMES
from webhook.api.rest import (
    decision_routes,
    mapping_routes,
    policy_routes,
    registry_routes,
    review_routes,
)
from webhook.api.rest.answers import LIST_PARAMETERS
from webhook.api.rest.lists import MAX_LIMIT
from webhook.api.rest.native_policy_places import TYPES
from webhook.api.rest.openapi_schemas import FLAG, REFERENCE, SCOPE, TEXT, Json, build_schemas
from webhook.api.rest.scope_units import PLACE_KEYS


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. *body* and *answer* name schemas; *answer* None: no content."""

    method: str
    path: str
    summary: str
    answer: str | None = None
    body: str | None = None
    status: int = 200
    parameters: tuple[str, ...] = ()
    # Beside those that any operation may answer.
    problems: tuple[int, ...] = ()


_CONDITIONS = ("If-Match", "If-None-Match")
_WRITING = ("validateOnly", "approveClusterDeletion", *_CONDITIONS)
_CREATE = (409, 412)
_CHANGE = (404, *_CREATE)


def _registry(path: str, noun: str, schema: str) -> tuple[Operation, ...]:
    one = path + "/{name}"
    return (
        Operation("get", path, f"List all {noun}s", f"{schema}List", parameters=LIST_PARAMETERS),
        Operation(
            *("post", path, f"Create a {noun}", f"{schema}Answer", schema, 201),
            parameters=_CONDITIONS,
            problems=_CREATE,
        ),
        Operation("get", one, f"Get a {noun}", f"{schema}Answer", problems=(404,)),
        Operation(
            *("patch", one, f"Update a {noun}", f"{schema}Answer", "MergePatch"),
            parameters=_CONDITIONS,
            problems=_CHANGE,
        ),
        Operation(
            *("delete", one, f"Delete a {noun}"),
            status=204,
            parameters=_CONDITIONS,
            problems=_CHANGE,
        ),
    )


_MAPPINGS = "/api/v1/policies/mappings"
_POLICIES = "/api/v1/policies"
_NATIVE = "/api/v2/policy/{type}"

OPERATIONS: tuple[Operation, ...] = (
    *_registry("/api/v1/policies/formatters", "formatter", "Formatter"),
    *_registry("/api/v1/policies/field-groups", "field group", "FieldGroup"),
    Operation("get", _MAPPINGS, "List all mappings", "MappingList", parameters=LIST_PARAMETERS),
    Operation(
        *("post", _MAPPINGS, "Create a mapping", "MappingAnswer", "Mapping", 201),
        parameters=_CONDITIONS,
        problems=_CREATE,
    ),
    Operation(
        *("patch", _MAPPINGS, "Update the mapping of a workload type"),
        *("MappingAnswer", "MappingPatch"),
        parameters=_CONDITIONS,
        problems=_CHANGE,
    ),
    Operation(
        *("delete", _MAPPINGS, "Delete the mapping of a workload type", None, "MappingReference"),
        status=204,
        parameters=_CONDITIONS,
        problems=_CHANGE,
    ),
    Operation(
        *("post", f"{_MAPPINGS}/minimal", "What a workload type exposes"),
        *("Minimal", "MappingReference"),
        problems=(404,),
    ),
    Operation(
        *("post", f"{_MAPPINGS}/field-info", "What fields are, kind by kind"),
        *("FieldInfo", "FieldInfoRequest"),
        problems=(404,),
    ),
    Operation("get", _POLICIES, "List policies", "PolicyList", parameters=LIST_PARAMETERS),
    Operation(
        *("post", _POLICIES, "Create a policy", "PolicyAnswer", "Policy", 201),
        parameters=_CONDITIONS,
        problems=_CHANGE,
    ),
    Operation(
        *("post", f"{_POLICIES}/effective", "What is in force for a kind in all of a scope"),
        *("Effective", "WorkloadTypeAndScope"),
        problems=(404,),
    ),
    Operation("get", _POLICIES + "/{id}", "Get a policy", "PolicyAnswer", problems=(404,)),
    Operation(
        *("put", _POLICIES + "/{id}", "Replace rules and description of a policy"),
        *("PolicyAnswer", "PolicyUpdate"),
        parameters=_CONDITIONS,
        problems=_CHANGE,
    ),
    Operation(
        *("patch", _POLICIES + "/{id}", "Update a policy; rules merge by identity"),
        *("PolicyAnswer", "PolicyUpdate"),
        parameters=_CONDITIONS,
        problems=_CHANGE,
    ),
    Operation(
        *("delete", _POLICIES + "/{id}", "Delete a policy"),
        status=204,
        parameters=_CONDITIONS,
        problems=_CHANGE,
    ),
    Operation(
        *("get", "/api/v2/policy", "List policies of native workload types", "NativePolicyList"),
        parameters=("workloadType", "includeFallbackPolicies", *PLACE_KEYS),
    ),
    Operation(
        *("get", _NATIVE, "Get the policy of a type and scope", "NativePolicyAnswer"),
        parameters=PLACE_KEYS,
        problems=(404,),
    ),
    Operation(
        *("put", _NATIVE, "Write the policy of a type and scope (201: there was none)"),
        *("NativePolicyAnswer", "NativePolicy"),
        parameters=(*_WRITING, *PLACE_KEYS),
        problems=(201, *_CHANGE),
    ),
    Operation(
        *("patch", _NATIVE, "Update the policy of a type and scope"),
        *("NativePolicyAnswer", "NativePolicyPatch"),
        parameters=(*_WRITING, *PLACE_KEYS),
        problems=_CHANGE,
    ),
    Operation(
        *("delete", _NATIVE, "Delete the policy of a type and scope"),
        status=204,
        parameters=("approveClusterDeletion", *_CONDITIONS, *PLACE_KEYS),
        problems=_CHANGE,
    ),
    Operation(
        *("get", "/api/v1/decisions", "What this replica refused and changed lately"),
        "DecisionList",
        parameters=decision_routes.PARAMETERS,
    ),
    Operation(
        *("post", "/api/v1/review", "What the gate would answer to a submission"),
        *("Reports", "Submission"),
        parameters=review_routes.PARAMETERS,
    ),
    Operation("get", "/api/openapi.json", "This description", "Description"),
)

_PARAMETERS: Mapping[str, Json] = {
    "filterBy": {
        "schema": TEXT,
        "description": "Conditions, separated by commas, all of which hold: column, operator"
        " (== != <= >= =@ !@ =^ =$), value. The last four: contains, doesn't, begins, ends with.",
    },
    "sortBy": {"schema": TEXT},
    "sortOrder": {"schema": {"type": "string", "enum": ["asc", "desc"]}},
    "limit": {"schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}},
    "next": {"schema": TEXT, "description": "The token that the page before ended with."},
    "scope": {"schema": SCOPE},
    "projectId": {"schema": TEXT},
    "departmentId": {"schema": TEXT},
    "clusterId": {"schema": TEXT},
    "workloadType": {"schema": TEXT},
    "includeFallbackPolicies": {"schema": FLAG},
    "validateOnly": {"schema": FLAG, "description": "Check, and write nothing."},
    "approveClusterDeletion": {"schema": FLAG, "description": "Changes nothing here."},
    "outcome": {"schema": {"type": "string", "enum": list(KEPT_OUTCOMES)}},
    "namespace": {"schema": TEXT},
    "policy": {"schema": TEXT},
    "kind": {"schema": TEXT, "description": "`Pod`, or `batch/v1/Job`"},
    "since": {"schema": TEXT, "description": "A time (RFC 3339), or how long ago: `90m`"},
    "project": {"schema": TEXT},
    "department": {"schema": TEXT},
    "user": {"schema": TEXT},
    "If-Match": {
        "schema": TEXT,
        "description": "The resourceVersion that is to be changed; `*`: any, but nothing new.",
    },
    "If-None-Match": {"schema": TEXT, "description": "`*`: nothing that is there already."},
}

_COLUMNS = {
    "/api/v1/policies/formatters": registry_routes.COLUMNS,
    "/api/v1/policies/field-groups": registry_routes.COLUMNS,
    _MAPPINGS: mapping_routes.COLUMNS,
    _POLICIES: policy_routes.COLUMNS,
}

_PATH_SCHEMAS: Mapping[str, Json] = {
    "name": TEXT,
    "id": {"type": "string", "format": "uuid"},
    "type": {"type": "string", "enum": list(TYPES)},
}

# Whatever is asked, this may be the answer.
_USUAL_PROBLEMS = (400, 401, 403)
_WITH_BODY = (408, 413, 415)


@cache
def build_openapi() -> Json:
    """The whole description. Callers must not change it."""
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gatewright",
            "version": version("gatewright"),
            "description": "Policies for AI workloads: what they are, and what they did.",
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": build_schemas(),
            "responses": {
                "Problem": {
                    "description": "It was not done; what is wrong, a line for each problem.",
                    "content": _json_of("Problem"),
                }
            },
        },
    }


def _describe(operation: Operation) -> Json:
    problems = [*_USUAL_PROBLEMS, *[code for code in operation.problems if code >= 400]]
    success: Json = {"description": operation.summary}
    if operation.answer is not None:
        success["content"] = _json_of(operation.answer)
    codes = [operation.status, *[code for code in operation.problems if code < 400]]
    described: Json = {
        "summary": operation.summary,
        "operationId": _operation_id(operation),
        "parameters": [*_path_parameters(operation), *_parameters(operation)],
        "responses": {str(code): success for code in codes},
    }
    if operation.body is not None:
        problems += _WITH_BODY
        described["requestBody"] = {"required": True, "content": _json_of(operation.body)}
    for code in (*problems, "default"):
        described["responses"][str(code)] = {"$ref": "#/components/responses/Problem"}
    return described


def _operation_id(operation: Operation) -> str:
    words = operation.path.replace("{", "by-").replace("}", "").replace(".", "-").split("/")
    return "-".join([operation.method, *[word for word in words if word]])


def _path_parameters(operation: Operation) -> list[Json]:
    found = []
    for name in ("name", "id", "type"):
        if f"{{{name}}}" in operation.path:
            schema = _PATH_SCHEMAS[name]
            found.append({"name": name, "in": "path", "required": True, "schema": schema})
    return found


def _parameters(operation: Operation) -> list[Json]:
    found = []
    for name in operation.parameters:
        described = {
            "name": name,
            "in": "header" if name in _CONDITIONS else "query",
            **_PARAMETERS[name],
        }
        if name == "sortBy":
            described["schema"] = {**TEXT, "enum": list(_COLUMNS[operation.path])}
        # A body may say it too; without one the query has to.
        if name == "scope" and operation.path == _NATIVE and operation.body is None:
            described["required"] = True
        found.append(described)
    return found


def _json_of(schema: str) -> Json:
    return {"application/json": {"schema": {"$ref": REFERENCE.format(model=schema)}}}
