"""Reading files that others name: what is behind a name may have no end, as a device or a pipe."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

# A Secret, the largest of what is mounted, has at most 1 MiB; a kubeconfig of many clusters more.
MAX_FILE_BYTES = 16 * 2**20


def load_bytes(path: Path) -> bytes:
    """
    What is in the file at *path*.

    Raises:
        OSError: it can't be read, or is larger than `MAX_FILE_BYTES` (EFBIG).
        ValueError: *path* is none, as one with a NUL.
    """
    with path.open("rb") as file:
        return read_whole(file, str(path))


def read_whole(file: BinaryIO, name: str) -> bytes:
    """
    What is left in *file*, which errors call *name*.

    Raises:
        OSError: it can't be read, or is larger than `MAX_FILE_BYTES` (EFBIG).
    """
    data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    return data
