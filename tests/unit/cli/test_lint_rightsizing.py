"""`gatewright lint` on documents that say how GPU allocations follow usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu_documents import make_policy, make_strategy, with_value
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
