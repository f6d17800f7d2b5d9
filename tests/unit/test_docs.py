"""
What the documentation shows is what the program does.

In README.md and docs/, fenced blocks have these meanings:

    ```yaml NAME          a file of that name, for the commands below it; its first line is
                          `# NAME`, since nothing behind the backticks is shown to a reader
    ```console            `$ gatewright …` lines, each with what it prints
    ```json WHAT FILE#N   WHAT (`decision-record`, `audit-annotation`, `denial`, `event`,
                          `policy-report`) of a document of examples/
    ```text catalogue T   a table of what is built in

`python -m tests.unit.test_docs` writes the real output into them; look at the diff afterwards.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import logging
import os
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from pathlib import Path

import orjson
import pytest

from tests.builders import JsonObject
from tests.reference_metrics import families
from webhook.admission.decode import Review
from webhook.admission.existing import judge_existing
from webhook.admission.record import audit_annotation, decision_record
from webhook.admission.refusals import refusal_of
from webhook.admission.response import respond
from webhook.admission.review import review
from webhook.admission.texts import to_json
from webhook.catalog import builtin_documents
from webhook.cli import COMMANDS, main
from webhook.clients.event_book import EventBook
from webhook.clients.events import event_of
from webhook.errors import PrometheusFault
from webhook.model.decision import Decision, Rule
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import load_file
from webhook.model.request import AdmissionRequest, Operation, Phase
from webhook.model.settings import EngineSettings
from webhook.policy.rules.judge import show
from webhook.reports.documents import POLICY_REPORTS, build_report
from webhook.reports.findings import Findings, Subject, results_of
from webhook.settings import OPTIONS, RECONCILE_OPTIONS
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.directory import read_sources
from webhook.store.snapshot import Snapshot
from webhook.telemetry.logs import DECISION_LOGGER, JsonFormatter
from webhook.telemetry.metrics import Metrics, ReconcilerMetrics, ServerMetrics

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "certs" / "README.md",
    ROOT / "charts" / "gatewright" / "README.md",
]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]

_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
_COMMAND = re.compile(
    r"^\s*(?:\$ |docker run |\.venv/bin/)?(?:gatewright|python -m webhook) ([a-z]+)\b(.*)"
)


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands behind the backticks, and what is inside."""

    info: str
    body: str


def blocks_of(text: str) -> list[Block]:
    return [Block(found["info"].strip(), found["body"]) for found in _BLOCK.finditer(text)]


# --- running what is shown ---


def render(text: str) -> str:
    """*text* with the real output in its blocks."""
    with working_directory() as directory:

        def replace(found: re.Match[str]) -> str:
            info, body = found["info"].strip(), found["body"]
            return f"```{found['info']}\n{_real(info, body, directory)}```"

        return _BLOCK.sub(replace, text)


def _real(info: str, body: str, directory: Path) -> str:
    match info.split():
        case ["yaml", name]:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(body)
            return body
        case ["console"]:
            return "".join([run(line) for line in body.splitlines() if line.startswith("$ ")])
        case ["json", what, document]:
            return record_of(what, document)
        case ["text", "catalogue", table]:
            return "".join([f"{line}\n" for line in TABLES[table]()])
        case _:
            return body


