"""`gatewright diff`: what two sets of policies decide differently, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.builders import JsonObject, make_container, make_gvk_policy, make_pod, make_rule
from webhook.cli import main
from webhook.model.manifests import dump_yaml

MAX_8 = {"max": {"key": "cpu", "value": 8}}
MAX_16 = {"max": {"key": "cpu", "value": 16}}
DEFAULT = {"default": {"key": "memory", "value": "1Gi"}}


def policy(*enforcements: JsonObject, name: str = "limits", **more: Any) -> JsonObject:
    return make_gvk_policy(
        make_rule("resourceLimits", "allContainers", *enforcements), name=name, **more
    )


class Bench:
    """Two directories of policies, and Pods with so many CPUs."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.old, self.new = root / "old", root / "new"
        self._root = root
        self._capsys = capsys
        for directory in (self.old, self.new):
            directory.mkdir()

    def write(self, old: list[JsonObject], new: list[JsonObject]) -> None:
        for directory, documents in ((self.old, old), (self.new, new)):
            (directory / "policies.yaml").write_text(dump_yaml(documents))

    def pods(self, *cpus: str) -> Path:
        file = self._root / "pods.yaml"
        file.write_text(
            dump_yaml(
                [
                    make_pod(containers=[make_container(resources={"limits": {"cpu": cpu}})])
                    for cpu in cpus
                ]
            )
        )
        return file

    def run(self, *args: Any) -> tuple[int, str, str]:
        code = main(["diff", *map(str, (self.old, self.new, *args))])
        told = self._capsys.readouterr()
        return code, told.out, told.err


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


def test_the_json_names_what_differs_with_both_reviews(bench: Bench) -> None:
    bench.write([policy(MAX_16)], [policy(MAX_8)])
    pods = bench.pods("4", "12", "32")

    code, out, _ = bench.run(pods, "-o", "json")

    refused, told_otherwise = orjson.loads(out)
    assert code == 1
    assert list(refused) == ["source", "kind", "namespace", "name", "before", "after"]
    assert (refused["source"], refused["kind"]["kind"]) == (f"{pods}#1", "Pod")
    assert (refused["before"]["allowed"], refused["after"]["allowed"]) == (True, False)
    assert [each["accepted"] for each in refused["after"]["violations"]] == ["≤ 8"]
    assert list(refused["before"])[-2:] == ["object", "warnings"]
    # Refused by both, but for another reason.
    assert told_otherwise["before"]["allowed"] is told_otherwise["after"]["allowed"] is False


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param([policy(MAX_8)], [policy(MAX_8)], 0, id="the-same"),
        pytest.param([policy(MAX_8)], [policy(MAX_8, name="other")], 0, id="under-another-name"),
        pytest.param([policy(MAX_8)], [policy(MAX_8, scope="cluster")], 0, id="in-another-scope"),
        pytest.param([policy(MAX_8)], [], 1, id="a-rule-less"),
        pytest.param([], [policy(DEFAULT)], 1, id="a-value-filled-in"),
        pytest.param([policy({"max": {"key": "cpu", "value": 99}})], [], 0, id="never-met"),
    ],
)
def test_what_counts_is_what_is_decided(
    bench: Bench, old: list[JsonObject], new: list[JsonObject], code: int
) -> None:
    bench.write(old, new)

    assert bench.run(bench.pods("12"))[0] == code


