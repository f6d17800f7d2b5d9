"""Flags that name policies, and loading what they name: the same for every offline command."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webhook.catalog import builtin_documents
from webhook.errors import SettingsError
from webhook.mapping.evaluator import JqWorker
from webhook.model.kinds import NATIVE_KINDS, GroupVersionKind, type_hint
from webhook.model.scopes import Scope
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import BareTarget, SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.directory import read_sources
from webhook.store.snapshot import Snapshot


def add_policy_flags(
    parser: argparse.ArgumentParser, *, with_policies: bool = True, with_workload_type: bool = True
) -> None:
    """
    The flags of `review`, `lint`, `explain` and `diff` that say which policies count.

    A command may have a `--workload-type` of its own, which then counts for bare documents too.
    """
    group = parser.add_argument_group("policies")
    if with_policies:
        group.add_argument(
            "--policies",
            metavar="DIR",
            action="append",
            default=[],
            type=Path,
            help="a directory (or file) of policy documents; may be given more than once",
        )
    group.add_argument(
        "--cluster-name", metavar="NAME", default="", help="the name of this cluster, for scopes"
    )
    bare = parser.add_argument_group("bare policy documents (only defaults, rules, imposedAssets)")
    if with_workload_type:
        bare.add_argument(
            "--workload-type",
            metavar="T",
            help="what a bare document is for: training, ..., or group/version/Kind (v1/Pod)",
        )
    bare.add_argument("--scope", choices=[scope.value for scope in Scope], help="its scope")
    bare.add_argument("--unit", metavar="NAME", default="", help="its project, department, ...")


def bare_target(args: argparse.Namespace) -> BareTarget | None:
    """
    What bare documents are for, by the flags.

    Raises:
        SettingsError: the flags don't go together.
    """
    if args.workload_type is None and args.scope is None:
        return None
    if args.workload_type is None or args.scope is None:
        raise SettingsError("--workload-type and --scope go together")
    return BareTarget(parse_workload_type(args.workload_type), args.scope, args.unit)


def parse_workload_type(text: str) -> str | GroupVersionKind:
    """
    The value of `--workload-type`: a kind, or the name of a native type in its own spelling.

    Raises:
        SettingsError: it is neither.
    """
    if "/" in text:
        try:
            return GroupVersionKind.parse(text)
        except ValueError as error:
            raise SettingsError(f"--workload-type: {error}") from error
    for name in NATIVE_KINDS:
        if name.lower() == text.lower():
            return name
    known = [
        document.spec.workload_type
        for document in builtin_documents()
        if document.kind == "SpecMapping"
    ]
    raise SettingsError(
        f"--workload-type: {text!r} is no native workload type and no group/version/Kind"
        f"{type_hint(text, known)}"
    )


def load_policies(
    paths: list[Path], cluster_name: str, worker: JqWorker, bare: BareTarget | None
) -> Snapshot:
    """
    Compile what *paths* hold, with the built-in documents.

    Raises:
        SettingsError: a path is not there.
    """
    settings = EngineSettings(cluster_name=cluster_name)
    return compile_policies(read_policies(paths), settings, worker, bare)


def read_policies(paths: Iterable[Path]) -> list[SourceFile]:
    """
    What *paths* hold.

    Raises:
        SettingsError: a path is not there.
    """
    sources = []
    for path in paths:
        try:
            sources += read_sources(path)
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror or 'cannot be read'}") from error
    return sources


def compile_policies(
    sources: Iterable[SourceFile],
    settings: EngineSettings,
    worker: JqWorker,
    bare: BareTarget | None = None,
) -> Snapshot:
    """*sources* and the built-in documents, as the server would put them in force."""
    return build_snapshot(
        sources,
        settings,
        check_query=lambda source, path: worker.check(source, path=path),
        bare=bare,
    )


@contextmanager
def jq_worker() -> Iterator[JqWorker]:
    """A worker for the time of one command. It starts at its first use."""
    worker = JqWorker()
    try:
        yield worker
    finally:
        worker.close()