@contextlib.contextmanager
def working_directory() -> Iterator[Path]:
    """A directory that holds the examples and nothing else, and is the current one."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "examples").symlink_to(ROOT / "examples")
        with contextlib.chdir(directory):
            yield directory


def run(line: str) -> str:
    """A command line and what it prints, errors first."""
    words = shlex.split(line.removeprefix("$ "))
    assert words[0] == "gatewright", f"can't run {line!r}"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(words[1:])
    return f"{line}\n{err.getvalue()}{out.getvalue()}"


MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def record_of(what: str, document: str) -> str:
    """What is kept or told of the review of one example, as indented JSON."""
    file, _, index = document.rpartition("#")
    snapshot = build_snapshot(read_sources(ROOT / "examples" / "policies"), EngineSettings())
    value = load_file(ROOT / file)[int(index)].value
    request = AdmissionRequest(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002",
        kind=GroupVersionKind.of(value),
        operation=Operation.CREATE,
        object=value,
        namespace=value["metadata"]["namespace"],
        user="ada",
    )
    if what == "policy-report":
        value["metadata"]["uid"] = "0a1b2c3d-6393-11e8-b7cc-42010a800002"
        return indented(to_json(policy_report_of(value, snapshot)))
    decision = review(request, Phase.MUTATE, snapshot)
    if what == "audit-annotation":
        return indented(audit_annotation(decision))
    if what == "denial":
        answer = respond(Review("admission.k8s.io/v1", request), decision)
        return indented(to_json(answer["response"]["status"]))
    if what == "event":
        return indented(to_json(event_about(request, decision)))
    record = decision_record(
        request,
        decision,
        phase=Phase.MUTATE.value,
        branch=snapshot.branch(request.namespace),
        snapshot=snapshot.revision,
        duration_s=0.001,
    )
    entry = logging.LogRecord(DECISION_LOGGER, logging.INFO, "", 0, "review answered", None, None)
    entry.created = MOMENT.timestamp()
    entry.fields = record
    return indented(JsonFormatter().format(entry))


def policy_report_of(value: JsonObject, snapshot: Snapshot) -> JsonObject:
    """The report of a namespace in which *value* runs."""
    findings = Findings()
    for result in results_of(Subject.of(value), judge_existing(value, snapshot)):
        findings.add(result)
    [(namespace, found)] = findings.by_namespace.items()
    return build_report(POLICY_REPORTS, namespace, found, owner=None, time=MOMENT).document


def event_about(request: AdmissionRequest, decision: Decision) -> JsonObject:
    """The Event that tells this denial, for the third time."""
    refusal = refusal_of(request, decision)
    assert refusal is not None
    book = EventBook()
    for minute in range(3):
        book.add(refusal, 0.0, MOMENT + timedelta(minutes=minute))
    series = book.next()
    assert series is not None
    return event_of(series, f"{refusal.namespace}.0123456789abcdef", "gatewright-6d5f-x7k2p")


def indented(text: str | bytes) -> str:
    return orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2).decode() + "\n"


def draw_picture(name: str) -> str:
    """The picture of docs/ that *name* is of, drawn by the command that its page shows."""
    with working_directory() as directory:
        run(f"$ gatewright {PICTURES[name]} --plot {name}")
        return (directory / name).read_text()


PICTURES = {"gpu.svg": "gpu simulate --enforce examples/gpu"}


def list_selectors() -> Iterator[str]:
    for document in builtin_documents():
        if document.kind == "SpecMapping":
            yield str(document.spec.workload_type)
            for name, selector in document.spec.spec_selectors.items():
                groups = " + ".join(selector.field_groups)
                yield f"  {name:<16} {groups:<38} {selector.description}"


def list_fields() -> Iterator[str]:
    for document in builtin_documents():
        if document.kind == "FieldGroup":
            yield f"{document.spec.name}: {document.spec.description}"
            yield from in_columns(
                [
                    (name, f"map of {field.type}" if field.formatter else str(field.type))
                    for name, field in document.spec.fields.items()
                ]
            )


def in_columns(fields: list[tuple[str, str]]) -> Iterator[str]:
    """Names by type: one line or more for each type."""
    by_type: dict[str, list[str]] = {}
    for name, type_name in fields:
        by_type.setdefault(type_name, []).append(name)
    for type_name, names in by_type.items():
        lines = textwrap.wrap(", ".join(names), 90, break_on_hyphens=False)
        for first, line in zip([type_name, *[""] * len(lines)], lines, strict=False):
            yield f"  {first:<16} {line}"


def list_server_defaults() -> Iterator[str]:
    for document in builtin_documents():
        if document.kind == "SpecMapping":
            for name, selector in document.spec.spec_selectors.items():
                shown = [
                    f"{field} ({' or '.join([show(value) for value in values])})"
                    for field, values in selector.server_defaults.items()
                ]
                lines = textwrap.wrap(", ".join(shown), 80, break_on_hyphens=False)
                kind = document.spec.workload_type.kind
                for first, line in zip([f"{kind} {name}", *[""] * 9], lines, strict=False):
                    yield f"{first:<26} {line}"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "selectors": list_selectors,
    "fields": list_fields,
    "server-defaults": list_server_defaults,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_documentation_shows_what_the_program_really_prints(name: str) -> None:
    text = (ROOT / name).read_text()

    assert render(text) == text, "run python -m tests.unit.test_docs and look at the diff"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_command_beside_it_draws(name: str) -> None:
    page = (ROOT / "docs" / name).with_suffix(".md").read_text()

    assert f"gatewright {PICTURES[name]} --plot {name}\n" in page
    assert f"]({name})" in page
    shown = (ROOT / "docs" / name).read_text()
    assert draw_picture(name) == shown, "run python -m tests.unit.test_docs and look at it"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_to_save_begins_with_its_name(name: str) -> None:
    files = [
        (block.info.removeprefix("yaml "), block.body.partition("\n")[0])
        for block in blocks_of((ROOT / name).read_text())
        if block.info.startswith("yaml ")
    ]

    assert [first for _, first in files] == [f"# {file}" for file, _ in files]


def test_a_page_saves_no_two_files_under_one_name() -> None:
    """A reader who saves all blocks of a page has all of them in the end."""
    files = [
        (name, block.info)
        for name in NAMES
        for block in blocks_of((ROOT / name).read_text())
        if block.info.startswith("yaml ")
    ]

    assert files
    assert sorted(set(files)) == sorted(files)


def test_the_readme_shows_a_policy_and_the_denial_that_it_gives() -> None:
    blocks = blocks_of((ROOT / "README.md").read_text())
    shown = "\n".join([block.body for block in blocks if block.info == "console"])

    assert any("kind: GVKPolicy" in block.body for block in blocks)
    assert ": denied" in shown
    assert "✗" in shown


# --- what is named exists ---


@pytest.mark.parametrize("name", NAMES)
def test_every_relative_link_leads_somewhere(name: str) -> None:
    path = ROOT / name
    links = [link for link in _LINK.findall(path.read_text()) if "://" not in link]
    missing = [
        link
        for link in links
        if not (path.parent / link.partition("#")[0]).exists() or not has_heading(path, link)
    ]

    assert missing == []


def has_heading(path: Path, link: str) -> bool:
    """Whether the part of *link* behind `#`, if any, is a heading of the document it leads to."""
    file, _, anchor = link.partition("#")
    if not anchor:
        return True
    text = _BLOCK.sub("", (path.parent / file if file else path).read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return anchor in [
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
    ]


@cache
def flags_by_command() -> Mapping[str, set[str]]:
    flags: dict[str, set[str]] = {}
    for name in COMMANDS:
        parser = argparse.ArgumentParser()
        import_module(f"webhook.cli.{name}").add_parser(parser.add_subparsers())
        flags[name] = set(flags_of(parser))
    return flags


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The flags of *parser*, and of the commands that it has."""
    yield from parser._option_string_actions
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from flags_of(command)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_flag_that_is_named_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    known = flags_by_command()
    bodies = [block.body.replace("\\\n", " ") for block in blocks_of(text) if block.info != "text"]
    spans = _CODE_SPAN.findall(_BLOCK.sub("", text))
    unknown: list[str] = []
    for line in [line for body in bodies for line in body.splitlines()] + spans:
        for command, rest in _COMMAND.findall(line):
            if command not in known:
                unknown.append(f"gatewright {command}")
            else:
                flags = _FLAG.findall(rest.partition(" | ")[0])
                unknown += [flag for flag in flags if flag not in known[command]]
    every_flag = {flag for flags in known.values() for flag in flags} | {"--version"}
    for span in spans:
        if span.startswith("--"):
            unknown += [flag for flag in _FLAG.findall(span) if flag not in every_flag]

    assert unknown == []


