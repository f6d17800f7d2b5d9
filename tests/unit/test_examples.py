"""The examples are right, as far as nobody says that they are there to be refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import make_snapshot, submit
from tests.unit.test_docs import blocks_of, read_docs
from webhook.cli import main
from webhook.model.kinds import NATIVE_KINDS
from webhook.model.manifests import load_documents, load_file
from webhook.model.rightsizing.policies import Mode
from webhook.model.settings import EngineSettings
from webhook.reactive.scenarios.scenario import read_scenario
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.directory import read_sources

EXAMPLES = Path(__file__).parents[2] / "examples"
NATIVE = sorted((EXAMPLES / "native").glob("*.yaml"))
GPU = EXAMPLES / "gpu"


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


def test_there_is_nothing_to_say_about_the_example_of_gpus_by_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [str(GPU / f"{name}.yaml") for name in ("policy", "strategy", "configuration")]

    assert main(["lint", "--strict", *files]) == 0
    assert "3 documents of rightsizing.kubex.ai read, 0 errors" in capsys.readouterr().out


def test_the_scenario_of_the_example_tries_the_documents_beside_it() -> None:
    names = ("policy", "strategy", "configuration", "scenario/morning")
    manifests = [manifest for name in names for manifest in load_file(GPU / f"{name}.yaml")]
    scenario = read_scenario(manifests)

    assert scenario.warnings == ()
    assert [policy.key.name for policy in scenario.policies] == ["llm"]
    assert len({manifest.value["kind"] for manifest in manifests}) == len(manifests)
    # Applied as they are, they move nothing.
    assert [policy.mode for policy in scenario.policies] == [Mode.RECOMMEND]


def test_the_scenario_of_the_documentation_can_be_replayed() -> None:
    (block,) = [b for b in blocks_of(read_docs("gpu.md")) if "kind: GpuScenario" in b.body]
    documents = load_documents(block.body, source="gpu.md")

    assert len(read_scenario(documents).workloads) == 1
