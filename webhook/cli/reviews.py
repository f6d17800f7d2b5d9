"""Reviews as people and programs read them, one after another: none is kept."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from webhook.admission.report import warnings_of
from webhook.admission.response import violation_line
from webhook.admission.texts import clean
from webhook.admission.trial import Reviewed
from webhook.cli.printing import GREEN, RED, RESET, YELLOW, to_json
from webhook.model.decision import Change, Decision
from webhook.model.manifests import dump_yaml
from webhook.model.pointer import to_pointer


@dataclass(slots=True)
class Tally:
    """How many reviews ended in which way. *running* are those of objects of a cluster."""

    reviewed: int = 0
    denied: int = 0
    failed: int = 0
    unmapped: int = 0
    running: int = 0

    def add(self, item: Reviewed) -> None:
        self.reviewed += 1
        self.failed += bool(item.error)
        self.denied += not item.decision.allowed and not item.error
        self.unmapped += not item.decision.mapped

    @property
    def exit_code(self) -> int:
        """Whether all are allowed, one is denied, or of one nothing is known."""
        if self.failed:
            return 2
        return 1 if self.denied else 0

    def __str__(self) -> str:
        allowed = self.reviewed - self.denied - self.failed
        # Of what runs, only kinds with a mapping are looked at.
        only_running = self.running and self.running == self.reviewed
        unmapped = "" if only_running else f" ({self.unmapped} of them not mapped)"
        return (
            f"{self.reviewed} reviewed: {allowed} allowed{unmapped}, {self.denied} denied,"
            f" {self.failed} failed"
        )


def write_elements(elements: Iterable[Any], output: str) -> None:
    """
    *elements* as one array, each as it comes; *output* is `json` or `yaml`.

    An array of thousands of objects is never in memory as a whole.
    """
    is_empty = True
    for element in elements:
        if output == "json":
            start = "[\n" if is_empty else ",\n"
            sys.stdout.write(start + textwrap.indent(to_json(element, indent=2), "  "))
        else:
            sys.stdout.write(dump_yaml([[element]]))
        is_empty = False
    if is_empty:
        sys.stdout.write("[]\n")
    elif output == "json":
        sys.stdout.write("\n]\n")


def title_of(item: Reviewed) -> str:
    """Where the object is from, and what it is."""
    request = item.request
    if item.source.startswith("cluster:"):
        return clean(item.source)
    return clean(f"{item.source} {request.kind.kind} {request.namespace}/{request.display_name}")


def verdict_of(item: Reviewed) -> str:
    """The answer in a word or two, with colours."""
    if item.error:
        return f"{RED}failed{RESET}, {clean(item.error)}"
    if not item.decision.allowed:
        return f"{RED}denied{RESET}"
    if item.decision.changes:
        return f"{GREEN}allowed{RESET}, completed"
    reason = f", {item.decision.reason}" if item.decision.reason else ""
    return f"{GREEN}allowed{RESET}{reason}"


def lines_of(item: Reviewed) -> Iterator[str]:
    """A review in full: the answer, then each thing that is behind it."""
    yield f"{title_of(item)}: {verdict_of(item)}"
    for mark, text in findings_of(item.decision):
        yield f"  {mark} {text}"


def findings_of(decision: Decision) -> Iterator[tuple[str, str]]:
    """Each change (`~`), warning (`!`) and violation (`✗`), after its mark in colour."""
    told = Counter([(change.field, change.selector, change.item) for change in decision.changes])
    for change in decision.changes:
        # A formatter wrote at several spots.
        is_one_of_several = told[change.field, change.selector, change.item] > 1
        yield f"{YELLOW}~{RESET}", _change_line(change, with_path=is_one_of_several)
    for warning in warnings_of(decision):
        yield f"{YELLOW}!{RESET}", clean(warning)
    for violation in decision.violations:
        yield f"{RED}✗{RESET}", violation_line(violation)


def _change_line(change: Change, *, with_path: bool) -> str:
    where = f" [{change.selector} {change.item}]".replace(" ]", "]")
    if with_path:
        where += f" at {to_pointer(change.path)}"
    old = "" if change.old is None else f"{_show(change.old)} -> "
    return (
        f"{clean(change.field + where)}: {old}{_show(change.new)} ({change.rule}, {change.source})"
    )


def _show(value: Any) -> str:
    return clean(value if isinstance(value, str) else to_json(value))