# --- what is said to be missing is missing ---


def test_the_readme_counts_the_kinds_that_are_built_in() -> None:
    text = (ROOT / "README.md").read_text()
    mappings = [document for document in builtin_documents() if document.kind == "SpecMapping"]

    assert f"[{len(mappings)} kinds]" in text


# --- lists are complete ---


def read_docs(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def code_spans(name: str) -> set[str]:
    return set(_CODE_SPAN.findall(_BLOCK.sub("", read_docs(name))))


# What makes the metrics of both commands, and those of one of them.
REGISTRIES: list[Callable[[Metrics], object] | None] = [None, ServerMetrics, ReconcilerMetrics]


def test_variables_and_metrics_that_are_named_exist() -> None:
    settings = {option.variable for option in (*OPTIONS, *RECONCILE_OPTIONS)}
    metrics = [family.name for more in REGISTRIES for family in families(more)]
    known = {*settings, "GATEWRIGHT_CONFIG", *metrics}
    named = {
        span
        for name in NAMES
        for span in _CODE_SPAN.findall(_BLOCK.sub("", (ROOT / name).read_text()))
        if re.fullmatch(r"GATEWRIGHT_[A-Z_]+|gatewright_[a-z_]+", span)
    }

    assert len(named) > 40
    assert named - known == set()


def test_every_field_of_the_decision_record_is_explained() -> None:
    spans = code_spans("auditors.md")
    shown = [b for b in blocks_of(read_docs("auditors.md")) if b.info.startswith("json ")]

    assert shown
    assert [key for block in shown for key in orjson.loads(block.body) if key not in spans] == []


def test_every_rule_is_explained_to_policy_authors() -> None:
    rules = {rule.value for rule in Rule if rule.is_policy_rule}

    assert rules - code_spans("platform-teams.md") == set()


@pytest.mark.slow
def test_reasons_that_are_explained_are_those_that_are_given() -> None:
    said = "\n".join(texts_of_package())
    _, _, section = read_docs("gpu.md").partition("\n## Reasons\n")
    rows = re.findall(r"^\| (`[^|]+) \|", section.partition("\n## ")[0], re.MULTILINE)
    reasons = [reason.removesuffix("…") for row in rows for reason in _CODE_SPAN.findall(row)]

    assert reasons
    assert [part for reason in reasons for part in reason.split("…") if part not in said] == []


def test_every_fault_of_prometheus_is_among_the_conditions() -> None:
    assert {fault.value for fault in PrometheusFault} - code_spans("gpu.md") == set()


def texts_of_package() -> Iterator[str]:
    """All texts in the code of the package, without what is filled into them."""
    for path in (ROOT / "webhook").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "decisions").glob("0*.md"))]

    assert numbers == list(range(1, len(numbers) + 1))


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"
    for path in DOCUMENTS:
        before = path.read_text()
        after = render(before)
        if after != before:
            path.write_text(after)
            sys.stdout.write(f"{path.relative_to(ROOT)} rewritten\n")
    for name in PICTURES:
        (ROOT / "docs" / name).write_text(draw_picture(name))
