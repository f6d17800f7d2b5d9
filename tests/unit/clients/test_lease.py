"""Elections under faults that a real API server can't be made to show at the right moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from webhook.clients.lease import LeaderElector, LeaseTiming
from webhook.errors import KubeError

FAST = LeaseTiming(duration=0.5, renew_deadline=0.3, retry=0.02)


SPEC_FIELDS = {
    "holderIdentity",
    "leaseDurationSeconds",
    "leaseTransitions",
    "acquireTime",
    "renewTime",
}


class Leases:
    """One Lease with optimistic concurrency, as an API server keeps it, and its faults."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.fault: KubeError | None = None
        self.hangs = False
        # The spec that is stored has to be one, as the API server checks it.
        self.checks = False
        # Instead of the answer to a call of this method, which is carried out all the same.
        self.answers: dict[str, bytes] = {}

    @property
    def holder(self) -> str:
        return "" if self.lease is None else self.spec["holderIdentity"]

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    async def request(
        self, method: str, path: str, *, body: Any = None, timeout_s: float = 10.0
    ) -> bytes:
        await asyncio.sleep(0)
        if self.hangs:
            await asyncio.sleep(timeout_s)
            raise KubeError(0, "Timeout", "no whole answer")
        if self.fault is not None:
            raise self.fault
        answer = self._answer(method, body)
        return self.answers.get(method, answer)

    def _answer(self, method: str, body: Any) -> bytes:
        if method == "GET":
            if self.lease is None:
                raise KubeError(404, "NotFound", "no lease")
            return orjson.dumps(self.lease)
        is_new = method == "POST"
        if is_new != (self.lease is None) or (
            not is_new and body["metadata"]["resourceVersion"] != str(self.version)
        ):
            raise KubeError(409, "Conflict", "somebody else was faster")
        if self.checks and set(body["spec"]) - SPEC_FIELDS:
            raise KubeError(422, "Invalid", "spec.strategy: may not be set")
        number = body["spec"].get("leaseTransitions", 0)
        if not isinstance(number, int) or not 0 <= number < 2**31:
            raise KubeError(400, "BadRequest", f"json: cannot unmarshal {number}")
        self.version += 1
        self.lease = orjson.loads(orjson.dumps(body))
        assert self.lease is not None
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return orjson.dumps(self.lease)