def test_a_policy_that_is_now_only_tried_decides_differently(bench: Bench) -> None:
    tried = policy(MAX_8)
    tried["spec"]["mode"] = "Warn"
    renamed = policy(MAX_8, name="later")
    renamed["spec"]["mode"] = "Warn"
    pods = bench.pods("12")

    bench.write([policy(MAX_8)], [tried])
    assert bench.run(pods)[0] == 1
    bench.write([renamed], [tried])
    assert bench.run(pods)[0] == 0


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_a_policy_that_is_only_tried_decides_nothing(bench: Bench, mode: str) -> None:
    tried = policy(MAX_8)
    tried["spec"]["mode"] = mode
    bench.write([], [tried])

    assert bench.run(bench.pods("12"))[:2] == (0, "1 judged: 0 decided differently\n")


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_where_something_differs_what_is_only_tried_is_shown_too(bench: Bench, mode: str) -> None:
    tried = policy(MAX_8)
    tried["spec"]["mode"] = mode
    bench.write([policy(MAX_8)], [tried])
    pods = bench.pods("12")

    _, text, _ = bench.run(pods)
    [pair] = orjson.loads(bench.run(pods, "-o", "json")[1])

    assert "  + ! resourceLimits[cpu] [allContainers main]: above the maximum" in text
    assert pair["before"]["warnings"] == []
    assert "not enforced yet" in pair["after"]["warnings"][0]


def test_text_shows_what_goes_and_what_comes(bench: Bench) -> None:
    bench.write([policy(MAX_16)], [policy(MAX_8, DEFAULT)])
    pods = bench.pods("12")

    code, out, _ = bench.run(pods)

    assert (code, out.splitlines()) == (
        1,
        [
            f"{pods}#0 Pod team-a/train: allowed -> denied",
            "  + ~ resourceLimits[memory] [allContainers main]: 1Gi"
            " (default, policy limits, tenant)",
            "  + ✗ resourceLimits[cpu] [allContainers main]: above the maximum, got 12; ≤ 8"
            " (policy limits, tenant)",
            "1 judged: 1 decided differently",
        ],
    )


def test_nothing_that_differs_is_an_empty_array(bench: Bench) -> None:
    bench.write([policy(MAX_8)], [policy(MAX_8)])

    code, out, _ = bench.run(bench.pods("1"), "-o", "json")
    assert (code, orjson.loads(out)) == (0, [])
    code, out, _ = bench.run(bench.pods("1"), "-o", "yaml")
    assert (code, yaml.safe_load(out)) == (0, [])


def test_yaml_is_one_array_too(bench: Bench) -> None:
    bench.write([policy(MAX_16)], [policy(MAX_8)])

    _, out, _ = bench.run(bench.pods("12", "13"), "-o", "yaml")

    assert [each["after"]["allowed"] for each in yaml.safe_load(out)] == [False, False]


def test_where_the_workload_stands_can_be_said(bench: Bench) -> None:
    bench.write([], [policy(MAX_8, scope="project", unit="vision")])
    pods = bench.pods("12")

    assert bench.run(pods)[0] == 0
    assert bench.run(pods, "--project", "vision")[0] == 1
    assert bench.run(pods, "--namespace", "vision")[0] == 1


@pytest.mark.parametrize("side", ["old", "new"])
def test_a_policy_that_is_wrong_on_either_side_ends_with_2(bench: Bench, side: str) -> None:
    bench.write([policy(MAX_8)], [policy(MAX_8)])
    wrong = make_gvk_policy(make_rule("imag", "allContainers", {"required": True}))
    (getattr(bench, side) / "wrong.yaml").write_text(
        dump_yaml([{**wrong, "metadata": {"name": "w"}}])
    )

    code, out, err = bench.run(bench.pods("1"))

    assert (code, out) == (2, "")
    assert f"{side}/wrong.yaml#0" in err


def test_a_directory_that_is_not_there_ends_with_2(bench: Bench) -> None:
    bench.new.rmdir()

    assert bench.run(bench.pods("1"))[0] == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param([], "name a FILE, or give --running", id="nothing-to-judge"),
        pytest.param(["--context", "x", "a.yaml"], "goes with --running", id="no-cluster-is-asked"),
        pytest.param(
            ["--excluded-namespaces", "x", "a.yaml"], "goes with --running", id="nothing-runs"
        ),
        pytest.param(["--running", "--project", "x"], "goes with a FILE", id="projects-are-there"),
        pytest.param(["--running", "--department", "x"], "goes with a FILE", id="and-departments"),
    ],
)
def test_flags_that_make_no_sense_are_told(bench: Bench, args: list[str], message: str) -> None:
    code, _, err = bench.run(*args)

    assert code == 2
    assert message in err
