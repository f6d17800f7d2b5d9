"""`gatewright review`: what the gate would say to manifests, without a cluster."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook.admission.response import violation_line
from webhook.admission.texts import clean
from webhook.admission.trial import (
    Reviewed,
    Submission,
    kind_of,
    name_of,
    namespace_of,
    try_submission,
)
from webhook.cli.policies import (
    add_policy_flags,
    bare_target,
    complain,
    jq_worker,
    load_policies,
)
from webhook.errors import ManifestError, SettingsError
from webhook.mapping.evaluator import JqWorker
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import Manifest, dump_yaml, load_documents, load_file
from webhook.model.pointer import to_pointer
from webhook.model.request import Operation
from webhook.store.directory import find_files
from webhook.store.snapshot import Snapshot

NAME = "review"
HELP = "say what the gate would answer to manifests, without a cluster"
_DESCRIPTION = """
Completes and judges every document of every FILE (YAML or JSON, `-` for standard input) as the
server would. Exit code: 0 if all are allowed, 1 if one is denied, 2 on unusable input.
"""

_RED, _GREEN, _YELLOW, _RESET = "\033[31m", "\033[32m", "\033[33m", "\033[0m"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="manifests, or a directory; - reads stdin"
    )
    add_policy_flags(parser)
    parser.add_argument(
        "--namespace", "-n", metavar="NS", help="default: the document's, else default"
    )
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
        "-o", dest="output", choices=["text", "json", "yaml", "patch"], default="text"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        with jq_worker() as worker:
            bare = bare_target(args)
            snapshot = load_policies(args.policies, args.cluster_name, worker, bare)
            errors = [problem for problem in snapshot.problems if not problem.warning]
            for problem in snapshot.problems:
                complain(f"{'warning: ' if problem.warning else ''}{problem}")
            if errors:
                # An answer without these policies would not be the server's.
                return 2
            if not args.policies:
                complain("warning: without --policies only the shipped system policies count")
            manifests = [manifest for file in args.files for manifest in _read(file)]
            old = _old_objects(args)
            reviewed = [_review(manifest, args, snapshot, worker, old) for manifest in manifests]
    except (ManifestError, SettingsError) as error:
        complain(str(error))
        return 2
    _print(reviewed, args.output)
    if any(item.error for item in reviewed):
        return 2
    return 0 if all(item.decision.allowed for item in reviewed) else 1


def _read(file: str) -> list[Manifest]:
    if file == "-":
        return load_documents(sys.stdin.buffer.read(), "stdin")
    path = Path(file)
    if path.is_dir():
        return [manifest for below in find_files(path) for manifest in load_file(below)]
    return load_file(path)


@dataclass(frozen=True, slots=True)
class _Identity:
    """What an object is the same one by, before and after an update."""

    kind: GroupVersionKind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"


def _old_objects(args: argparse.Namespace) -> dict[_Identity, Manifest] | None:
    """
    The documents of `--old` by what they are.

    Raises:
        ManifestError: two of them are the same object.
    """
    if args.old is None:
        return None
    objects: dict[_Identity, Manifest] = {}
    for manifest in _read(args.old):
        identity = _identity(manifest, args.namespace)
        twin = objects.setdefault(identity, manifest)
        if twin is not manifest:
            shown = clean(str(identity))
            raise ManifestError(manifest.name, f"--old has {shown} twice, also as {twin.name}")
    return objects


def _identity(manifest: Manifest, namespace: str | None) -> _Identity:
    """*namespace* is the flag, which counts before the document's own."""
    return _Identity(kind_of(manifest), namespace_of(manifest, namespace), name_of(manifest))


def _review(
    manifest: Manifest,
    args: argparse.Namespace,
    snapshot: Snapshot,
    worker: JqWorker,
    old: dict[_Identity, Manifest] | None,
) -> Reviewed:
    identity = _identity(manifest, args.namespace)
    old_object: dict[str, Any] | None = None
    if old is not None:
        if identity not in old:
            raise ManifestError(manifest.name, f"--old has no {clean(str(identity))}")
        old_object = old[identity].value
    elif args.operation == Operation.UPDATE:
        raise SettingsError("--operation UPDATE needs --old")
    submission = Submission(
        namespace=args.namespace,
        project=args.project,
        department=args.department,
        operation=Operation(args.operation) if args.operation else None,
        old_object=old_object,
        user=args.user,
    )
    return try_submission(manifest, submission, snapshot, worker)


def _print(reviewed: list[Reviewed], output: str) -> None:
    match output:
        case "json":
            sys.stdout.write(_json([item.report for item in reviewed], indent=2) + "\n")
        case "yaml":
            sys.stdout.write(dump_yaml([[item.report for item in reviewed]]))
        case "patch":
            for item in reviewed:
                sys.stdout.write(_json(item.decision.patch) + "\n")
        case _:
            colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
            for line in _text(reviewed):
                sys.stdout.write((line if colour else _plain(line)) + "\n")


def _plain(line: str) -> str:
    for code in (_RED, _GREEN, _YELLOW, _RESET):
        line = line.replace(code, "")
    return line


def _text(reviewed: list[Reviewed]) -> Iterator[str]:
    for item in reviewed:
        yield f"{_title(item)}: {_verdict(item)}"
        decision = item.decision
        told = Counter(
            [(change.field, change.selector, change.item) for change in decision.changes]
        )
        for change in decision.changes:
            where = f" [{change.selector} {change.item}]".replace(" ]", "]")
            if told[change.field, change.selector, change.item] > 1:
                # A formatter wrote at several spots.
                where += f" at {to_pointer(change.path)}"
            old = "" if change.old is None else f"{_show(change.old)} -> "
            yield (
                f"  {_YELLOW}~{_RESET} {clean(change.field + where)}: {old}"
                f"{_show(change.new)} ({change.rule}, {change.source})"
            )
        for warning in decision.warnings:
            yield f"  {_YELLOW}!{_RESET} {clean(warning)}"
        for violation in decision.violations:
            yield f"  {_RED}✗{_RESET} {violation_line(violation)}"
    denied = sum([not item.decision.allowed and not item.error for item in reviewed])
    failed = sum([bool(item.error) for item in reviewed])
    unmapped = sum([not item.decision.mapped for item in reviewed])
    yield (
        f"{len(reviewed)} reviewed: {len(reviewed) - denied - failed} allowed"
        f" ({unmapped} of them not mapped), {denied} denied, {failed} failed"
    )


def _title(item: Reviewed) -> str:
    request = item.request
    name = request.display_name
    return clean(f"{item.source} {request.kind.kind} {request.namespace}/{name}")


def _verdict(item: Reviewed) -> str:
    if item.error:
        return f"{_RED}failed{_RESET}, {clean(item.error)}"
    if not item.decision.allowed:
        return f"{_RED}denied{_RESET}"
    if item.decision.changes:
        return f"{_GREEN}allowed{_RESET}, completed"
    reason = f", {item.decision.reason}" if item.decision.reason else ""
    return f"{_GREEN}allowed{_RESET}{reason}"


def _show(value: Any) -> str:
    return clean(value if isinstance(value, str) else _json(value))


def _json(value: Any, *, indent: int | None = None) -> str:
    """JSON by the standard library: a manifest may hold what orjson stops at (64 bits, depth)."""
    return json.dumps(value, indent=indent, ensure_ascii=False)
