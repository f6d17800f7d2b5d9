"""`gatewright explain`: the effective policy of a workload type, with lineage."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from webhook.admission.texts import clean
from webhook.cli.cluster import (
    add_cluster_flags,
    add_kubernetes_flag,
    check_cluster_flags,
    engine_settings,
    open_cluster,
)
from webhook.cli.policies import (
    add_policy_flags,
    compile_policies,
    jq_worker,
    parse_workload_type,
    read_policies,
)
from webhook.cli.printing import add_output_flag, complain, to_json, write_line
from webhook.errors import SettingsError
from webhook.model.kinds import NATIVE_KINDS, NATIVE_TYPE_OF, GroupVersionKind, unmapped_hint
from webhook.model.manifests import dump_yaml
from webhook.model.scopes import Branch, Scope
from webhook.policy.effective import holds_at
from webhook.policy.explain import Explained, Overridden, explain
from webhook.policy.plans import PreviewPlan
from webhook.store.compile.inputs import BareTarget, SourceFile
from webhook.store.snapshot import Snapshot

NAME = "explain"
HELP = "show the effective policy: each value and rule, where it comes from, what it overrode"
_DESCRIPTION = """
Shows what is in force for one workload type where a workload would stand: each value and rule with
the policy, scope and unit that it comes from and what it overrode. Without a place, it is what
holds everywhere in this cluster. No cluster is asked unless --kubernetes is given; as a plugin of
kubectl, always. Exit code: 0, or 2 on unusable input.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    parser.add_argument(
        "--workload-type",
        metavar="T",
        required=True,
        help="training, workspace, ..., or group/version/Kind (v1/Pod for the core group)",
    )
    place = parser.add_argument_group("where the workload would stand")
    place.add_argument("--namespace", "-n", metavar="NS", help="in this namespace")
    place.add_argument("--project", metavar="P", help="default: the namespace's")
    place.add_argument(
        "--department", metavar="D", help="default: the one that the project lies in"
    )
    add_policy_flags(parser, with_workload_type=False)
    add_output_flag(parser, "text", "json", "yaml")
    add_cluster_flags(parser, with_running=False)
    add_kubernetes_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    args.kubernetes = args.kubernetes or args.is_plugin
    try:
        check_cluster_flags(args, "--kubernetes")
        workload_type = parse_workload_type(args.workload_type)
        bare = BareTarget(workload_type, args.scope, args.unit) if args.scope else None
        given = [*read_policies(args.policies), *_cluster_sources(args)]
        with jq_worker() as worker:
            snapshot = compile_policies(given, engine_settings(args), worker, bare)
        # The server goes on without what is wrong in the cluster.
        are_given = bool(args.policies) or not args.kubernetes
        errors = [problem for problem in snapshot.problems if not problem.warning and are_given]
        for problem in snapshot.problems:
            complain(f"{'' if problem in errors else 'warning: '}{problem}")
        if errors:
            # What is shown without these policies would not be what the server enforces.
            return 2
        kind = NATIVE_KINDS[workload_type] if isinstance(workload_type, str) else workload_type
        if kind not in snapshot.mappings:
            hint = unmapped_hint(kind, snapshot.mappings)
            raise SettingsError(f"--workload-type: no mapping for {args.workload_type}{hint}")
        branch = _branch(args, snapshot)
    except SettingsError as error:
        complain(str(error))
        return 2
    held = [policy for policy in snapshot.policies.policies_of(kind) if holds_at(policy, branch)]
    plan = snapshot.plan(kind, branch)
    _print(explain(held), kind, branch, args.output, () if plan is None else plan.previews)
    return 0


def _cluster_sources(args: argparse.Namespace) -> list[SourceFile]:
    """What the cluster says: of policies only where no others are given."""
    if not args.kubernetes:
        return []
    with open_cluster(args) as cluster:
        found = [] if args.policies else cluster.policies()
        return [*found, cluster.around({args.namespace} if args.namespace else ())]


def _branch(args: argparse.Namespace, snapshot: Snapshot) -> Branch:
    """
    Where the flags say that the workload stands.

    Raises:
        SettingsError: the project lies in several departments, and none is named.
    """
    if args.department is None and args.project is not None:
        known = sorted(snapshot.territory.departments_of(args.project))
        if len(known) > 1:
            named = ", ".join([f"department {name}" if name else "no department" for name in known])
            raise SettingsError(
                f"project {args.project} has namespaces in {named}; give --department"
            )
    branch = snapshot.branch(args.namespace or "", project=args.project)
    if args.department is not None:
        branch = replace(branch, department=args.department)
    return branch


def _print(
    found: list[Explained],
    kind: GroupVersionKind,
    branch: Branch,
    output: str,
    tried: Sequence[PreviewPlan],
) -> None:
    reports = [item.report for item in found]
    match output:
        case "json":
            sys.stdout.write(to_json(reports, indent=2) + "\n")
        case "yaml":
            sys.stdout.write(dump_yaml([reports]))
        case _:
            for line in _text(found, kind, branch, tried):
                write_line(line)


def _text(
    found: list[Explained], kind: GroupVersionKind, branch: Branch, tried: Sequence[PreviewPlan]
) -> Iterator[str]:
    units = [
        f"{scope} {branch.unit(scope)}"
        for scope in reversed(Scope)
        if scope.has_unit and branch.unit(scope)
    ]
    title = NATIVE_TYPE_OF.get(kind, str(kind)) + (f" in {', '.join(units)}" if units else "")
    in_force = "policy in force" if tried else "policy"
    yield clean(title if found else f"no {in_force} concerns {title}")
    for preview in tried:
        yield clean(f"only tried, mode {preview.mode}: {preview.source}")
    for (field, selector), group in groupby(found, key=lambda item: (item.field, item.selector)):
        yield clean(f"{field} [{selector}]")
        for item in group:
            yield f"  {item.rule} {_show(item.value)} ({clean(str(item.source))})"
            for other in item.overrides:
                rule = "" if other.rule is item.rule else f"{other.rule} "
                value = f"{rule}{_show(other.value)} ({clean(str(other.source))})"
                yield f"    {_overridden(value, item, other)}"


def _overridden(value: str, item: Explained, other: Overridden) -> str:
    """In which direction: a narrower policy replaces a wider one, or a wider one holds on."""
    breadths = other.source.scope.breadth, item.source.scope.breadth
    if breadths[0] < breadths[1]:
        return f"instead of {value}, which is wider"
    if breadths[0] > breadths[1]:
        return f"without effect: {value}, which is narrower"
    return f"without effect: {value}, of the same scope"


def _show(value: Any) -> str:
    return clean(value if isinstance(value, str) else to_json(value))
