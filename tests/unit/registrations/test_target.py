"""One registration: written only where it differs, put right, and nobody is fought with."""

from __future__ import annotations

import base64
import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from tests.builders import JsonObject
from webhook.errors import KubeError
from webhook.registrations.objects import (
    SeenConfiguration,
    decode_configuration,
    differences,
    missing_entries,
)
from webhook.registrations.target import REPAIR_PERIOD_S, REPAIRS_AT_ONCE, Target, Wanted
from webhook.registrations.wanted import PODS, WORKLOADS, Configuration, Filling
from webhook.telemetry.metrics import Metrics, ServerMetrics

NAME = "gatewright-admission"
PEM = b"-----BEGIN CERTIFICATE-----\n"
RULE = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
    "scope": "Namespaced",
}
FILLINGS = {
    WORKLOADS: Filling([RULE], {"gatewright.io/changes": "true"}),
    PODS: Filling([], {"gatewright.io/changes": "true"}),
}
WANTED = Wanted(FILLINGS, PEM)


class ApiServer:
    """One registration with the part of server-side apply that is asked for here."""

    def __init__(self) -> None:
        self.object: JsonObject | None = None
        self.version = 0
        self.fault: KubeError | None = None
        self.refuses: Callable[[JsonObject], KubeError | None] = lambda body: None
        self.calls = 0
        # Nobody can say so to this one.
        self.ignores = False

    def create(self, *entries: str) -> None:
        """As the chart renders it."""
        self.version += 1
        self.object = {
            "metadata": {
                "name": NAME,
                "uid": f"uid-{self.version}",
                "resourceVersion": str(self.version),
            },
            "webhooks": [
                {"name": name, "clientConfig": {"service": {"name": "gatewright"}}}
                for name in entries or (PODS, WORKLOADS)
            ],
        }

    def edit(self, entry: str, **parts: Any) -> None:
        """As an operator does."""
        assert self.object is not None
        self.object = copy.deepcopy(self.object)
        self.entry(entry).update(parts)
        self.version += 1
        self.object["metadata"]["resourceVersion"] = str(self.version)

    def entry(self, name: str) -> JsonObject:
        assert self.object is not None
        found: list[JsonObject] = [e for e in self.object["webhooks"] if e["name"] == name]
        return found[0]

    @property
    def seen(self) -> SeenConfiguration | None:
        return None if self.object is None else decode_configuration(orjson.dumps(self.object))

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "",
    ) -> bytes:
        self.calls += 1
        assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
        assert params == {"fieldManager": "gatewright", "force": "true"}
        if (fault := self.fault or self.refuses(body)) is not None:
            raise fault
        if self.object is None or any(
            body["metadata"][key] != self.object["metadata"][key]
            for key in ("uid", "resourceVersion")
        ):
            raise KubeError(409, "Conflict", "it has changed")
        if not self.ignores:
            for webhook in copy.deepcopy(body["webhooks"]):
                config = {**self.entry(webhook["name"])["clientConfig"], **webhook["clientConfig"]}
                self.edit(webhook["name"], **{**webhook, "clientConfig": config})
        return orjson.dumps(self.object)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    def __init__(self) -> None:
        self.api = ApiServer()
        self.clock = Clock()
        self.metrics = Metrics()
        self.target = Target(
            self.api,
            Configuration.VALIDATING,
            NAME,
            ServerMetrics(self.metrics),
            clock=self.clock,
        )

    async def keep(self, wanted: Wanted = WANTED) -> float | None:
        """Look once, and again for as long as that is asked for at once."""
        wait_s = await self.target.keep(self.api.seen, wanted)
        return await self.keep(wanted) if wait_s == 0 else wait_s

    def writes(self, outcome: str) -> float:
        labels = {"configuration": "validating", "outcome": outcome}
        name = "gatewright_registration_writes_total"
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def gauge(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"configuration": "validating"})


@pytest.fixture
def world() -> World:
    world = World()
    world.api.create()
    return world


async def test_what_the_chart_leaves_open_is_filled_in_once(world: World) -> None:
    for _ in range(3):
        assert await world.keep() is None

    assert world.api.calls == 1
    entry = world.api.entry(WORKLOADS)
    assert entry["rules"] == [RULE]
    assert entry["clientConfig"] == {
        "service": {"name": "gatewright"},
        "caBundle": base64.b64encode(PEM).decode(),
    }
    assert world.gauge("gatewright_registration_present") == 1
    assert world.gauge("gatewright_registration_checked_timestamp_seconds")


