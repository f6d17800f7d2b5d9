"""`gatewright review`: what the gate would say to manifests, and what it says to what runs."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from webhook.admission.existing import kinds_to_judge
from webhook.admission.report import warnings_of
from webhook.admission.texts import clean
from webhook.admission.trial import (
    Reviewed,
    Submission,
    kind_of,
    name_of,
    namespace_of,
    try_existing,
    try_submission,
)
from webhook.cli.cluster import (
    Cluster,
    add_cluster_flags,
    add_kubernetes_flag,
    add_namespace_flag,
    check_cluster_flags,
    engine_settings,
    open_cluster,
)
from webhook.cli.manifests import add_file_flags, read_file, read_manifests, read_objects
from webhook.cli.policies import (
    add_policy_flags,
    bare_target,
    compile_policies,
    jq_worker,
    read_policies,
)
from webhook.cli.printing import add_output_flag, complain, to_json, write_lines
from webhook.cli.reviews import Tally, lines_of, write_elements
from webhook.errors import ManifestError, SettingsError
from webhook.mapping.evaluator import JqWorker
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import Manifest
from webhook.model.request import Operation
from webhook.store.compile.inputs import SourceFile
from webhook.store.snapshot import Snapshot

NAME = "review"
HELP = "say what the gate would answer to manifests, or to what a cluster runs"
_DESCRIPTION = """
Completes and judges every document of every FILE (YAML or JSON, `-` for standard input) as the
server would. No cluster is asked unless --kubernetes or --running is given. Exit code: 0 if all are
allowed, 1 if one is denied, 2 on unusable input, or where something that runs can't be listed.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    add_file_flags(parser)
    add_policy_flags(parser)
    add_namespace_flag(parser)
    parser.add_argument("--project", metavar="P", help="default: the namespace's")
    parser.add_argument("--department", metavar="D", help="default: the namespace's")
    parser.add_argument(
        "--operation",
        choices=[Operation.CREATE.value, Operation.UPDATE.value],
        help="default: CREATE, with --old UPDATE",
    )
    parser.add_argument("--old", metavar="FILE", help="the objects before an UPDATE")
    parser.add_argument("--user", metavar="NAME", default="", help="who submits")
    parser.add_argument(
        "--manifests-only",
        action="store_true",
        help="pass over what is no Kubernetes object (values, templates); for hooks",
    )
    parser.add_argument(
        *("--quiet", "-q"),
        action="store_true",
        help="as text, only what is refused, failed or warned of; with --running always so",
    )
    add_output_flag(parser, "text", "json", "yaml", "patch")
    add_cluster_flags(parser)
    add_kubernetes_flag(parser)
    parser.add_argument(
        "--running",
        action="store_true",
        help="judge what the cluster holds, as it stands; --kubernetes is implied",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    args.kubernetes = args.kubernetes or args.running or args.is_plugin
    try:
        _check_flags(args)
        with contextlib.ExitStack() as stack:
            worker = stack.enter_context(jq_worker())
            bare = bare_target(args)
            given = read_policies(args.policies)
            manifests = _manifests(args)
            cluster = None
            if args.kubernetes:
                cluster = stack.enter_context(open_cluster(args))
                given += _cluster_sources(args, cluster, manifests)
            snapshot = compile_policies(given, engine_settings(args), worker, bare)
            if not _tell_problems(snapshot, args, cluster):
                # An answer without these policies would not be the server's.
                return 2
            submitter = _Submitter(args, snapshot, worker, cluster)
            # All of them before the first is printed: one may be unusable.
            reviewed: Iterable[Reviewed] = [submitter.review(manifest) for manifest in manifests]
            tally = Tally()
            if args.running and cluster is not None:
                running = review_running(snapshot, worker, cluster, args.namespace or "")
                reviewed = _chained(reviewed, running, tally)
            _print(reviewed, args, tally)
    except (ManifestError, SettingsError) as error:
        complain(str(error))
        return 2
    return 2 if cluster is not None and cluster.is_incomplete else tally.exit_code


def _check_flags(args: argparse.Namespace) -> None:
    """
    Raises:
        SettingsError: flags don't go together.
    """
    if not (_names_files(args) or args.running):
        raise SettingsError("name a FILE, or give --running")
    if args.running:
        for flag, given in (
            ("--project", args.project is not None),
            ("--department", args.department is not None),
            ("--operation", args.operation is not None),
            ("--old", args.old is not None),
            ("--user", bool(args.user)),
            ("-o patch", args.output == "patch"),
        ):
            if given:
                raise SettingsError(f"{flag} does not go with --running")
        if args.manifests_only and not _names_files(args):
            raise SettingsError("--manifests-only goes with a FILE")
    check_cluster_flags(args, "--kubernetes or --running")


def _names_files(args: argparse.Namespace) -> bool:
    return bool(args.files or args.named)


def _manifests(args: argparse.Namespace) -> list[Manifest]:
    if args.manifests_only:
        return list(read_objects([*args.files, *args.named]))
    return read_manifests(args)


def _cluster_sources(
    args: argparse.Namespace, cluster: Cluster, manifests: Iterable[Manifest]
) -> list[SourceFile]:
    """What the cluster says: of policies only where no others are given."""
    named = {namespace_of(each, args.namespace, cluster.namespace) for each in manifests}
    if args.running and args.namespace:
        named.add(args.namespace)
    found = [] if args.policies else cluster.policies()
    return [*found, cluster.around(named)]


def _tell_problems(snapshot: Snapshot, args: argparse.Namespace, cluster: Cluster | None) -> bool:
    """Say what is wrong with the policies. Whether the server would answer the same without it."""
    # The server goes on without what is wrong, and whoever asks can't repair the cluster's.
    are_given = bool(args.policies) or cluster is None
    errors = [problem for problem in snapshot.problems if not problem.warning and are_given]
    for problem in snapshot.problems:
        complain(f"{'' if problem in errors else 'warning: '}{problem}")
    if not errors and not args.policies and cluster is None:
        complain("warning: without --policies only the shipped system policies count")
    return not errors


def review_running(
    snapshot: Snapshot, worker: JqWorker, cluster: Cluster, namespace: str = ""
) -> Iterator[Reviewed]:
    """Reviews of what *cluster* holds, without what is judged with its owner, or not at all."""
    for document in cluster.objects(kinds_to_judge(snapshot), namespace):
        reviewed = try_existing(document, source_of(document), snapshot, worker)
        if reviewed.error or not reviewed.decision.reason:
            yield reviewed


def source_of(document: dict[str, Any]) -> str:
    """How an object of a cluster is named: `cluster:apps/v1/Deployment team-a/web`."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
    return f"cluster:{GroupVersionKind.of(document)} {name}"


def _chained(
    files: Iterable[Reviewed], running: Iterable[Reviewed], tally: Tally
) -> Iterator[Reviewed]:
    yield from files
    for item in running:
        tally.running += 1
        yield item


@dataclass(frozen=True, slots=True)
class _Identity:
    """What an object is the same one by, before and after an update."""

    kind: GroupVersionKind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"


class _Submitter:
    """Submits manifests as the flags say."""

    def __init__(
        self,
        args: argparse.Namespace,
        snapshot: Snapshot,
        worker: JqWorker,
        cluster: Cluster | None,
    ) -> None:
        """
        Raises:
            ManifestError: `--old` can't be read, or holds an object twice.
            SettingsError: `--operation` lacks it.
        """
        self._args = args
        self._snapshot = snapshot
        self._worker = worker
        self._usual_namespace = "default" if cluster is None else cluster.namespace
        self._old = None if args.old is None else self._by_identity(read_file(args.old))
        if args.operation == Operation.UPDATE and self._old is None:
            raise SettingsError("--operation UPDATE needs --old")

    def review(self, manifest: Manifest) -> Reviewed:
        """
        Raises:
            ManifestError: it is no object of Kubernetes, or `--old` lacks it.
        """
        identity = self._identity(manifest)
        old_object: dict[str, Any] | None = None
        if self._old is not None:
            if identity not in self._old:
                raise ManifestError(manifest.name, f"--old has no {clean(str(identity))}")
            old_object = self._old[identity].value
        args = self._args
        submission = Submission(
            namespace=identity.namespace,
            project=args.project,
            department=args.department,
            operation=Operation(args.operation) if args.operation else None,
            old_object=old_object,
            user=args.user,
        )
        return try_submission(manifest, submission, self._snapshot, self._worker)

    def _by_identity(self, manifests: Iterable[Manifest]) -> dict[_Identity, Manifest]:
        objects: dict[_Identity, Manifest] = {}
        for manifest in manifests:
            identity = self._identity(manifest)
            twin = objects.setdefault(identity, manifest)
            if twin is not manifest:
                shown = clean(str(identity))
                raise ManifestError(manifest.name, f"--old has {shown} twice, also as {twin.name}")
        return objects

    def _identity(self, manifest: Manifest) -> _Identity:
        """The flag counts before the document's own namespace."""
        kind = kind_of(manifest)
        namespace = namespace_of(manifest, self._args.namespace, self._usual_namespace)
        return _Identity(kind, namespace, name_of(manifest))


def _print(reviewed: Iterable[Reviewed], args: argparse.Namespace, tally: Tally) -> None:
    match args.output:
        case "json" | "yaml":
            write_elements((item.report for item in _counted(reviewed, tally)), args.output)
        case "patch":
            for item in _counted(reviewed, tally):
                sys.stdout.write(to_json(item.decision.patch) + "\n")
        case _:
            write_lines(_text(reviewed, tally, is_quiet=args.quiet or args.running))


def _counted(reviewed: Iterable[Reviewed], tally: Tally) -> Iterator[Reviewed]:
    for item in reviewed:
        tally.add(item)
        yield item


def _text(reviewed: Iterable[Reviewed], tally: Tally, *, is_quiet: bool) -> Iterator[str]:
    for item in _counted(reviewed, tally):
        is_notable = item.error or warnings_of(item.decision) or not item.decision.allowed
        if is_notable or not is_quiet:
            yield from lines_of(item)
    yield str(tally)
