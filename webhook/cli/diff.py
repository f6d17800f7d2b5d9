"""`gatewright diff`: which workloads two sets of policies decide differently."""

from __future__ import annotations

import argparse
import contextlib
import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from webhook.admission.existing import kinds_to_judge
from webhook.admission.trial import (
    Reviewed,
    Submission,
    namespace_of,
    try_existing,
    try_submission,
)
from webhook.cli.cluster import (
    Cluster,
    add_cluster_flags,
    add_namespace_flag,
    check_cluster_flags,
    engine_settings,
    open_cluster,
)
from webhook.cli.manifests import read_file
from webhook.cli.policies import (
    add_policy_flags,
    bare_target,
    compile_policies,
    jq_worker,
    read_policies,
)
from webhook.cli.printing import GREEN, RED, RESET, add_output_flag, complain, write_lines
from webhook.cli.review import source_of
from webhook.cli.reviews import findings_of, title_of, verdict_of, write_elements
from webhook.errors import ManifestError, SettingsError
from webhook.mapping.evaluator import JqWorker
from webhook.model.manifests import Manifest
from webhook.store.snapshot import Snapshot

NAME = "diff"
HELP = "say which workloads two sets of policies decide differently"
_DESCRIPTION = """
Judges every document of every FILE, and with --running what the cluster holds, by the policies of
OLD_DIR and by those of NEW_DIR. Exit code: 0 if nothing differs, 1 if something does, 2 on unusable
input, or where something that runs can't be listed.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    parser.add_argument("old", metavar="OLD_DIR", type=Path, help="the policies as they are")
    parser.add_argument("new", metavar="NEW_DIR", type=Path, help="the policies as they would be")
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="manifests, or a directory; - reads stdin"
    )
    add_policy_flags(parser, with_policies=False)
    add_namespace_flag(parser)
    parser.add_argument("--project", metavar="P", help="of the FILEs (default: the namespace's)")
    parser.add_argument("--department", metavar="D", help="of the FILEs (default: the namespace's)")
    parser.add_argument("--running", action="store_true", help="judge what the cluster holds")
    add_output_flag(parser, "text", "json", "yaml")
    add_cluster_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        if not (args.files or args.running):
            raise SettingsError("name a FILE, or give --running")
        check_cluster_flags(args, "--running")
        if not args.files:
            for flag, given in (("--project", args.project), ("--department", args.department)):
                if given is not None:
                    raise SettingsError(f"{flag} goes with a FILE")
        with contextlib.ExitStack() as stack:
            worker = stack.enter_context(jq_worker())
            manifests = [manifest for file in args.files for manifest in read_file(file)]
            cluster = stack.enter_context(open_cluster(args)) if args.running else None
            sides = _compile(args, worker, cluster, manifests)
            if sides is None:
                return 2
            usual = "default" if cluster is None else cluster.namespace
            pairs: Iterable[Pair] = [
                _submit(each, namespace_of(each, args.namespace, usual), args, sides, worker)
                for each in manifests
            ]
            if cluster is not None:
                pairs = chain(pairs, _running(args, sides, worker, cluster))
            count = _Count()
            _print(pairs, args.output, count)
    except (ManifestError, SettingsError) as error:
        complain(str(error))
        return 2
    if count.failed or (cluster is not None and cluster.is_incomplete):
        return 2
    return 1 if count.different else 0


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both sets of policies, compiled."""

    old: Snapshot
    new: Snapshot


@dataclass(frozen=True, slots=True)
class Pair:
    """One object, decided by the old and by the new policies."""

    before: Reviewed
    after: Reviewed

    @property
    def is_different(self) -> bool:
        return not self.before.decides_as(self.after)

    @property
    def report(self) -> dict[str, Any]:
        """One element of the array that `-o json` prints."""
        before, after = self.before.report, self.after.report
        shared = {key: before[key] for key in ("source", "kind", "namespace", "name")}
        return {**shared, "before": before, "after": after}


def _compile(
    args: argparse.Namespace,
    worker: JqWorker,
    cluster: Cluster | None,
    manifests: Iterable[Manifest],
) -> _Sides | None:
    """Both sets of policies; None where one is wrong, which is said."""
    settings, bare = engine_settings(args), bare_target(args)
    around = []
    if cluster is not None:
        named = {namespace_of(each, args.namespace, cluster.namespace) for each in manifests}
        around.append(cluster.around({*named, *filter(None, [args.namespace])}))
    found = []
    is_sound = True
    for directory in (args.old, args.new):
        snapshot = compile_policies([*read_policies([directory]), *around], settings, worker, bare)
        for problem in snapshot.problems:
            complain(f"{'warning: ' if problem.warning else ''}{problem}")
            is_sound = is_sound and problem.warning
        found.append(snapshot)
    return _Sides(*found) if is_sound else None


def _submit(
    manifest: Manifest, namespace: str, args: argparse.Namespace, sides: _Sides, worker: JqWorker
) -> Pair:
    submission = Submission(namespace=namespace, project=args.project, department=args.department)
    twin = Manifest(manifest.source, manifest.index, manifest.line, copy.deepcopy(manifest.value))
    return Pair(
        try_submission(manifest, submission, sides.old, worker),
        try_submission(twin, submission, sides.new, worker),
    )


def _running(
    args: argparse.Namespace, sides: _Sides, worker: JqWorker, cluster: Cluster
) -> Iterator[Pair]:
    kinds = {*kinds_to_judge(sides.old), *kinds_to_judge(sides.new)}
    for document in cluster.objects(kinds, args.namespace or ""):
        source = source_of(document)
        before = try_existing(document, source, sides.old, worker)
        after = try_existing(document, source, sides.new, worker)
        are_judged = not (before.decision.reason and after.decision.reason)
        if are_judged or before.error or after.error:
            yield Pair(before, after)


@dataclass(slots=True)
class _Count:
    judged: int = 0
    different: int = 0
    failed: int = 0

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.judged} judged: {self.different} decided differently{failed}"


def _different(pairs: Iterable[Pair], count: _Count) -> Iterator[Pair]:
    """Those that differ, or of which one answer is unknown."""
    for pair in pairs:
        count.judged += 1
        is_failed = bool(pair.before.error or pair.after.error)
        count.failed += is_failed
        count.different += pair.is_different
        if pair.is_different or is_failed:
            yield pair


def _print(pairs: Iterable[Pair], output: str, count: _Count) -> None:
    if output == "text":
        write_lines(_text(pairs, count))
    else:
        write_elements((pair.report for pair in _different(pairs, count)), output)


def _text(pairs: Iterable[Pair], count: _Count) -> Iterator[str]:
    for pair in _different(pairs, count):
        before, after = verdict_of(pair.before), verdict_of(pair.after)
        change = after if before == after else f"{before} -> {after}"
        yield f"{title_of(pair.after)}: {change}"
        old, new = (
            [f"{mark} {text}" for mark, text in findings_of(side.decision)]
            for side in (pair.before, pair.after)
        )
        yield from [f"  {RED}-{RESET} {line}" for line in old if line not in new]
        yield from [f"  {GREEN}+{RESET} {line}" for line in new if line not in old]
    yield str(count)
