"""
Callers and rights as the API server knows them: TokenReview and SubjectAccessReview.

A yes is remembered for seconds, so that a page of requests is not as many calls; a no never is:
whoever was just given a right has it.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import orjson

from webhook.errors import KubeError, StoreError
from webhook.model.access import Action, Caller
from webhook.model.kinds import POLICY_GROUP

log = logging.getLogger("gatewright.api")

_REMEMBERED_S = 5.0
_MAX_REMEMBERED = 1024

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  A path.
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_EVERYBODY = "system:authenticated"

_T = TypeVar("_T")


class Requester(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(self, method: str, path: str, *, body: Any = None) -> bytes: ...


class ClusterAccess:
    """Asks the API server; both an `Authenticator` and an `Authorizer`."""

    def __init__(self, client: Requester, *, now: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        # By a hash of the token: no token stays in memory.
        self._callers: _Recent[Caller] = _Recent(now)
        self._allowed: _Recent[bool] = _Recent(now)

    async def authenticate(self, token: str) -> Caller | None:
        """
        Whose *token* is; None if it is wrong or expired.

        Raises:
            KubeError: the API server did not say.
        """
        key = hashlib.sha256(token.encode()).digest()
        known = self._callers.get(key)
        if known is not None:
            return known
        status = await self._ask(
            _TOKEN_REVIEWS,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token},
            },
        )
        if status.get("authenticated") is not True:
            return None
        caller = _caller_of(status.get("user") or {})
        if not caller.name:
            return None
        self._callers.put(key, caller)
        return caller

    async def is_allowed(self, caller: Caller, action: Action, *, fresh: bool) -> bool:
        """
        Whether RBAC (or whatever authorizes there) lets *caller* do *action*.

        Raises:
            KubeError: the API server did not say.
        """
        spec = _access_of(caller, action)
        key = hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).digest()
        if not fresh and self._allowed.get(key):
            return True
        status = await self._ask(
            _ACCESS_REVIEWS,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": spec,
            },
        )
        allowed = status.get("allowed") is True and status.get("denied") is not True
        if allowed:
            self._allowed.put(key, True)
        else:
            self._allowed.forget(key)
        return allowed

    async def _ask(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._client.request("POST", path, body=review)
        except KubeError as error:
            # The caller is told nothing of it; most often we lack the right to ask.
            log.warning("access can't be asked", extra={"path": path, "reason": str(error)})
            raise
        try:
            status = orjson.loads(answer)["status"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            status = None
        if not isinstance(status, dict):
            # Neither yes nor no.
            raise StoreError("the API server did not say who calls and what he may do")
        return status


def _caller_of(user: Mapping[str, Any]) -> Caller:
    return Caller(
        name=str(user.get("username") or ""),
        uid=str(user.get("uid") or ""),
        groups=tuple([str(group) for group in user.get("groups") or ()]),
        extra={
            str(key): tuple([str(value) for value in values or ()])
            for key, values in (user.get("extra") or {}).items()
        },
    )


def _access_of(caller: Caller, action: Action) -> dict[str, Any]:
    """The `spec` of a SubjectAccessReview."""
    groups = list(caller.groups)
    if action.path:
        # To everybody in it Kubernetes gives `get` on `/api/*` (ClusterRole `system:discovery`).
        # That is meant for the paths of the API server, and ours are called the same.
        groups = [group for group in groups if group != _EVERYBODY]
    spec: dict[str, Any] = {
        "user": caller.name,
        "uid": caller.uid,
        "groups": groups,
        "extra": {key: list(values) for key, values in caller.extra.items()},
    }
    if action.path:
        spec["nonResourceAttributes"] = {"path": action.path, "verb": action.verb}
    else:
        spec["resourceAttributes"] = {
            "group": POLICY_GROUP,
            "resource": action.resource,
            "verb": action.verb,
            "name": action.name,
        }
    return spec


class _Recent(Generic[_T]):
    """What was found lately, up to a number and an age."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._found: OrderedDict[bytes, tuple[float, _T]] = OrderedDict()

    def get(self, key: bytes) -> _T | None:
        until, value = self._found.get(key, (0.0, None))
        return value if value is not None and self._now() < until else None

    def put(self, key: bytes, value: _T) -> None:
        self._found[key] = (self._now() + _REMEMBERED_S, value)
        self._found.move_to_end(key)
        if len(self._found) > _MAX_REMEMBERED:
            self._found.popitem(last=False)

    def forget(self, key: bytes) -> None:
        self._found.pop(key, None)
