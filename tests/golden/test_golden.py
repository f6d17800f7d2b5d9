"""
Golden cases: a review in, the answer that is wanted.

Each directory below this one is a case: `request.yaml` (the `request` of an AdmissionReview;
missing parts are filled in), `policies.yaml` (any of our documents, and Namespaces) and
`response.yaml`. A case is reviewed at /mutate, its patch applied, reviewed there once more, where
nothing may change, and at /validate. `pytest --update-golden` rewrites the answers.
"""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import jsonpatch
import orjson
import pytest

from webhook.admission.decode import decode_review
from webhook.admission.response import respond
from webhook.admission.review import review
from webhook.cli import main
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import dump_yaml, load_file
from webhook.model.request import Phase
from webhook.model.settings import EngineSettings
from webhook.store.build import build_snapshot
from webhook.store.directory import read_sources
from webhook.store.snapshot import Snapshot

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/request.yaml"))

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


def ask(request: JsonObject, phase: Phase, snapshot: Snapshot) -> JsonObject:
    """The `response` to *request*, over the wire and back."""
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    decoded = decode_review(orjson.dumps(body))
    answer = respond(decoded, review(decoded.request, phase, snapshot))
    response: JsonObject = orjson.loads(orjson.dumps(answer))["response"]
    assert response.pop("uid") == request["uid"]
    return response


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


def run_case(case: Path) -> JsonObject:
    snapshot = build_snapshot(read_sources(case / "policies.yaml"), EngineSettings())
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []
    request = complete(load_one(case / "request.yaml"))
    mutated = ask(copy.deepcopy(request), Phase.MUTATE, snapshot)
    answer = {"mutate": readable(mutated)}
    if not mutated["allowed"]:
        return answer
    patched = jsonpatch.apply_patch(request.get("object"), patch_of(mutated))
    request["object"] = patched
    again = ask(copy.deepcopy(request), Phase.MUTATE, snapshot)
    assert patch_of(again) == [], "the second pass changes something"
    answer["validate"] = readable(ask(request, Phase.VALIDATE, snapshot))
    return answer


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_is_the_one_that_is_wanted(case: Path, request: pytest.FixtureRequest) -> None:
    answer = run_case(case)
    wanted = case / "response.yaml"
    if request.config.getoption("--update-golden"):
        wanted.write_text(dump_yaml([answer]))

    assert answer == load_one(wanted)


def test_there_are_cases() -> None:
    assert len(CASES) >= 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_command_line_gives_the_same_verdict(
    case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One language through all doors."""
    request = load_one(case / "request.yaml")
    wanted = load_one(case / "response.yaml")
    (tmp_path / "new.yaml").write_text(dump_yaml([request["object"]]))
    arguments = ["review", str(tmp_path / "new.yaml"), "--policies", str(case / "policies.yaml")]
    if "oldObject" in request:
        (tmp_path / "old.yaml").write_text(dump_yaml([request["oldObject"]]))
        arguments += ["--old", str(tmp_path / "old.yaml")]

    code = main([*arguments, "-o", "json"])

    (report,) = orjson.loads(capsys.readouterr().out)
    refusing = next((door for door in wanted.values() if not door["allowed"]), None)
    assert report["allowed"] is (refusing is None)
    assert code == (0 if refusing is None else 1)
    told = [] if refusing is None else [line.partition(":")[0] for line in refusing["message"]]
    assert [line.partition(":")[0] for line in map(_line, report["violations"])] == told
    if refusing is None:
        assert report["patch"] == wanted["mutate"].get("patch", [])


def _line(violation: JsonObject) -> str:
    where = f"{violation['selector']} {violation['item']}".strip()
    return f"{violation['field']} [{where}]: " if where else f"{violation['field']}: "
