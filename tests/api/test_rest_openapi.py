"""The API's description of itself: complete, and true."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.api.rest import ADMIN, Api
from webhook.api.rest.openapi import OPERATIONS, build_openapi

# For each operation, valid and invalid requests; so many that all of them take some seconds.
EXAMPLES = 2


class Server:
    """The application in a thread, so that a client that blocks can ask it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self.url = ""

    def __enter__(self) -> Server:
        self._thread.start()
        self._ready.wait(30)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(30)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._done = asyncio.Event()
        async with Api(self._directory) as api:
            self.url = str(api.client.make_url("")).rstrip("/")
            self._ready.set()
            await self._done.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture(scope="module")
def described() -> Mapping[str, Any]:
    """What the description says of each operation, by method and path."""
    from schemathesis import openapi

    found = openapi.from_dict(build_openapi()).get_all_operations()
    operations = [one.ok() for one in found]  # type: ignore[union-attr]  # Ours is valid.
    return {operation.label: operation for operation in operations}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(
    "operation", [f"{one.method.upper()} {one.path}" for one in OPERATIONS], ids=str
)
def test_answers_are_those_that_the_description_promises(
    server: Server, described: Mapping[str, Any], operation: str, mode: str
) -> None:
    """No 5xx, no status or body that isn't described, nothing that breaks the schema accepted."""
    # It takes a second to load: only where it is used.
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    @given(case=described[operation].as_strategy(generation_mode=GenerationMode(mode)))
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        answer = case.call(base_url=server.url, headers={"Authorization": f"Bearer {ADMIN}"})
        # What the schema allows may still be wrong: an expression, a reference, a contradiction.
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])

    ask()


async def test_every_route_is_described(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        answer = await api.must("GET", "/api/openapi.json")
        routes = {
            (route.method.lower(), route.resource.canonical)
            for route in api.client.app.router.routes()
            if route.resource is not None
            and route.resource.canonical.startswith("/api/")
            and route.method != "HEAD"
        }

    assert answer["openapi"].startswith("3.1")
    assert {(operation.method, operation.path) for operation in OPERATIONS} == routes
    assert {path: set(methods) for path, methods in answer["paths"].items()} == {
        path: {method for method, other in routes if other == path} for _, path in routes
    }


def test_every_operation_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "platform-teams.md").read_text()
    spans = {f"{one.method.upper()} {one.path}" for one in OPERATIONS}

    assert {span for span in spans if f"`{span}`" not in text} == set()


def test_every_reference_leads_somewhere() -> None:
    description = build_openapi()

    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for part in node.values():
                yield from references(part)
        elif isinstance(node, list):
            for part in node:
                yield from references(part)

    for reference in set(references(description)):
        target: Any = description
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
