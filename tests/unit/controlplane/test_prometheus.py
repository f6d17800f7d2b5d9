"""What a Prometheus says before it runs. What it does is seen by the end-to-end tests."""

from pathlib import Path

import pytest

from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.prometheus import Prometheus


def test_one_that_was_never_started_has_no_url(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match="never started"):
        _ = Prometheus(tmp_path).url


def test_stopping_what_was_not_started_is_harmless(tmp_path: Path) -> None:
    Prometheus(tmp_path).stop()


def test_a_failed_start_says_why_and_can_be_tried_again(tmp_path: Path) -> None:
    prometheus = Prometheus(tmp_path / "data", tmp_path / "no-binaries")

    for _ in range(2):
        with pytest.raises(ControlPlaneError, match="prometheus ended with status 1") as e:
            prometheus.start()
        assert "No such file or directory" in e.value.detail
