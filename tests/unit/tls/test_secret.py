"""Keeping a Secret, under faults that a real API server can't be made to show when needed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.tls.damage import DAMAGES, twin_of
from tests.unit.tls.secrets import Secrets, become
from webhook.errors import CertificateError, KubeError
from webhook.telemetry.metrics import Metrics
from webhook.tls.held import read_held
from webhook.tls.issue import Issued, make_ca, make_leaf
from webhook.tls.rotation import Lifetimes
from webhook.tls.secret import LABELS, SecretKeeper, ServedPair

HOSTS = ("gatewright.gatewright.svc", "localhost")
LIFETIMES = Lifetimes(timedelta(minutes=10), timedelta(hours=1))
POLL_S = 0.05
# Time for several looks.
A_WHILE_S = 10 * POLL_S
OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gatewright", "uid": "u"}


class Replica:
    def __init__(self, secrets: Secrets) -> None:
        self.metrics = Metrics()
        self.pairs: list[ServedPair] = []
        self.fault = ""
        self.ahead = timedelta()
        self.keeper = SecretKeeper(
            secrets,
            namespace="gatewright",
            name="certs",
            hosts=HOSTS,
            lifetimes=LIFETIMES,
            take=self.take,
            metrics=self.metrics,
            owner=self.owner,
            poll_s=POLL_S,
            clock=lambda: datetime.now(UTC) + self.ahead,
        )

    def take(self, pair: ServedPair) -> None:
        if self.fault:
            raise CertificateError(self.fault)
        self.pairs.append(pair)

    async def owner(self) -> dict[str, Any]:
        return OWNER

    @property
    def certificate(self) -> bytes:
        return self.pairs[-1].certificate_pem if self.pairs else b""

    @property
    def failures(self) -> float:
        return (
            self.metrics.registry.get_sample_value("gatewright_certificate_reload_failures_total")
            or 0.0
        )


@contextlib.asynccontextmanager
async def running(*replicas: Replica) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(replica.keeper.run()) for replica in replicas]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results), results


async def start(replica: Replica) -> None:
    async with asyncio.timeout(10):
        await replica.keeper.first()


async def test_replicas_that_start_together_make_one_authority() -> None:
    secrets = Secrets()
    replicas = [Replica(secrets) for _ in range(3)]
    async with running(*replicas):
        await asyncio.gather(*map(start, replicas))

    assert secrets.writes == ["POST"]
    assert {replica.certificate for replica in replicas} == {secrets.data["tls.crt"]}
    assert {replica.keeper.bundle.pem for replica in replicas} == {secrets.data["ca.crt"]}
    assert {replica.keeper.obstacle for replica in replicas} == {""}


async def test_a_secret_that_is_made_is_ours_and_goes_with_our_deployment() -> None:
    secrets = Secrets()
    replica = Replica(secrets)
    async with running(replica):
        await start(replica)

    assert secrets.secret is not None
    assert secrets.secret["type"] == "kubernetes.io/tls"
    assert secrets.secret["metadata"]["labels"] == LABELS
    assert secrets.secret["metadata"]["ownerReferences"] == [OWNER]
    assert set(secrets.data) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


@pytest.mark.slow
async def test_a_secret_that_is_deleted_is_written_again_with_what_is_served() -> None:
    """Callers need not be told anything."""
    secrets = Secrets()
    replicas = [Replica(secrets) for _ in range(3)]
    async with running(*replicas):
        await asyncio.gather(*map(start, replicas))
        before = secrets.data
        secrets.secret = None
        await become(lambda: secrets.secret is not None)
        await asyncio.sleep(A_WHILE_S)

    assert secrets.data == before
    assert secrets.writes == ["POST", "POST"]
    assert [len(replica.pairs) for replica in replicas] == [1, 1, 1]


async def test_who_starts_later_takes_what_is_there() -> None:
    secrets = Secrets()
    first, second = Replica(secrets), Replica(secrets)
    async with running(first):
        await start(first)
        async with running(second):
            await start(second)

    assert second.certificate == first.certificate
    assert secrets.writes == ["POST"]


@pytest.mark.slow
async def test_one_replica_renews_and_all_follow_within_seconds() -> None:
    secrets = Secrets()
    replicas = [Replica(secrets) for _ in range(3)]
    async with running(*replicas):
        await asyncio.gather(*map(start, replicas))
        first = secrets.data["tls.crt"]
        for replica in replicas:
            replica.ahead = timedelta(minutes=7)
        await become(lambda: secrets.data["tls.crt"] != first)
        await become(
            lambda: {replica.certificate for replica in replicas} == {secrets.data["tls.crt"]}
        )
        await asyncio.sleep(A_WHILE_S)

    assert secrets.writes == ["POST", "PUT"]
    assert {replica.keeper.bundle.pem for replica in replicas} == {secrets.data["ca.crt"]}


async def test_who_follows_the_bundle_is_told_of_a_new_authority() -> None:
    secrets = Secrets()
    replica = Replica(secrets)
    seen: list[bytes | None] = []
    replica.keeper.bundle.on_change(lambda: seen.append(replica.keeper.bundle.pem))
    async with running(replica):
        await start(replica)
        replica.ahead = timedelta(minutes=41)
        await become(lambda: len(seen) == 2)

    old, new = (read_held({"ca.crt": pem or b""}, datetime.now(UTC)).authorities for pem in seen)
    assert set(old) < set(new)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"tls_key": b"x"}, "tls.key holds no private key", id="key"),
        pytest.param({"tls_crt": b""}, "tls.crt is missing", id="certificate"),
        pytest.param({"ca_crt": b"x", "ca_key": b"x"}, "ca.crt holds no certificate", id="ca"),
    ],
)
async def test_a_broken_secret_of_ours_is_said_once_and_written_again_with_what_is_served(
    change: dict[str, bytes], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = Secrets()
    replicas = [Replica(secrets) for _ in range(2)]
    async with running(*replicas):
        await asyncio.gather(*map(start, replicas))
        before = secrets.data
        secrets.put(LABELS, **change)
        await become(lambda: secrets.data == before)
        await asyncio.sleep(A_WHILE_S)

    assert [len(replica.pairs) for replica in replicas] == [1, 1]
    assert secrets.writes == ["POST", "PUT"]
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert 1 <= len(said) <= 2
    assert all(problem in text and "the one in use stays" in text for text in said)
    assert sum(replica.failures for replica in replicas) == len(said)


async def test_a_secret_that_was_broken_before_the_start_is_mended() -> None:
    secrets = Secrets()
    secrets.put(LABELS, tls_crt=b"x", tls_key=b"x")
    replica = Replica(secrets)
    async with running(replica):
        await start(replica)

    assert secrets.writes == ["PUT"]
    assert read_held(secrets.data, datetime.now(UTC)).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_served", [True, False], ids=["while-serving", "before-the-start"])
async def test_a_certificate_at_which_the_library_fails_is_a_broken_one(
    damage: Callable[[Issued, Issued], Issued], is_served: bool
) -> None:
    secrets = Secrets()
    ca = make_ca()
    good = make_leaf(ca, HOSTS)
    bad = damage(make_leaf(ca, HOSTS), ca)
    replica = Replica(secrets)
    first, then = (good, bad) if is_served else (bad, bad)
    put(secrets, ca, first)
    async with running(replica):
        if is_served:
            await start(replica)
        put(secrets, ca, then)
        await become(lambda: secrets.data["tls.crt"] != bad.certificate_pem)
        await start(replica)

    if is_served:
        assert secrets.data["tls.crt"] == good.certificate_pem
    assert secrets.data["ca.key"] == ca.key_pem
    assert replica.certificate == secrets.data["tls.crt"]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_broken_authority_beside_a_good_one_is_taken_out(
    damage: Callable[[Issued, Issued], Issued],
) -> None:
    secrets = Secrets()
    ca, other = make_ca(), make_ca("other")
    leaf = make_leaf(ca, HOSTS)
    broken = damage(other, other).certificate_pem
    put(secrets, ca, leaf)
    secrets.put(LABELS, ca_crt=broken + ca.certificate_pem)
    replica = Replica(secrets)
    async with running(replica):
        await start(replica)
        await become(lambda: secrets.data["ca.crt"] == ca.certificate_pem)

    assert replica.certificate == leaf.certificate_pem == secrets.data["tls.crt"]


async def test_of_many_authorities_of_one_key_only_some_are_kept() -> None:
    secrets = Secrets()
    ca = make_ca()
    twins = [ca, *[twin_of(ca) for _ in range(6)]]
    put(secrets, ca, make_leaf(ca, HOSTS))
    secrets.put(LABELS, ca_crt=b"".join(twin.certificate_pem for twin in twins))
    replica = Replica(secrets)
    async with running(replica):
        await start(replica)
        await become(lambda: secrets.data["ca.crt"].count(b"BEGIN") == 5)

    assert replica.failures == 0


@pytest.mark.slow
async def test_a_good_certificate_is_kept_while_the_next_one_has_not_begun() -> None:
    """Whoever made that has a clock that is ahead, and callers go by theirs."""
    secrets = Secrets()
    ca = make_ca()
    begun = make_leaf(ca, HOSTS)
    later = make_leaf(ca, HOSTS, now=datetime.now(UTC) + timedelta(hours=3))
    put(secrets, ca, begun)
    replica = Replica(secrets)
    async with running(replica):
        await start(replica)
        put(secrets, ca, later)
        await asyncio.sleep(A_WHILE_S)
        assert replica.certificate == begun.certificate_pem
        replica.ahead = timedelta(hours=2, minutes=1)
        await become(lambda: replica.certificate == later.certificate_pem)

    assert secrets.data["tls.crt"] == later.certificate_pem


@pytest.mark.slow
async def test_a_new_authority_signs_only_when_whoever_signs_has_known_it_for_long_enough() -> None:
    """A clock that is ahead takes one that was made just now for one that callers know."""
    secrets = Secrets()
    right = Replica(secrets)
    async with running(right):
        await start(right)
        right.ahead = timedelta(minutes=41)
        await become(lambda: secrets.data["ca.crt"].count(b"BEGIN") == 2)
        right.keeper.stop_writing()
        served = secrets.data["tls.crt"]
        wrong = Replica(secrets)
        # The tenth of an hour that new authorities wait, and a bit.
        wrong.ahead = right.ahead + timedelta(minutes=3)
        async with running(wrong):
            await start(wrong)
            await asyncio.sleep(A_WHILE_S)

    assert secrets.data["tls.crt"] == served


def put(secrets: Secrets, ca: Issued, leaf: Issued) -> None:
    """As somebody with kubectl, into a Secret of ours."""
    secrets.put(
        LABELS,
        ca_crt=ca.certificate_pem,
        ca_key=ca.key_pem,
        tls_crt=leaf.certificate_pem,
        tls_key=leaf.key_pem,
    )


@pytest.mark.slow
async def test_a_secret_of_somebody_else_is_never_written(caplog: pytest.LogCaptureFixture) -> None:
    secrets = Secrets()
    secrets.put({"app": "other"}, tls_crt=b"x", tls_key=b"x")
    before = secrets.secret
    replica = Replica(secrets)
    async with running(replica):
        await become(lambda: "is not ours" in replica.keeper.obstacle)
        await asyncio.sleep(A_WHILE_S)

    assert secrets.secret == before
    assert replica.pairs == []
    assert "delete it, or name another one" in replica.keeper.obstacle
    assert caplog.text.count("is not ours") == 1


async def test_a_usable_secret_of_somebody_else_is_followed() -> None:
    secrets = Secrets()
    replica = Replica(secrets)
    ca = make_ca()
    leaves = [make_leaf(ca, HOSTS) for _ in range(2)]
    async with running(replica):
        for leaf in leaves:
            secrets.put(
                {},
                ca_crt=ca.certificate_pem,
                tls_crt=leaf.certificate_pem,
                tls_key=leaf.key_pem,
            )
            await become(lambda leaf=leaf: replica.certificate == leaf.certificate_pem)  # type: ignore[misc]
        secrets.secret = None
        await become(lambda: secrets.secret is not None)

    # It was not ours to bring back; what is there now is.
    assert secrets.data["tls.crt"] != leaves[1].certificate_pem
    assert replica.keeper.bundle.pem == secrets.data["ca.crt"]


@pytest.mark.slow
async def test_without_the_api_server_nothing_is_served_and_that_is_said() -> None:
    secrets = Secrets()
    secrets.fault = KubeError(0, "Unreachable", "nobody there")
    replica = Replica(secrets)
    async with running(replica):
        await become(lambda: "nobody there" in replica.keeper.obstacle)
        assert replica.pairs == []
        secrets.fault = None
        await start(replica)

    assert replica.keeper.obstacle == ""


@pytest.mark.slow
async def test_what_is_served_stays_while_the_api_server_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secrets = Secrets()
    replica = Replica(secrets)
    async with running(replica):
        await start(replica)
        secrets.fault = KubeError(403, "Forbidden", "not any more")
        await become(lambda: "not any more" in caplog.text)
        await asyncio.sleep(A_WHILE_S)
        assert (len(replica.pairs), replica.keeper.obstacle) == (1, "")
        secrets.fault = None
        with caplog.at_level(logging.INFO):
            await become(lambda: "as it should be again" in caplog.text)

    assert caplog.text.count("not any more") == 1


@pytest.mark.slow
async def test_who_is_about_to_end_brings_nothing_back() -> None:
    secrets = Secrets()
    replica = Replica(secrets)
    async with running(replica):
        await start(replica)
        replica.keeper.stop_writing()
        secrets.secret = None
        await asyncio.sleep(A_WHILE_S)

    assert secrets.secret is None


async def test_a_pair_that_can_not_be_taken_is_counted_and_tried_again() -> None:
    secrets = Secrets()
    replica = Replica(secrets)
    replica.fault = "the disk is full"
    async with running(replica):
        await become(lambda: "the disk is full" in replica.keeper.obstacle)
        assert replica.failures == 1
        replica.fault = ""
        await start(replica)

    assert len(replica.pairs) == 1
