"""What a control plane says before it runs. What it does is seen by the end-to-end tests."""

from pathlib import Path

import pytest

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.controlplane.flags import (
    Layout,
    apiserver_flags,
    controller_manager_flags,
    etcd_flags,
)

LAYOUT = Layout(Path("/run/plane"))


def test_an_unknown_user_is_answered_with_those_there_are() -> None:
    plane = ControlPlane(users={"bob": ["ops"]})

    with pytest.raises(ControlPlaneError, match="no user eve; there are admin, alice, bob, "):
        plane.token("eve")


def test_every_user_has_a_token_of_their_own_in_every_control_plane() -> None:
    tokens = {ControlPlane().token(user) for user in ("admin", "alice") for _ in range(2)}

    assert len(tokens) == 4


def test_a_missing_audit_log_is_an_error_and_not_an_empty_list() -> None:
    with pytest.raises(ControlPlaneError, match="audit log is off"):
        ControlPlane().audit_events()


def test_nothing_to_unregister_is_an_error() -> None:
    with pytest.raises(ControlPlaneError, match="no webhooks are registered"):
        ControlPlane().unregister_webhooks()


def test_stopping_what_was_not_started_is_harmless() -> None:
    ControlPlane().stop()


def test_a_failed_start_says_which_program_and_leaves_nothing_running(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path / "no-binaries")

    with pytest.raises(ControlPlaneError, match="etcd ended with status 1") as e:
        plane.start(tmp_path / "plane")

    assert "No such file or directory" in e.value.detail
    assert plane.pids == {}


def test_the_directory_with_the_secrets_is_private(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path / "no-binaries")
    with pytest.raises(ControlPlaneError):
        plane.start(tmp_path / "plane")

    assert (tmp_path / "plane").stat().st_mode & 0o777 == 0o700


def test_everything_listens_on_this_machine_only() -> None:
    assert "--listen-client-urls=http://127.0.0.1:1234" in etcd_flags(LAYOUT, 1234, name="etcd-1")
    assert "--bind-address=127.0.0.1" in apiserver_flags(
        LAYOUT, 1234, etcd_url="http://127.0.0.1:1", audit=False
    )
    assert "--secure-port=0" in controller_manager_flags(LAYOUT, Path("/k"))


@pytest.mark.parametrize("audit", [pytest.param(True, id="on"), pytest.param(False, id="off")])
def test_the_audit_log_is_written_only_when_asked_for(audit: bool) -> None:
    flags = apiserver_flags(LAYOUT, 1234, etcd_url="http://127.0.0.1:1", audit=audit)

    assert ("--audit-log-path=/run/plane/logs/audit.log" in flags) is audit
