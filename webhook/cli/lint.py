"""`gatewright lint`: everything that is wrong in a set of policy documents."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from webhook.cli.policies import add_policy_flags, bare_target, jq_worker, load_policies
from webhook.cli.printing import complain, write_line
from webhook.errors import SettingsError
from webhook.model.manifests import Manifest
from webhook.model.rightsizing.policies import GROUP
from webhook.reactive.scenarios.scenario import check_scenario, is_scenario
from webhook.store.compile.inputs import SourceFile
from webhook.store.rightsizing import check_sources, kinds_of
from webhook.store.snapshot import DocumentProblem, ProblemReason

NAME = "lint"
HELP = "find every error in policy documents"
_DESCRIPTION = """
Reads policy documents as the server would and reports every error with file, document and path.
All PATHs are one set: documents may refer to one another. Exit code: 0 if there is no error
(warnings count with --strict), 1 if there is one, 2 if a PATH can't be read.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="a file or directory")
    parser.add_argument("--strict", action="store_true", help="warnings are errors")
    add_policy_flags(parser, with_policies=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        with jq_worker() as worker:
            snapshot = load_policies(args.paths, args.cluster_name, worker, bare_target(args))
    except SettingsError as error:
        complain(str(error))
        return 2
    sources = [source for source in snapshot.sources if isinstance(source, SourceFile)]
    rightsizing = check_sources(sources, kinds=kinds_of(snapshot.mappings))
    scenarios = [
        manifest
        for source in sources
        for manifest in source.manifests
        if is_scenario(manifest.value)
    ]
    found = [problem for manifest in scenarios for problem in _scenario_problems(manifest)]
    problems = sorted(
        (*snapshot.problems, *rightsizing.problems, *found),
        key=lambda item: (item.document, item.path),
    )
    errors = 0
    for problem in problems:
        is_error = args.strict or not problem.warning
        errors += is_error
        label = "error" if is_error else "warning"
        write_line(f"{problem.document}: {label}: {_place(problem.path)}{problem.problem}")
    warnings = len(problems) - errors
    documents = len(snapshot.documents)
    counts = [f"{_count(documents, 'document')} in force"]
    if rightsizing.readable:
        # In force is what the reconciler finds in a cluster.
        counts.append(f"{_count(rightsizing.readable, 'document')} of {GROUP} read")
    if scenarios:
        counts.append(f"{_count(len(scenarios), 'scenario')} read")
    counts += [_count(errors, "error"), _count(warnings, "warning")]
    write_line(", ".join(counts))
    return 1 if errors else 0


def _scenario_problems(manifest: Manifest) -> Iterator[DocumentProblem]:
    errors, doubts = check_scenario(manifest.value)
    for error in errors:
        yield DocumentProblem(manifest.name, error.path, error.problem)
    for doubt in doubts:
        reason = ProblemReason.ADVICE
        yield DocumentProblem(manifest.name, doubt.path, doubt.problem, warning=True, reason=reason)


def _place(path: str) -> str:
    return f"{path}: " if path else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
