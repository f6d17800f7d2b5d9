"""`gatewright crds`: which kinds it prints."""

from __future__ import annotations

import pytest
import yaml

from webhook.cli import main


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "groups"),
    [
        pytest.param(
            [],
            {"policy.gatewright.io", "workload.gatewright.io", "rightsizing.kubex.ai"},
            id="all",
        ),
        pytest.param(
            ["--no-rightsizing"],
            {"policy.gatewright.io", "workload.gatewright.io"},
            id="without-those-that-may-be-there-already",
        ),
    ],
)
def test_kinds_of_others_are_printed_unless_they_are_there_already(
    capsys: pytest.CaptureFixture[str], flags: list[str], groups: set[str]
) -> None:
    assert main(["crds", *flags]) == 0

    crds = list(yaml.safe_load_all(capsys.readouterr().out))
    assert {crd["spec"]["group"] for crd in crds} == groups
    assert "gpurecommendations.policy.gatewright.io" in [crd["metadata"]["name"] for crd in crds]
