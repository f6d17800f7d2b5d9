"""Mappings of kinds that the API server does not serve: who finds out, and what is said."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from tests.builders import JsonObject
from tests.jq import make_group, make_mapping
from webhook.errors import KubeError
from webhook.model.settings import EngineSettings
from webhook.store.changes import Titled, check_change
from webhook.store.compile.inputs import SourceFile, Surroundings
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.conditions import conditions_of
from webhook.store.served import KindVersions, ServedGroups
from webhook.store.snapshot import DocumentProblem, Door, ProblemReason

Served = Mapping[str, KindVersions]

SOON_S = 5.0


def files_of(*documents: JsonObject, served: Served | None = None) -> list[SourceFile]:
    titles = [f"{document['kind']} {document['metadata']['name']}" for document in documents]
    around = [SourceFile("cluster", surroundings=Surroundings({}, {}, served or {}))]
    return around + [
        SourceFile(title, (Titled(title, 0, 1, document),))
        for title, document in zip(titles, documents, strict=True)
    ]


def mapping_of(version: str = "v2", kind: str = "AcmeJob", group: str = "acme.io") -> JsonObject:
    mapping = make_mapping(".spec")
    mapping["spec"]["workloadType"] = {"group": group, "version": version, "kind": kind}
    return mapping


def problems_of(mapping: JsonObject, served: Served) -> Sequence[DocumentProblem]:
    files = files_of(make_group({"size": {}}), mapping, served=served)
    return build_snapshot(files, EngineSettings()).problems


MANY = {f"Kind{letter}": ["v1"] for letter in "ABCDEF"}


@pytest.mark.parametrize(
    ("mapping", "served", "want"),
    [
        pytest.param(
            mapping_of("v2"),
            {"acme.io": {"AcmeJob": ["v1", "v1beta1"]}},
            "acme.io/v2 AcmeJob is not served here (served: v1, v1beta1)",
            id="another-version",
        ),
        pytest.param(
            mapping_of("v1", "Other"),
            {"acme.io": {"AcmeJob": ["v1"], "AcmeTask": ["v1", "v2"]}},
            "acme.io/v1 Other is not served here (served of acme.io: AcmeJob v1; AcmeTask v1, v2)",
            id="other-kinds",
        ),
        pytest.param(
            mapping_of("v1", "Other"),
            {"acme.io": MANY},
            "acme.io/v1 Other is not served here (served of acme.io: KindA v1; KindB v1; KindC v1;"
            " KindD v1; and 2 more)",
            id="many-kinds",
        ),
        pytest.param(
            mapping_of("v1", "acmejob"),
            {"acme.io": {"AcmeJob": ["v1", "v2"], **MANY}},
            "acme.io/v1 acmejob is not served here (served: AcmeJob v1, v2; kinds are told apart by"
            " case)",
            id="in-another-case",
        ),
        pytest.param(
            mapping_of("v1"),
            {"acme.io": {}},
            "acme.io/v1 AcmeJob is not served here (nothing of acme.io is)",
            id="no-such-group",
        ),
        pytest.param(
            mapping_of("v2", "Pod", ""),
            {"": {"Pod": ["v1"]}},
            "v2 Pod is not served here (served: v1)",
            id="core-group",
        ),
    ],
)
def test_a_mapping_of_what_is_not_served_is_in_force_and_says_so(
    mapping: JsonObject, served: Mapping[str, KindVersions], want: str
) -> None:
    (problem,) = problems_of(mapping, served)

    assert (problem.path, problem.warning) == ("spec.workloadType", True)
    assert problem.reason is ProblemReason.KIND_NOT_SERVED
    assert problem.problem == f"{want}; nothing is judged by this mapping until it is"
    assert problem.told(Door.REST) == want


def in_two_cases(served: Served | None) -> list[str]:
    """What is said of the second of two mappings of kinds that differ in case only."""
    second = mapping_of("v1", "acmejob")
    second["metadata"]["name"] = "second"
    files = files_of(make_group({"size": {}}), mapping_of("v1"), second, served=served)
    problems = build_snapshot(files, EngineSettings()).problems
    assert all(problem.warning for problem in problems)
    return [problem.problem for problem in problems if problem.document == "SpecMapping second"]


ALIKE = (
    "acme.io/v1/acmejob differs from acme.io/v1/AcmeJob, which SpecMapping acme is for, in case"
    " only; kinds are told apart by case, and hardly a cluster has both"
)
UNTIL = "; nothing is judged by this mapping until it is"


@pytest.mark.parametrize(
    ("served", "want"),
    [
        pytest.param(None, [ALIKE], id="nobody-knows"),
        pytest.param(
            {"acme.io": {}},
            [ALIKE, f"acme.io/v1 acmejob is not served here (nothing of acme.io is){UNTIL}"],
            id="none-is-served",
        ),
        pytest.param(
            {"acme.io": {"AcmeJob": ["v1"]}},
            [
                "acme.io/v1 acmejob is not served here (served: AcmeJob v1; kinds are told apart by"
                f" case){UNTIL}"
            ],
            id="the-other-is-served",
        ),
        pytest.param({"acme.io": {"AcmeJob": ["v1"], "acmejob": ["v1"]}}, [], id="both-are-served"),
    ],
)
def test_of_kinds_that_differ_in_case_only_the_second_is_told_so(
    served: Served | None, want: list[str]
) -> None:
    assert sorted(in_two_cases(served)) == sorted(want)


@pytest.mark.parametrize(
    "served",
    [
        pytest.param({}, id="nobody-looked"),
        pytest.param({"other.io": {}}, id="another-group"),
        pytest.param({"acme.io": {"AcmeJob": ["v1", "v2"]}}, id="served"),
    ],
)
def test_of_what_is_served_or_unknown_nothing_is_said(served: Served) -> None:
    assert problems_of(mapping_of("v2"), served) == ()


def test_such_a_change_is_allowed_with_a_warning() -> None:
    files = files_of(make_group({"size": {}}), served={"acme.io": {"AcmeJob": ["v1"]}})

    got = check_change(files, build_snapshot(files, EngineSettings()), put=mapping_of("v2"))

    assert got.allowed
    assert [problem.reason for problem in got.warnings] == [ProblemReason.KIND_NOT_SERVED]


def test_what_stopped_to_be_served_meanwhile_speaks_against_no_change_of_others() -> None:
    before = files_of(make_group({"size": {}}), mapping_of(), served={})
    snapshot = build_snapshot(before, EngineSettings())
    now = files_of(served={"acme.io": {}}) + before[1:]

    got = check_change(now, snapshot, put=make_group({"size": {}, "more": {}}))

    assert got.allowed


def test_it_is_compiled_and_not_ready() -> None:
    problems = problems_of(mapping_of("v2"), {"acme.io": {"AcmeJob": ["v1"]}})

    ready, compiled, conflict = conditions_of(problems, in_force=True)

    assert (ready.is_true, ready.reason) == (False, "KindNotServed")
    assert "(served: v1)" in ready.message
    assert (compiled.is_true, conflict.is_true) == (True, False)


# -- looking --------------------------------------------------------------------------------------


class FakeServer:
    """Serves the kinds of some groups; a group of which it knows nothing can't be looked at."""

    def __init__(self, **groups: KindVersions) -> None:
        self.groups: dict[str, KindVersions] = dict(groups)
        self.asked: list[str] = []

    async def kinds_of(self, group: str) -> KindVersions:
        self.asked.append(group)
        if group not in self.groups:
            raise KubeError(503, "ServiceUnavailable", "it is away")
        return self.groups[group]


