"""Where storage of the workload API is mounted: which attribute says so, and what is one path."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from webhook.catalog import native_rows


def _mounts() -> Mapping[str, str]:
    # Where an item has both, its `path` is that of the directory that is mounted.
    return {
        name: "mountPath" if "mountPath" in row["attributes"] else "path"
        for name, row in native_rows().items()
        if "assets" in row
    }


# By itemized field of storage: the attribute that says where an item is mounted.
MOUNTS: Mapping[str, str] = _mounts()


def mount_path(value: Any) -> str:
    """*value* as all spellings of its path are written; ``""`` where it is none."""
    if not isinstance(value, str) or not value:
        return ""
    # The kubelet takes a relative path from the root; POSIX keeps two slashes in front, Linux not.
    return "/" + posixpath.normpath(f"/{value}").lstrip("/")


def is_same_mount(one: str, other: str) -> bool:
    """
    Whether both paths surely lead to one place.

    Whether `/q/../d` is `/d` depends on what `/q` is in the image: a link may lead elsewhere.
    """
    if one == other:
        return True
    is_plain = ".." not in (*one.split("/"), *other.split("/"))
    return is_plain and mount_path(one) == mount_path(other)
