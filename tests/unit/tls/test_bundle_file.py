"""Authorities in a file of somebody else's: followed, and never replaced by something unusable."""

from __future__ import annotations

from pathlib import Path

import pytest

from webhook.errors import SettingsError
from webhook.tls.bundle_file import BundleFile
from webhook.tls.issue import make_ca

OLD, NEW = make_ca().certificate_pem, make_ca().certificate_pem


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_bytes(OLD)
    return path


def followed(path: Path) -> tuple[BundleFile, list[bytes | None]]:
    """The bundle, and what it held each time that it said it had changed."""
    bundle = BundleFile(path)
    told: list[bytes | None] = []
    bundle.on_change(lambda: told.append(bundle.pem))
    return bundle, told


@pytest.mark.parametrize("content", [NEW, OLD + NEW], ids=["another", "both-meanwhile"])
def test_a_change_is_taken_over_and_told_once(path: Path, content: bytes) -> None:
    bundle, told = followed(path)
    assert bundle.pem == OLD
    path.write_bytes(content)
    for _ in range(2):
        bundle.check()

    assert told == [content]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"rubbish", id="rubbish"),
        pytest.param(OLD[: len(OLD) // 2], id="half"),
        pytest.param(None, id="gone"),
    ],
)
def test_one_that_is_not_usable_is_said_once_and_the_old_one_stays(
    path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    bundle, told = followed(path)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    for _ in range(3):
        bundle.check()

    assert (bundle.pem, told) == (OLD, [])
    assert caplog.text.count("the old ones stay") == 1

    path.write_bytes(NEW)
    bundle.check()
    assert told == [NEW]


def test_one_that_is_not_usable_from_the_start_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "endless").symlink_to("/dev/zero")
    with pytest.raises(SettingsError, match="is not readable: File too large"):
        BundleFile(tmp_path / "endless")
    with pytest.raises(SettingsError, match="is not readable: No such file"):
        BundleFile(tmp_path / "none")
    (tmp_path / "ca.crt").write_text("rubbish")
    with pytest.raises(SettingsError, match="holds no certificate in PEM format"):
        BundleFile(tmp_path / "ca.crt")