class Looker:
    def __init__(self, server: FakeServer, *wanted: str, period_s: float = 3600.0) -> None:
        self.wanted = set(wanted)
        self.changes = 0
        self.changed = asyncio.Event()
        self.served = ServedGroups(
            server.kinds_of, lambda: self.wanted, self._change, period_s=period_s
        )

    def _change(self) -> None:
        self.changes += 1
        self.changed.set()


async def test_a_group_is_looked_at_once_and_again_when_somebody_asks() -> None:
    server = FakeServer(a={"A": ["v1"]})
    looker = Looker(server, "a")

    await looker.served.complete()
    await looker.served.complete()
    assert (server.asked, looker.served.known) == (["a"], {"a": {"A": ["v1"]}})
    await looker.served.look("a")

    assert (server.asked, looker.changes) == (["a", "a"], 1)


async def test_of_a_group_that_cannot_be_looked_at_what_was_known_stays() -> None:
    server = FakeServer(a={"A": ["v1"]})
    looker = Looker(server, "a", "b")
    await looker.served.complete()
    del server.groups["a"]

    await looker.served.look("a")
    await looker.served.complete()

    assert looker.served.known == {"a": {"A": ["v1"]}}
    # Not with each change of a document.
    assert server.asked.count("b") == 1


async def test_what_comes_and_goes_is_seen_without_anybody_asking() -> None:
    server = FakeServer(a={"A": ["v1"]}, b={})
    looker = Looker(server, "a", "b", period_s=0.01)
    await looker.served.complete()
    looker.changed.clear()
    looking = asyncio.create_task(looker.served.run())
    async with asyncio.timeout(SOON_S):
        server.groups["a"] = {"A": ["v1", "v2"]}
        await looker.changed.wait()
        seen = looker.served.known["a"]
        looker.changed.clear()
        looker.wanted = {"b"}
        await looker.changed.wait()
    looking.cancel()

    assert seen == {"A": ["v1", "v2"]}
    assert looker.served.known == {"b": {}}
