"""`gatewright lint` on documents that say how GPU allocations follow usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu_documents import make_policy, make_strategy, with_value
from tests.gpu_scenarios import make_samples, make_scenario
from webhook.cli import main
from webhook.model.manifests import dump_yaml

QUIET = with_value(make_policy(), "spec.metrics.compute.upsize.thresholdPercent", 90)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(dump_yaml([QUIET]))
    return tmp_path


def test_files_of_a_directory_are_one_set(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "strategy.yaml").write_text(dump_yaml([make_strategy()]))

    assert main(["lint", "--strict", str(directory)]) == 0
    assert capsys.readouterr().out == (
        "0 documents in force, 2 documents of rightsizing.kubex.ai read, 0 errors, 0 warnings\n"
    )


def test_a_missing_strategy_is_a_warning_and_strictly_an_error(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", str(directory)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{directory}/policy.yaml#0: warning: spec.automationStrategyRef.name: there is no"
        " AutomationStrategy default/gpu; until it is there, nothing is resized",
        "0 documents in force, 1 document of rightsizing.kubex.ai read, 0 errors, 1 warning",
    ]
    assert main(["lint", "--strict", str(directory)]) == 1


def test_an_error_is_told_with_file_document_and_path(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = with_value(make_strategy(), "spec.enablement.gpu.request", {})
    (directory / "strategy.yaml").write_text(dump_yaml([bad]))

    assert main(["lint", str(directory)]) == 1
    assert (
        f"{directory}/strategy.yaml#0: error: spec.enablement.gpu.request: unknown field; did you"
        ' mean "requests"?'
    ) in capsys.readouterr().out.splitlines()


def test_a_kind_of_workloads_needs_a_mapping(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the built-in ones, or one that is among the files."""
    types = ["PyTorchJob.kubeflow.org", "AcmeJob.acme.example.com"]
    (directory / "policy.yaml").write_text(
        dump_yaml([make_strategy(), with_value(QUIET, "spec.scope", {"workloadTypes": types})])
    )
    assert main(["lint", str(directory)]) == 0
    assert (
        "warning: spec.scope.workloadTypes[1]: no mapping covers AcmeJob.acme.example.com"
        in capsys.readouterr().out
    )

    selector = {
        "description": "its pods",
        "query": ".spec.template.spec",
        "fieldGroups": ["podSpec"],
    }
    kind = {"group": "acme.example.com", "version": "v1", "kind": "AcmeJob"}
    mapping = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {"workloadType": kind, "specSelectors": {"podSpec": selector}},
    }
    (directory / "mapping.yaml").write_text(dump_yaml([mapping]))
    main(["lint", str(directory)])
    assert "no mapping covers" not in capsys.readouterr().out


# --- scenarios ---


def test_a_scenario_is_judged_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = make_scenario(make_samples(80, pod="llm-7"), duration="60", steps="1m")
    (tmp_path / "scenario.yaml").write_text(dump_yaml([bad]))

    assert main(["lint", str(tmp_path)]) == 1
    *lines, counts = capsys.readouterr().out.splitlines()
    assert [line.removeprefix(f"{tmp_path}/") for line in lines] == [
        "scenario.yaml#0: error: spec.duration: '60' is no duration (such as 10m, 1h30m or 90s)",
        'scenario.yaml#0: error: spec.steps: unknown field; did you mean "step"?',
    ]
    assert counts == "0 documents in force, 1 scenario read, 2 errors, 0 warnings"


def test_samples_of_nobody_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scenario.yaml").write_text(
        dump_yaml([make_scenario(make_samples(80, pod="llm-7"))])
    )

    assert main(["lint", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        f"{tmp_path}/scenario.yaml#0: warning: spec.samples[0].pod: there is no 'llm-7';"
        ' did you mean "llm-0"?'
    )


def test_the_examples_are_one_set_without_a_fault() -> None:
    assert main(["lint", "--strict", "examples/gpu"]) == 0
