from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

from webhook.model.files import MAX_FILE_BYTES, load_bytes, read_whole


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\0" * MAX_FILE_BYTES)

    assert len(load_bytes(tmp_path / "f")) == MAX_FILE_BYTES


@pytest.mark.parametrize(
    "path",
    [pytest.param(Path("/dev/zero"), id="without-end"), pytest.param(None, id="a-byte-too-many")],
)
def test_a_file_is_read_up_to_a_bound(path: Path | None, tmp_path: Path) -> None:
    if path is None:
        path = tmp_path / "f"
        path.write_bytes(bytes(MAX_FILE_BYTES + 1))
    with pytest.raises(OSError, match="File too large") as e:
        load_bytes(path)

    assert (e.value.errno, e.value.filename) == (errno.EFBIG, str(path))


def test_a_stream_is_called_by_its_name() -> None:
    with pytest.raises(OSError, match="File too large: 'standard input'"):
        read_whole(io.BytesIO(bytes(MAX_FILE_BYTES + 1)), "standard input")


def test_a_path_that_is_none_is_said() -> None:
    with pytest.raises(ValueError, match="null byte"):
        load_bytes(Path("a\0b"))
