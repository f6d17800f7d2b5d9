"""The examples are right, as far as nobody says that they are there to be refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import make_snapshot, submit
from webhook.model.kinds import NATIVE_KINDS
from webhook.model.manifests import load_file
from webhook.model.settings import EngineSettings
from webhook.store.build import build_snapshot
from webhook.store.directory import read_sources

EXAMPLES = Path(__file__).parents[2] / "examples"
NATIVE = sorted((EXAMPLES / "native").glob("*.yaml"))


def test_there_is_an_example_of_each_native_kind() -> None:
    kinds = [load_file(path)[0].value["kind"] for path in NATIVE]

    assert sorted(kinds) == sorted([kind.kind for kind in NATIVE_KINDS.values()])


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.stem)
def test_an_example_of_a_native_kind_is_what_the_workload_api_takes(path: Path) -> None:
    (manifest,) = load_file(path)

    assert submit(make_snapshot(), manifest.value).broken == []


@pytest.mark.parametrize("name", ["policies", "one-policy"])
def test_policies_of_the_examples_are_sound(name: str) -> None:
    snapshot = build_snapshot(read_sources(EXAMPLES / name), EngineSettings())

    assert [str(problem) for problem in snapshot.problems] == []