@pytest.mark.parametrize(
    ("entry", "edit"),
    [
        pytest.param(WORKLOADS, {"rules": []}, id="rules-removed"),
        pytest.param(PODS, {"rules": [RULE]}, id="rules-where-there-are-none"),
        pytest.param(WORKLOADS, {"rules": [{**RULE, "operations": ["*"]}]}, id="rules-widened"),
        pytest.param(WORKLOADS, {"clientConfig": {}}, id="bundle-taken-away"),
        pytest.param(PODS, {"clientConfig": {"caBundle": ""}}, id="bundle-emptied"),
        pytest.param(PODS, {"clientConfig": {"caBundle": "cnViYmlzaA=="}}, id="bundle-of-rubbish"),
        pytest.param(PODS, {"matchConditions": []}, id="conditions-removed"),
        pytest.param(
            WORKLOADS,
            {"matchConditions": [{"name": "gatewright.io/changes", "expression": "false"}]},
            id="condition-changed",
        ),
    ],
)
async def test_what_somebody_changed_is_put_right_with_one_write(
    world: World, entry: str, edit: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    await world.keep()
    world.api.edit(entry, **edit)

    assert await world.keep() is None

    assert (world.api.calls, world.writes("repaired")) == (2, 1)
    seen = world.api.seen
    assert seen is not None
    assert differences(seen, FILLINGS, PEM) == []
    assert "changed by somebody else" in caplog.text


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"failurePolicy": "Ignore"}, id="failure-policy"),
        pytest.param({"namespaceSelector": {}}, id="selector"),
        pytest.param({"timeoutSeconds": 10}, id="timeout"),
        pytest.param(
            {
                "matchConditions": [
                    {"name": "gatewright.io/changes", "expression": "true"},
                    {"name": "ours/no-nightly", "expression": "true"},
                ]
            },
            id="a-condition-of-their-own",
        ),
    ],
)
async def test_what_is_not_ours_stays_as_somebody_wants_it(world: World, edit: JsonObject) -> None:
    await world.keep()
    world.api.edit(WORKLOADS, **edit)

    await world.keep()

    assert world.api.calls == 1


async def test_a_bundle_that_we_do_not_know_stays_as_it_is(world: World) -> None:
    """cert-manager's injector may have written it."""
    world.api.edit(PODS, clientConfig={"caBundle": "b3RoZXI="})
    await world.keep(Wanted({PODS: FILLINGS[PODS]}, PEM))
    world.api.calls = 0
    seen = world.api.seen
    assert seen is not None

    assert differences(seen, {PODS: FILLINGS[PODS]}, None) == []


async def test_what_is_wanted_anew_is_written_at_once_however_often(world: World) -> None:
    for number in range(3 * REPAIRS_AT_ONCE):
        rule = {**RULE, "resources": [f"kind{number}"]}
        assert await world.keep(Wanted({WORKLOADS: Filling([rule], {})}, PEM)) is None

    assert world.writes("written") == 3 * REPAIRS_AT_ONCE
    assert world.writes("repaired") == 0


