"""Expressions that would stall or kill a server are refused with their document and path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import POLICY_API, make_container, make_gvk_policy, make_pod, make_rule, submit
from tests.jq import ACME, make_formatter, make_group
from tests.jq import make_mapping as make_acme_mapping
from webhook.errors import SpecError
from webhook.mapping.evaluator import JqWorker
from webhook.model.manifests import Manifest
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.snapshot import Snapshot


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    with JqWorker() as worker:
        yield worker


def build(worker: JqWorker, *documents: Any) -> Snapshot:
    manifests = tuple([Manifest("m.yaml", i, 1, value) for i, value in enumerate(documents)])
    return build_snapshot(
        [SourceFile("m.yaml", manifests)],
        EngineSettings(),
        check_query=lambda source, path: worker.check(source, path=path),
    )


def make_mapping(query: str) -> dict[str, Any]:
    return {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {
            "workloadType": {"group": "acme.io", "version": "v1", "kind": "AcmeJob"},
            "specSelectors": {"s": {"query": query, "fieldGroups": ["metadata"]}},
        },
    }


HOSTILE = [
    pytest.param(".spec | (", id="does-not-compile"),
    pytest.param("def f: f; f", id="endless-recursion"),
    pytest.param("last(range(1e12))", id="range"),
    pytest.param("[limit(1e12; repeat(1))]", id="growing-array"),
    pytest.param('"x" * 1e9 | .[0:1]', id="huge-text"),
    pytest.param(".. | .. | .. | .. | .. | .. | .. | ..", id="exponential"),
    pytest.param("env.PATH", id="reads-the-environment"),
    pytest.param("$ENV.PATH", id="reads-the-environment-too"),
    pytest.param("input", id="reads-input"),
    pytest.param("halt", id="stops-the-program"),
    pytest.param('import "a" as a; .', id="reads-files"),
]


@pytest.mark.parametrize("query", HOSTILE)
def test_a_hostile_query_is_refused_by_name_and_the_rest_holds(
    worker: JqWorker, query: str
) -> None:
    good = make_gvk_policy(make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}))

    snapshot = build(worker, make_mapping(query), good)

    (problem,) = snapshot.problems
    assert problem.document == "m.yaml#0"
    assert problem.path == "spec.specSelectors.s.query"
    assert not submit(snapshot, make_pod(containers=[make_container(image="x")])).allowed


@pytest.mark.slow
@pytest.mark.parametrize("part", ["getExpr", "setExpr", "query"])
@pytest.mark.parametrize(
    "source",
    [
        *[row for row in HOSTILE if row.id != "exponential"],
        # The same for a test, which ends with the first value that is true.
        pytest.param("[.. | .. | .. | .. | .. | .. | .. | ..] | length", id="exponential"),
        pytest.param("reduce .. as $x (1; [.])", id="crash"),
    ],
)
def test_a_hostile_expression_of_a_formatter_or_item_selector_is_refused(
    worker: JqWorker, part: str, source: str
) -> None:
    """Its document is told, and the rest holds."""
    if part == "query":
        document = make_group({}, itemSelectors={"i": {"query": source}})
        path = "spec.itemSelectors.i.query"
    else:
        document = make_formatter({"f": {"getExpr": ".a", "setExpr": "{a: 1}", part: source}})
        path = f"spec.fields.f.{part}"
    good = make_gvk_policy(make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}))

    snapshot = build(worker, document, good)

    assert [(p.document, p.path) for p in snapshot.problems] == [("m.yaml#0", path)]
    assert not submit(snapshot, make_pod(containers=[make_container(image="x")])).allowed


def test_an_expression_is_tried_once(worker: JqWorker) -> None:
    """Else each edit of another file would wait for it anew."""
    tried: list[str] = []

    def check(subject: Any, path: str) -> None:
        tried.append(path)
        worker.check(subject, path=path)

    documents = [
        make_formatter({"f": {"getExpr": ".a", "setExpr": "{a: $ARGS.named.value}"}}),
        make_group({"f": {"formatter": "acme"}}, itemSelectors={"i": {"query": ".x"}}),
        make_acme_mapping(".spec"),
        make_gvk_policy(make_rule("f", "s", {"default": "x"}), kind=ACME),
    ]
    manifests = [Manifest("m", index, 1, value) for index, value in enumerate(documents)]
    files = [SourceFile("m.yaml", tuple(manifests))]
    first = build_snapshot(files, EngineSettings(), check_query=check)
    again = build_snapshot(files, EngineSettings(), check_query=check, previous=first)

    assert first.problems == again.problems == ()
    assert tried == [
        "spec.fields.f.getExpr",
        # That it ends, and that it writes something.
        "spec.fields.f.setExpr",
        "spec.fields.f.setExpr",
        "spec.itemSelectors.i.query",
        "spec.rules[0].enforcements[0]",
    ]


def test_a_refused_trial_is_not_made_again() -> None:
    tried: list[str] = []

    def check(_subject: Any, path: str) -> None:
        tried.append(path)
        raise SpecError(path, "no")

    manifest = Manifest("m", 0, 1, make_formatter({"f": {"getExpr": ".a"}}))
    files = [SourceFile("m.yaml", (manifest,))]
    first = build_snapshot(files, EngineSettings(), check_query=check)
    again = build_snapshot(files, EngineSettings(), check_query=check, previous=first)

    assert tried == ["spec.fields.f.getExpr"]
    assert first.problems == again.problems


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(".spec.template", id="plain"),
        pytest.param('.spec.groups[]? | select(.role == "head") | .template', id="needs-jq"),
        pytest.param("(.spec | if . then .a else empty end)", id="conditional"),
    ],
)
def test_a_sound_query_is_taken(worker: JqWorker, query: str) -> None:
    assert build(worker, make_mapping(query)).problems == ()


def test_a_refused_query_is_not_tried_again() -> None:
    """Else each edit of another file would wait for it anew."""
    asked = []

    def check(source: str, path: str) -> None:
        asked.append(source)
        raise SpecError(path, "no")

    files = [SourceFile("m.yaml", (Manifest("m.yaml", 0, 1, make_mapping("first(.a[])")),))]
    first = build_snapshot(files, EngineSettings(), check_query=check)
    second = build_snapshot(files, EngineSettings(), check_query=check, previous=first)

    assert len(asked) == 1
    assert first.problems == second.problems
    assert build_snapshot([], EngineSettings(), previous=second).refused_queries == {}
