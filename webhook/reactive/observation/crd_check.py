"""
Does the API server know `scope.containers` of policies, as it is installed?

The CRDs of `rightsizing.kubex.ai` may be somebody else's, and older. One that does not know the
field drops it from whatever is applied, and a policy for one container would be one for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import orjson

from webhook.errors import KubeError
from webhook.model.pointer import lookup
from webhook.model.rightsizing.documents import POLICY_KINDS
from webhook.model.rightsizing.policies import GROUP, GROUP_VERSION

_PATH = f"/openapi/v3/apis/{GROUP_VERSION}"
_FIELD = ("properties", "spec", "properties", "scope", "properties", "containers")


class Lacking(NamedTuple):
    """
    The kinds of policies for which nothing may be evicted, with the reason.

    With *is_known* False that is so because it could not be found out.
    """

    reasons: Mapping[str, str]
    is_known: bool = True


class OpenApi(Protocol):
    """What is needed of a client of the API server."""

    async def request(self, method: str, path: str, *, timeout_s: float = 10.0) -> bytes:
        """The body of the answer to one call."""


async def fetch_lacking_kinds(client: OpenApi) -> Lacking:
    """Ask what is served, for which no right is needed beyond those of every account."""
    try:
        told = orjson.loads(await client.request("GET", _PATH, timeout_s=30.0))
    except (KubeError, orjson.JSONDecodeError) as error:
        reason = f"it is not known whether the CRD has scope.containers: {error}"[:300]
        return Lacking(dict.fromkeys(POLICY_KINDS, reason), is_known=False)
    return Lacking(lacking_kinds(told))


def lacking_kinds(openapi: Any) -> Mapping[str, str]:
    """The kinds whose schema in the document *openapi* lacks the field."""
    known: dict[str, bool] = {}
    schemas = lookup(openapi, ("components", "schemas"))
    for schema in (schemas if isinstance(schemas, dict) else {}).values():
        types = schema.get("x-kubernetes-group-version-kind") if isinstance(schema, dict) else None
        for each in types if isinstance(types, list) else []:
            if isinstance(each, dict) and each.get("group") == GROUP:
                known[str(each.get("kind"))] = lookup(schema, _FIELD) is not None
    return {
        kind: f"the CRD of {kind}, as it is installed, does not know scope.containers: a policy for"
        " some containers would be one for all, so nothing is evicted"
        for kind in POLICY_KINDS
        if known.get(kind) is False
    }