async def test_whoever_writes_again_and_again_is_answered_less_often_and_told_of(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.keep()
    for _ in range(600):  # Ten minutes of one write a second.
        world.api.edit(WORKLOADS, rules=[])
        await world.keep()
        world.clock.now += 1.0

    assert world.writes("repaired") <= REPAIRS_AT_ONCE + 600 / REPAIR_PERIOD_S
    assert world.gauge("gatewright_registration_contested") == 1
    assert caplog.text.count("keeps changing the registration") == 1


async def test_after_a_quiet_minute_it_is_put_right_at_once_again(world: World) -> None:
    await world.keep()
    for _ in range(REPAIRS_AT_ONCE + 1):
        world.api.edit(WORKLOADS, rules=[])
        wait_s = await world.keep()
    assert wait_s is not None
    assert wait_s > 1.0

    world.clock.now += 61.0
    assert await world.keep() is None
    assert world.gauge("gatewright_registration_contested") == 0


async def test_one_that_is_not_there_is_said_and_not_made(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.api.object = None
    for _ in range(3):
        assert await world.keep() is None

    assert world.api.calls == 0
    assert caplog.text.count("the registration is not there") == 1
    assert world.gauge("gatewright_registration_present") == 0


async def test_one_that_was_deleted_meanwhile_is_not_brought_back(world: World) -> None:
    seen = world.api.seen
    world.api.object = None

    assert await world.target.keep(seen, WANTED) is not None

    assert world.api.seen is None
    assert world.writes("conflict") == 1


async def test_one_that_is_made_again_is_filled_in_and_that_is_no_repair(world: World) -> None:
    await world.keep()
    world.api.create()
    await world.keep()

    assert (world.writes("written"), world.writes("repaired")) == (2, 0)


async def test_entries_that_the_chart_does_not_have_are_not_made(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.api.create(WORKLOADS, "somebody.else.io")
    for _ in range(3):
        await world.keep()

    assert world.api.calls == 1
    seen = world.api.seen
    assert seen is not None
    assert seen.entries.keys() == {WORKLOADS, "somebody.else.io"}
    assert missing_entries(seen, FILLINGS) == [PODS]
    assert caplog.text.count("lacks entries") == 1


async def test_a_write_that_changes_nothing_is_not_repeated(world: World) -> None:
    world.api.ignores = True
    for _ in range(5):
        await world.keep()

    assert world.api.calls == 1


BAD = {**RULE, "resources": ["*", "foos"]}


def refusing(part: str) -> Callable[[JsonObject], KubeError | None]:
    """An API server that stores nothing with *part* in it."""

    def fault(body: JsonObject) -> KubeError | None:
        is_in = part in orjson.dumps(body["webhooks"]).decode()
        return KubeError(422, "Invalid", f"{part} is not allowed") if is_in else None

    return fault


async def test_a_rule_that_the_api_server_refuses_keeps_no_other_from_being_written(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What is confirmed to be served goes on, and what is left out is named once."""
    await world.keep()
    world.api.refuses = refusing('"*"')
    other = {**RULE, "apiGroups": ["batch"], "resources": ["jobs"]}
    both = {WORKLOADS: Filling([other, BAD], {}), PODS: FILLINGS[PODS]}
    wanted = Wanted(both, PEM, {WORKLOADS: Filling([other], {}), PODS: FILLINGS[PODS]})

    for _ in range(20):
        assert await world.keep(wanted) is None
        world.clock.now += 10.0

    assert world.api.entry(WORKLOADS)["rules"] == [other]
    assert world.api.calls == 3
    assert caplog.text.count("doesn't take all") == 1
    assert caplog.records[-1].__dict__["resources"] == ["apps/v1/*", "apps/v1/foos"]

    # Nobody says when it would be taken.
    world.api.refuses = lambda body: None
    world.clock.now += 200.0
    assert await world.keep(wanted) is None
    assert world.api.entry(WORKLOADS)["rules"] == [other, BAD]


@pytest.mark.parametrize(
    "confirmed",
    [
        pytest.param(None, id="nothing-is-less"),
        pytest.param({WORKLOADS: Filling([BAD], {}), PODS: FILLINGS[PODS]}, id="less-is-refused"),
    ],
)
async def test_where_no_rule_is_taken_the_authority_is_written_and_rules_stay(
    world: World, confirmed: Mapping[str, Filling] | None
) -> None:
    await world.keep()
    world.api.refuses = refusing('"*"')
    renewed = b"-----BEGIN CERTIFICATE----- renewed\n"
    wanted = Wanted({WORKLOADS: Filling([BAD, RULE], {}), PODS: FILLINGS[PODS]}, renewed, confirmed)

    assert await world.keep(wanted) is None

    entry = world.api.entry(WORKLOADS)
    assert entry["rules"] == [RULE]
    assert entry["clientConfig"]["caBundle"] == base64.b64encode(renewed).decode()
    # Looked at again and again, it is left at that.
    calls = world.api.calls
    for _ in range(5):
        assert await world.keep(wanted) is None
    assert world.api.calls == calls


async def test_an_api_server_that_refuses_everything_is_asked_now_and_then(world: World) -> None:
    world.api.fault = KubeError(422, "Invalid", "no")
    for _ in range(40):
        wait_s = await world.keep()
        assert wait_s is not None
        assert wait_s >= 10.0
        world.clock.now += wait_s

    assert world.api.calls <= 44


async def test_a_right_that_we_lack_is_said_once_and_tried_again_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.api.fault = KubeError(403, "Forbidden", "no right to patch")
    for _ in range(3):
        wait_s = await world.keep()
        assert wait_s is not None
        assert wait_s >= 10.0
    assert caplog.text.count("can't be written") == 1

    world.api.fault = None
    assert await world.keep() is None


async def test_who_no_longer_leads_shows_nothing(world: World) -> None:
    await world.keep()
    world.target.end()

    for name in ("present", "contested", "checked_timestamp_seconds"):
        assert world.gauge(f"gatewright_registration_{name}") is None


async def test_whoever_wrote_what_is_ours_is_named(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await world.keep()
    assert world.api.object is not None
    world.api.edit(WORKLOADS, rules=[])
    world.api.object["metadata"]["managedFields"] = [
        {"manager": "helm", "fieldsV1": {"f:webhooks": {'k:{"name":"a"}': {"f:timeout": {}}}}},
        {
            "manager": "kubectl-edit",
            "fieldsV1": {"f:webhooks": {'k:{"name":"a"}': {"f:rules": {}}}},
        },
        {"manager": "gatewright", "fieldsV1": {"f:webhooks": {'k:{"name":"a"}': {"f:rules": {}}}}},
    ]
    seen = world.api.seen
    assert seen is not None
    await world.keep()

    assert seen.writers == ["kubectl-edit"]
