"""Flags that name policies, and loading what they name: the same for every offline command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webhook.errors import SettingsError
from webhook.mapping.evaluator import JqWorker
from webhook.model.kinds import NATIVE_KINDS, GroupVersionKind
from webhook.model.scopes import Scope
from webhook.model.settings import EngineSettings
from webhook.store.build import BareTarget, build_snapshot
from webhook.store.directory import read_sources
from webhook.store.snapshot import Snapshot


def add_policy_flags(parser: argparse.ArgumentParser, *, with_policies: bool = True) -> None:
    """The flags of `review`, `lint`, `explain` and `diff` that say which policies count."""
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
    workload_type: object = args.workload_type
    if "/" in args.workload_type:
        try:
            workload_type = GroupVersionKind.parse(args.workload_type)
        except ValueError as error:
            raise SettingsError(f"--workload-type: {error}") from error
    elif args.workload_type.lower() not in [name.lower() for name in NATIVE_KINDS]:
        raise SettingsError(
            f"--workload-type: {args.workload_type!r} is none of {', '.join(NATIVE_KINDS)}"
            " and no group/version/Kind"
        )
    return BareTarget(workload_type, args.scope, args.unit)


def load_policies(paths: list[Path], args: argparse.Namespace, worker: JqWorker) -> Snapshot:
    """
    Compile what *paths* hold, with the built-in documents.

    Raises:
        SettingsError: a path is not there, or the flags don't go together.
    """
    bare = bare_target(args)
    sources = []
    for path in paths:
        try:
            sources += read_sources(path)
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror or 'cannot be read'}") from error
    settings = EngineSettings(cluster_name=args.cluster_name)
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


def complain(message: str) -> None:
    """One line about unusable input."""
    sys.stderr.write(f"gatewright: {message}\n")
