"""The whole application with its API, on a directory of its own, spoken to over HTTP."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from aiohttp import hdrs
from aiohttp.test_utils import TestClient
from multidict import CIMultiDict

from tests.api.gate import GateServer
from tests.builders import make_snapshot
from webhook.api.app import build_app
from webhook.api.auth import TokenFile
from webhook.api.limits.bodies import BodyRoom
from webhook.api.rest_services import RestServices, ServedKinds
from webhook.api.services import Readiness, Services
from webhook.mapping.evaluator import JqWorker
from webhook.model.manifests import dump_yaml
from webhook.model.settings import EngineSettings
from webhook.store.directory import DirectoryStore
from webhook.store.snapshot import Current, Snapshot
from webhook.telemetry.metrics import Metrics

POLICIES = "/api/v1/policies"
FORMATTERS = f"{POLICIES}/formatters"
FIELD_GROUPS = f"{POLICIES}/field-groups"
MAPPINGS = f"{POLICIES}/mappings"
TRAININGS = "/api/v2/policy/trainings"

ADMIN, VIEWER, NOBODY = "admin-token", "viewer-token", "nobody-token"
TOKENS = f"""\
{ADMIN},adam,1,"gatewright:admins"
{VIEWER},vera,2,"gatewright:viewers,others"
{NOBODY},nick,3
"""

ACME = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}


@dataclass(frozen=True)
class Answer:
    """Status, headers and JSON body of one answer."""

    status: int
    headers: CIMultiDict[str]
    body: Any

    @property
    def details(self) -> str:
        """What a refusal says, line by line."""
        assert self.body.keys() == {"code", "message", "details"}, self.body
        assert self.body["code"] == self.status
        assert self.body["message"]
        return str(self.body["details"])


@cache
def _shipped() -> Snapshot:
    return make_snapshot()


class Api:
    """
    Use as `async with`. *documents* stand in the file `given.yaml`, as a person wrote them;
    *room* is for bodies of the API, *options* are those of `Services`.
    """

    def __init__(
        self,
        directory: Path,
        *documents: Any,
        served: ServedKinds | None = None,
        room: BodyRoom | None = None,
        **options: Any,
    ) -> None:
        self.policies = directory / "policies"
        self.policies.mkdir()
        if documents:
            (self.policies / "given.yaml").write_text(dump_yaml(documents))
        self.tokens = directory / "tokens.csv"
        self.tokens.write_text(TOKENS)
        self.current = Current()
        # What ships is compiled once for all tests.
        self.current.replace(_shipped())
        self._jq = JqWorker()
        self.store = DirectoryStore(
            self.policies,
            self.current,
            settings=EngineSettings(),
            check_query=lambda source, path: self._jq.check(source, path=path),
            # Nobody else writes here.
            pause=lambda _s: None,
        )
        access = TokenFile(self.tokens)
        self.rest = RestServices(
            self.store,
            access,
            access,
            replica="replica-1",
            served=served,
            bodies=BodyRoom() if room is None else room,
            check_query=lambda source, path: self._jq.check(source, path=path),
        )
        self.services = Services(
            self.current,
            Metrics(),
            Readiness(self.current, listening=True),
            self._jq,
            rest=self.rest,
            **options,
        )
        self.client = TestClient(GateServer(build_app(self.services)))

    async def __aenter__(self) -> Api:
        self.store.load()
        await self.client.server.start_server(access_log=None)
        await self.client.start_server()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.client.close()
        self.services.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = ADMIN,
        raw: bytes | None = None,
        **headers: str,
    ) -> Answer:
        """One request. *raw* is a body that is not made by us."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        if token is not None:
            named.setdefault(hdrs.AUTHORIZATION, f"Bearer {token}")
        if body is not None or raw is not None:
            named.setdefault(hdrs.CONTENT_TYPE, "application/json")
        data = orjson.dumps(body) if body is not None else raw
        answer = await self.client.session.request(
            method,
            self.client.make_url(path),
            # The client warns of large bodies that are not read from a file.
            data=io.BytesIO(data) if data is not None else None,
            headers=named,
        )
        text = await answer.read()
        return Answer(
            answer.status, CIMultiDict(answer.headers), orjson.loads(text) if text else None
        )

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.call("GET", path, **more)

    async def post(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.call("POST", path, body, **more)

    async def put(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.call("PUT", path, body, **more)

    async def patch(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.call("PATCH", path, body, **more)

    async def delete(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self.call("DELETE", path, body, **more)

    async def must(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The body of an answer that has to be a success."""
        answer = await self.call(method, path, body, **more)
        assert answer.status in (200, 201, 204), answer
        return answer.body
