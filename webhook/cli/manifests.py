"""Which files a command is to read, and the documents in them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from webhook.cli.printing import complain
from webhook.errors import ManifestError, SettingsError
from webhook.model.files import load_bytes
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import MAX_BYTES, Manifest, load_documents, load_file
from webhook.store.directory import find_files

# What marks a place that somebody else fills in: in charts of Helm, and in most other templates.
_TEMPLATE = b"{{"


def add_file_flags(parser: argparse.ArgumentParser) -> None:
    """Files by position, and as kubectl takes them."""
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="manifests, or a directory; - reads stdin"
    )
    parser.add_argument(
        *("--filename", "-f"),
        metavar="FILE",
        dest="named",
        action="append",
        default=[],
        help="as FILE; of a directory the files in it, and with -R those below",
    )
    parser.add_argument(
        "--recursive", "-R", action="store_true", help="directories of -f with all below them"
    )


def read_manifests(args: argparse.Namespace) -> list[Manifest]:
    """
    The documents of all files that the flags of `add_file_flags` name, in their order.

    Raises:
        ManifestError: one can't be read.
        SettingsError: a name is none of a file.
    """
    found = [manifest for file in args.files for manifest in read_file(file)]
    for file in args.named:
        found += read_file(file, below=args.recursive)
    return found


def read_file(file: str, *, below: bool = True) -> list[Manifest]:
    """
    The documents of *file*, or of the files in that directory: with *below*, in all of it.

    Raises:
        ManifestError: it can't be read.
        SettingsError: it is an address.
    """
    if file == "-":
        return load_documents(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin")
    if file.startswith(("http://", "https://")):
        raise SettingsError(f"{file}: addresses are not read; pipe what they give into -f -")
    path = Path(file)
    if not path.is_dir():
        return load_file(path)
    files = [each for each in find_files(path) if below or each.parent == path]
    if not files:
        raise ManifestError(file, "holds no YAML or JSON file")
    return [manifest for each in files for manifest in load_file(each)]


def read_objects(files: list[str]) -> Iterator[Manifest]:
    """
    Of *files* whatever is an object of Kubernetes; the rest is said, and passed over.

    Raises:
        ManifestError: one can't be read, and is no template.
        SettingsError: as in `read_file`.
    """
    for file in files:
        try:
            manifests = read_file(file)
        except ManifestError as error:
            if not _is_template(file):
                raise
            complain(f"passed over, a template: {error}")
            continue
        for manifest in manifests:
            if is_object(manifest):
                yield manifest
            else:
                complain(f"passed over, no Kubernetes object: {manifest.name}")


def is_object(manifest: Manifest) -> bool:
    """Whether it says of which kind it is."""
    if not isinstance(manifest.value, dict):
        return False
    kind = GroupVersionKind.of(manifest.value)
    return bool(kind.version and kind.kind)


def _is_template(file: str) -> bool:
    try:
        return _TEMPLATE in load_bytes(Path(file))
    except (OSError, ValueError):
        return False
