"""
Golden cases: a review in, the answer that is wanted.

Each directory below this one is a case: `request.yaml` (the `request` of an AdmissionReview;
missing parts are filled in), `policies.yaml` (any of our documents, and Namespaces), perhaps
`recommendations.yaml` (of the owners of pods), and `response.yaml`. A case is reviewed at /mutate, its patch applied, reviewed there once more, where
nothing may change, and at /validate: over HTTP, by the whole application. Every other door is
asked the same, but for recommendations, which only a server knows. `pytest --update-golden` rewrites the answers.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import orjson
import pytest

from tests.api.gate import Gate
from tests.gpu import KnownRecommendations
from webhook.cli import main
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import dump_yaml, load_file
from webhook.model.settings import EngineSettings
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.directory import read_sources

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/request.yaml"))
RECOMMENDATIONS = "recommendations.yaml"

# What every door tells of a violation and of a change.
VIOLATION = ("path", "field", "rule", "value", "accepted", "policy", "scope", "unit")
CHANGE = ("path", "field", "rule", "old", "new", "policy", "scope", "unit")

JsonObject = dict[str, Any]


def load_one(path: Path) -> JsonObject:
    (manifest,) = load_file(path)
    value: JsonObject = manifest.value
    return value


def complete(request: JsonObject) -> JsonObject:
    """Fill in what an API server always sends."""
    shown = request.get("object") or request["oldObject"]
    kind = GroupVersionKind.of(shown)
    namespace = shown.get("metadata", {}).get("namespace", "")
    return {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "operation": "UPDATE" if "oldObject" in request else "CREATE",
        "namespace": namespace,
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        **request,
    }


@asynccontextmanager
async def gate_of(case: Path) -> AsyncIterator[Gate]:
    """The application with the policies of *case* in force."""
    path = case / RECOMMENDATIONS
    known = [manifest.value for manifest in load_file(path)] if path.exists() else []
    async with Gate(recommendations=KnownRecommendations(*known)) as gate:

        def check_query(source: Any, path: str) -> None:
            gate.services.jq.check(source, path=path)

        sources = read_sources(case / "policies.yaml")
        snapshot = build_snapshot(sources, EngineSettings(), check_query=check_query)
        assert [str(problem) for problem in snapshot.problems if not problem.warning] == []
        gate.current.replace(snapshot)
        yield gate


async def ask(gate: Gate, door: str, request: JsonObject) -> JsonObject:
    """The `response` to *request*."""
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = await gate.post(door, orjson.dumps(body))
    text = await answer.read()
    assert answer.status == 200, text
    response: JsonObject = orjson.loads(text)["response"]
    assert response.pop("uid") == request["uid"]
    return response


@dataclass(frozen=True)
class Reviewed:
    """What the two doors of the server said to a case; *validated* if it came so far."""

    mutated: JsonObject
    validated: JsonObject | None

    @property
    def refusing(self) -> JsonObject | None:
        doors = [door for door in (self.mutated, self.validated) if door is not None]
        return next((door for door in doors if not door["allowed"]), None)


async def review_over_http(case: Path) -> Reviewed:
    """Send *case* as an API server does; a second pass must change nothing."""
    async with gate_of(case) as gate:
        request = complete(load_one(case / "request.yaml"))
        mutated = await ask(gate, "/mutate", request)
        if not mutated["allowed"]:
            return Reviewed(mutated, None)
        patched = jsonpatch.apply_patch(copy.deepcopy(request.get("object")), patch_of(mutated))
        request["object"] = patched
        again = await ask(gate, "/mutate", request)
        assert patch_of(again) == [], "the second pass changes something"
        return Reviewed(mutated, await ask(gate, "/validate", request))


def patch_of(response: JsonObject) -> list[JsonObject]:
    encoded = response.get("patch")
    if encoded is None:
        assert "patchType" not in response
        return []
    assert response["patchType"] == "JSONPatch"
    operations: list[JsonObject] = orjson.loads(base64.b64decode(encoded))
    return operations


def readable(response: JsonObject) -> JsonObject:
    """*response* as a case keeps it: the patch decoded, without revisions of documents."""
    shown: JsonObject = {"allowed": response["allowed"]}
    operations = patch_of(response)
    if operations:
        shown["patch"] = operations
    if response.get("warnings"):
        shown["warnings"] = response["warnings"]
    if "status" in response:
        status = response["status"]
        shown["code"] = status["code"]
        shown["message"] = status["message"].splitlines()
        shown["causes"] = status["details"]["causes"]
    return shown


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_the_answer_is_the_one_that_is_wanted(
    case: Path, request: pytest.FixtureRequest
) -> None:
    reviewed = await review_over_http(case)

    answer = {"mutate": readable(reviewed.mutated)}
    if reviewed.validated is not None:
        answer["validate"] = readable(reviewed.validated)
    wanted = case / "response.yaml"
    if request.config.getoption("--update-golden"):
        wanted.write_text(dump_yaml([answer]))
    assert answer == load_one(wanted)


def test_there_are_cases() -> None:
    assert len(CASES) >= 10


@dataclass(frozen=True)
class CommandLine:
    """What `gatewright review` said to a case."""

    code: int
    report: JsonObject
    lines: list[str]


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(case: Path) -> CommandLine:
        request = load_one(case / "request.yaml")
        (tmp_path / "new.yaml").write_text(dump_yaml([request["object"]]))
        arguments = ["review", str(tmp_path / "new.yaml")]
        arguments += ["--policies", str(case / "policies.yaml")]
        if "oldObject" in request:
            (tmp_path / "old.yaml").write_text(dump_yaml([request["oldObject"]]))
            arguments += ["--old", str(tmp_path / "old.yaml")]
        code = main([*arguments, "-o", "json"])
        (report,) = orjson.loads(capsys.readouterr().out)
        assert main(arguments) == code
        return CommandLine(code, report, capsys.readouterr().out.splitlines())

    return run


def only(entries: list[JsonObject], keys: tuple[str, ...]) -> list[JsonObject]:
    return [{key: entry[key] for key in keys} for entry in entries]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not (case / RECOMMENDATIONS).exists()],
    ids=lambda case: case.name,
)
async def test_the_language_is_the_same_through_all_doors(case: Path, command_line: Any) -> None:
    served = await review_over_http(case)

    told: CommandLine = command_line(case)

    refusing = served.refusing
    assert told.report["allowed"] is (refusing is None)
    assert told.code == (0 if refusing is None else 1)
    if refusing is None:
        decided = orjson.loads(served.mutated.get("auditAnnotations", {}).get("decision", "{}"))
        assert told.report["violations"] == []
        assert told.report["patch"] == patch_of(served.mutated)
        assert only(told.report["changes"], CHANGE) == only(decided.get("changes", []), CHANGE)
        return
    decided = orjson.loads(refusing["auditAnnotations"]["decision"])
    assert only(told.report["violations"], VIOLATION) == only(decided["violations"], VIOLATION)
    lines = [line.removeprefix("  ✗ ") for line in told.lines if line.startswith("  ✗ ")]
    title, *reasons = refusing["status"]["message"].splitlines()
    assert title.startswith(f"{told.report['kind']['kind']} {told.report['name']} breaks ")
    assert lines == reasons