async def become(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


class Replica:
    def __init__(
        self, leases: Leases, name: str, timing: LeaseTiming = FAST, purpose: str = ""
    ) -> None:
        self.elector = LeaderElector(
            leases,
            namespace="gatewright",
            name="gatewright",
            identity=name,
            timing=timing,
            purpose=purpose,
        )
        self.terms = 0
        self.works = False

    async def lead(self) -> None:
        self.terms += 1
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    async def until(self, works: bool, within_s: float = 5.0) -> None:
        await become(lambda: self.works is works, within_s)


@contextlib.asynccontextmanager
async def taking_part(replica: Replica) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(replica.elector.run(replica.lead))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.slow
async def test_one_of_two_leads_and_the_other_follows_at_once_when_it_leaves() -> None:
    leases = Leases()
    first, second = Replica(leases, "a"), Replica(leases, "b")
    async with taking_part(first) as task:
        await first.until(works=True)
        async with taking_part(second):
            await asyncio.sleep(1.0)
            assert (first.works, second.works) == (True, False)
            assert (first.elector.leads, second.elector.leads) == (True, False)

            task.cancel()
            # It was given up: nobody waits until it runs out.
            await second.until(works=True, within_s=0.4)
            assert not first.works
            assert leases.spec["leaseTransitions"] == 1
    assert leases.holder == ""


@pytest.mark.slow
async def test_a_leader_that_can_not_renew_stops_before_another_may_begin() -> None:
    leases = Leases()
    first, second = Replica(leases, "a"), Replica(leases, "b")
    async with taking_part(first):
        await first.until(works=True)
        leases.fault = KubeError(503, "ServiceUnavailable", "away")
        await first.until(works=False)
        async with taking_part(second):
            leases.fault = None
            # Both may try now: one gets it.
            await become(lambda: first.works or second.works)
            await asyncio.sleep(0.6)
            assert first.works is not second.works


@pytest.mark.slow
async def test_a_call_that_hangs_does_not_keep_a_leader_leading() -> None:
    leases = Leases()
    replica = Replica(leases, "a")
    async with taking_part(replica):
        await replica.until(works=True)
        leases.hangs = True
        await replica.until(works=False, within_s=1.0)
        leases.hangs = False
        await replica.until(works=True)
        assert replica.terms == 2


@pytest.mark.slow
async def test_what_another_replica_says_about_the_time_counts_for_nothing() -> None:
    leases = Leases()
    first, second = Replica(leases, "a"), Replica(leases, "b")
    async with taking_part(first):
        await first.until(works=True)
        async with taking_part(second):
            for renewed in ("1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", "?"):
                leases.spec["renewTime"] = renewed
                await asyncio.sleep(0.3)
                assert (first.works, second.works) == (True, False)


@pytest.mark.slow
async def test_a_lease_of_a_replica_that_is_gone_is_taken_when_it_has_run_out() -> None:
    leases = Leases()
    leases.version = 1
    leases.lease = {
        "kind": "Lease",
        "metadata": {"resourceVersion": "1"},
        "spec": {"holderIdentity": "gone", "renewTime": "x", "leaseTransitions": None},
    }
    replica = Replica(leases, "b")
    async with taking_part(replica):
        await asyncio.sleep(FAST.duration * 0.8)
        assert not replica.works
        await replica.until(works=True)


async def test_a_lease_that_is_deleted_or_taken_away_ends_or_renews_a_term() -> None:
    leases = Leases()
    replica = Replica(leases, "a")
    async with taking_part(replica):
        await replica.until(works=True)
        leases.lease = None
        await become(lambda: leases.holder == "a")
        assert replica.works

        leases.spec["holderIdentity"] = "thief"
        await replica.until(works=False)


NO_LEASES = [
    pytest.param(b"<html>Sign in</html>", id="page-of-a-proxy"),
    pytest.param(b"", id="nothing"),
    pytest.param(b"[" * 100_000, id="too-deep"),
    pytest.param(b"[]", id="no-object"),
    pytest.param(b"null", id="null"),
    pytest.param(b"{}", id="object-of-no-kind"),
    pytest.param(b'{"kind": "Status"}', id="status"),
    pytest.param(b'{"kind": "Lease", "spec": ["a"]}', id="spec-that-is-no-map"),
]


@pytest.mark.slow
@pytest.mark.parametrize("answer", NO_LEASES)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_answer_that_is_no_lease_is_said_and_asked_for_again(
    method: str, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    leases = Leases()
    leases.answers[method] = answer
    if method == "GET":
        # Another one than 404, after which it would be made.
        leases.lease = {"kind": "Lease", "metadata": {"resourceVersion": "0"}, "spec": {}}
    replica = Replica(leases, "a")
    async with taking_part(replica):
        await become(lambda: "the lease can't be read or written" in caplog.text)
        leases.answers.clear()
        await replica.until(works=True)


@pytest.mark.slow
@pytest.mark.parametrize("answer", NO_LEASES)
async def test_a_leader_whose_lease_can_not_be_read_stops_in_time(answer: bytes) -> None:
    leases = Leases()
    replica = Replica(leases, "a")
    async with taking_part(replica):
        await replica.until(works=True)
        leases.answers["GET"] = answer
        await replica.until(works=False)
        leases.answers.clear()
        await replica.until(works=True)


async def test_a_fault_of_the_leader_is_told_and_the_lease_given_up() -> None:
    leases = Leases()
    replica = Replica(leases, "a")

    async def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await replica.elector.run(fail)
    assert not replica.elector.leads
    assert leases.holder == ""


async def test_a_right_that_is_lacking_is_said_once_and_counted_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leases = Leases()
    leases.fault = KubeError(403, "Forbidden", "no right to leases")
    failures: list[int] = []
    elector = LeaderElector(
        leases,
        namespace="gatewright",
        name="gatewright",
        identity="a",
        timing=FAST,
        on_failure=lambda: failures.append(1),
    )
    task = asyncio.create_task(elector.run(Replica(leases, "a").lead))
    try:
        await become(lambda: len(failures) > 3)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert caplog.text.count("can't be read or written") == 1


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        pytest.param({"leaseTransitions": 2**31 - 1}, 0, id="the-largest-number"),
        pytest.param({"leaseTransitions": 2**63}, 0, id="too-large"),
        pytest.param({"leaseTransitions": -5}, 0, id="negative"),
        pytest.param({"leaseTransitions": "many"}, 0, id="text"),
        pytest.param({"leaseTransitions": True}, 0, id="true"),
        pytest.param({"leaseTransitions": 7}, 8, id="as-it-should-be"),
        pytest.param({"holderIdentity": None, "renewTime": 5}, 0, id="nulls-and-numbers"),
        pytest.param({}, 0, id="empty"),
        pytest.param(None, 0, id="null"),
    ],
)
async def test_a_lease_that_somebody_edited_is_taken_all_the_same(spec: Any, number: int) -> None:
    leases = Leases()
    leases.lease = {"kind": "Lease", "metadata": {"resourceVersion": "0"}, "spec": spec}
    replica = Replica(leases, "a")
    async with taking_part(replica):
        await replica.until(works=True)

        assert leases.holder == "a"
        assert leases.spec["leaseTransitions"] == number


async def test_what_keeps_a_lease_from_being_written_is_taken_off() -> None:
    leases = Leases()
    leases.checks = True
    leases.lease = {
        "kind": "Lease",
        "metadata": {"resourceVersion": "0"},
        "spec": {"holderIdentity": "", "preferredHolder": "nobody"},
    }
    replica = Replica(leases, "a")
    async with taking_part(replica):
        await replica.until(works=True)

        assert set(leases.spec) == SPEC_FIELDS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("purpose", "times"),
    [
        pytest.param("ours", 0, id="the-same"),
        pytest.param("another", 1, id="another-release"),
        pytest.param("", 0, id="none"),
    ],
)
async def test_who_shares_a_lease_with_another_release_is_told_once(
    purpose: str, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    leases = Leases()
    leader = Replica(leases, "a", purpose="ours")
    follower = Replica(leases, "b", purpose=purpose)
    async with taking_part(leader):
        await leader.until(works=True)
        async with taking_part(follower):
            before = leases.version
            await become(lambda: leases.version > before + 2)

    assert caplog.text.count("the leader is of another release") == times


async def test_annotations_of_others_stay() -> None:
    leases = Leases()
    leases.lease = {
        "kind": "Lease",
        "metadata": {"resourceVersion": "0", "annotations": {"acme.io/note": "x"}},
        "spec": {},
    }
    replica = Replica(leases, "a", purpose="ours")
    async with taking_part(replica):
        await replica.until(works=True)

    annotations = leases.lease["metadata"]["annotations"]
    assert annotations == {"acme.io/note": "x", "gatewright.io/leads-for": "ours"}
