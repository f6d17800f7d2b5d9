from __future__ import annotations

from typing import Any

import orjson
import pytest

from webhook.clients.access import ClusterAccess
from webhook.clients.discovery import Discovery
from webhook.errors import KubeError, StoreError
from webhook.model.access import Action, Caller

TOKEN = "hunter2-canary"
ADAM = Caller("adam", "1", ("staff",), {"scopes": ("a", "b")})
PATCH = Action("patch", resource="formatters", name="volumes")


class FakeApiServer:
    """Answers both reviews, and remembers what it was asked."""

    def __init__(self) -> None:
        self.tokens: dict[str, dict[str, Any]] = {
            TOKEN: {
                "username": "adam",
                "uid": "1",
                "groups": ["staff"],
                "extra": {"scopes": ["a", "b"]},
            }
        }
        self.allowed = True
        self.asked: list[tuple[str, Any]] = []
        self.answer: bytes | None = None

    async def request(self, method: str, path: str, *, body: Any = None) -> bytes:
        assert method == "POST"
        self.asked.append((path, body["spec"]))
        if self.answer is not None:
            return self.answer
        if body["kind"] == "TokenReview":
            user = self.tokens.get(body["spec"]["token"])
            status: dict[str, Any] = {"authenticated": user is not None, "user": user or {}}
        else:
            status = {"allowed": self.allowed}
        return orjson.dumps({**body, "status": status})


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_token_is_reviewed_and_its_owner_remembered_for_seconds() -> None:
    server, clock = FakeApiServer(), Clock()
    access = ClusterAccess(server, now=clock)

    assert await access.authenticate(TOKEN) == ADAM
    del server.tokens[TOKEN]
    assert await access.authenticate(TOKEN) == ADAM
    clock.now_s += 6
    assert await access.authenticate(TOKEN) is None


async def test_a_token_that_was_refused_is_asked_about_again() -> None:
    server = FakeApiServer()
    access = ClusterAccess(server)

    assert await access.authenticate("later") is None
    server.tokens["later"] = {"username": "eve"}
    assert await access.authenticate("later") == Caller("eve")


async def test_somebody_without_a_name_is_nobody() -> None:
    server = FakeApiServer()
    server.tokens["odd"] = {}

    assert await ClusterAccess(server).authenticate("odd") is None


async def test_rights_are_asked_for_the_caller_with_all_that_is_known_of_him() -> None:
    server = FakeApiServer()

    await ClusterAccess(server).is_allowed(ADAM, PATCH, fresh=True)
    await ClusterAccess(server).is_allowed(
        ADAM, Action("get", path="/api/v1/decisions"), fresh=False
    )

    caller = {
        "user": "adam",
        "uid": "1",
        "groups": ["staff"],
        "extra": {"scopes": ["a", "b"]},
    }
    resource = {
        "group": "policy.gatewright.io",
        "resource": "formatters",
        "verb": "patch",
        "name": "volumes",
    }
    path = {"path": "/api/v1/decisions", "verb": "get"}
    assert [spec for _, spec in server.asked] == [
        {**caller, "resourceAttributes": resource},
        {**caller, "nonResourceAttributes": path},
    ]


async def test_what_everybody_may_do_on_paths_of_the_api_server_is_no_right_on_ours() -> None:
    """`system:discovery` gives `get` on `/api/*` to all who are authenticated."""
    server = FakeApiServer()
    caller = Caller("adam", groups=("staff", "system:authenticated"))

    await ClusterAccess(server).is_allowed(
        caller, Action("get", path="/api/v1/decisions"), fresh=False
    )
    await ClusterAccess(server).is_allowed(caller, PATCH, fresh=True)

    assert [spec["groups"] for _, spec in server.asked] == [
        ["staff"],
        ["staff", "system:authenticated"],
    ]


async def test_a_yes_is_remembered_for_seconds_and_a_no_never() -> None:
    server, clock = FakeApiServer(), Clock()
    access = ClusterAccess(server, now=clock)
    server.allowed = False

    assert not await access.is_allowed(ADAM, PATCH, fresh=False)
    server.allowed = True
    assert await access.is_allowed(ADAM, PATCH, fresh=False)
    server.allowed = False
    assert await access.is_allowed(ADAM, PATCH, fresh=False)
    clock.now_s += 6
    assert not await access.is_allowed(ADAM, PATCH, fresh=False)


async def test_a_fresh_no_ends_what_was_remembered() -> None:
    server = FakeApiServer()
    access = ClusterAccess(server)
    assert await access.is_allowed(ADAM, PATCH, fresh=False)
    server.allowed = False

    assert not await access.is_allowed(ADAM, PATCH, fresh=True)
    assert not await access.is_allowed(ADAM, PATCH, fresh=False)


async def test_one_right_says_nothing_of_another() -> None:
    server = FakeApiServer()
    access = ClusterAccess(server)
    assert await access.is_allowed(ADAM, PATCH, fresh=False)
    server.allowed = False

    other = Action("patch", resource="formatters", name="others")
    assert not await access.is_allowed(ADAM, other, fresh=False)
    assert not await access.is_allowed(Caller("adam", "2"), PATCH, fresh=False)


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"status": null}'])
async def test_an_answer_that_says_nothing_is_neither_yes_nor_no(answer: bytes) -> None:
    server = FakeApiServer()
    server.answer = answer
    access = ClusterAccess(server)

    with pytest.raises(StoreError):
        await access.authenticate(TOKEN)
    with pytest.raises(StoreError):
        await access.is_allowed(ADAM, PATCH, fresh=True)


async def test_no_token_is_kept() -> None:
    access = ClusterAccess(FakeApiServer())
    await access.authenticate(TOKEN)

    assert TOKEN not in str(vars(access._callers))


class FakeDiscovery:
    def __init__(self) -> None:
        self.paths: dict[str, Any] = {
            "/api": {"versions": ["v1"]},
            "/api/v1": {"resources": [{"name": "pods", "kind": "Pod"}]},
            "/apis/acme.io": {"versions": [{"version": "v2"}, {"version": "v1"}]},
            "/apis/acme.io/v1": {
                "resources": [
                    {"name": "acmejobs", "kind": "AcmeJob"},
                    {"name": "acmejobs/scale", "kind": "Scale"},
                ]
            },
            "/apis/acme.io/v2": {"resources": [{"name": "acmejobs", "kind": "AcmeJob"}]},
        }

    async def request(self, method: str, path: str) -> bytes:
        assert method == "GET"
        if path not in self.paths:
            raise KubeError(404, "NotFound", "the server could not find the requested resource")
        return orjson.dumps(self.paths[path])


@pytest.mark.parametrize(
    ("group", "kind", "want"),
    [
        pytest.param("", "Pod", ["v1"], id="core"),
        pytest.param("acme.io", "AcmeJob", ["v2", "v1"], id="two-versions"),
        pytest.param("acme.io", "Scale", [], id="subresources-are-no-kinds"),
        pytest.param("acme.io", "Other", [], id="no-such-kind"),
        pytest.param("other.io", "AcmeJob", [], id="no-such-group"),
    ],
)
async def test_the_versions_of_a_kind_are_those_that_serve_it(
    group: str, kind: str, want: list[str]
) -> None:
    kinds = await Discovery(FakeDiscovery()).kinds_of(group)

    assert kinds.get(kind, []) == want
