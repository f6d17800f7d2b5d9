"""A field of one value that a formatter reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.mapping.formatters import FormatterField
from webhook.model.decision import Rule
from webhook.model.values import ValueTypeError, json_type, read_value, same_value
from webhook.policy.computed import (
    INEXACT,
    UNKNOWN,
    Broken,
    Inquiry,
    LeftOut,
    Spot,
    Unknown,
    Written,
    has_inexact,
    plain_numbers,
)
from webhook.policy.enforcement import Enforcement
from webhook.policy.judge import Problem, judge, show


class FormattedValue:
    """A formatter's field at one place: a plain value, or an object of arguments."""

    def __init__(self, spot: Spot, formatter: FormatterField) -> None:
        self.spot = spot
        self._formatter = formatter
        self._key = spot.plan.slot.key if formatter.is_map else None
        self._now: Any = UNKNOWN
        self._before: Any = None
        self._results: dict[Rule, Any] = {}

    def gather(self, inquiry: Inquiry, *, mutates: bool) -> None:
        spot = self.spot
        self._now = self._read(inquiry, spot.node)
        self._before = self._read(inquiry, spot.old_node)
        for enforcement in self._writing() if mutates else ():
            question = self._formatter.write_question(spot.node or {}, enforcement.value, self._key)
            self._results[enforcement.rule] = inquiry.ask(question)

    def _read(self, inquiry: Inquiry, node: Any) -> Any:
        if node is None:
            return None
        values = inquiry.ask(self._formatter.read_question(node, self._key))
        return values if isinstance(values, Unknown) else self._formatter.read_one(values)

    def _writing(self) -> tuple[Enforcement, ...]:
        plan = self.spot.plan
        # Where something is set, nothing is missing.
        return plan.sets[:1] or plan.defaults[:1]

    @property
    def _is_untouched(self) -> bool:
        return not self.spot.is_new and same_value(self._now, self._before)

    def set(self) -> Iterator[Written]:
        for enforcement in self.spot.plan.sets[:1]:
            if not self._is_untouched and self._set_problem(enforcement, self._now) is not None:
                yield from self._write(enforcement)

    def default(self) -> Iterator[Written | LeftOut]:
        plan = self.spot.plan
        if plan.sets or self._now is not None or self._is_untouched:
            return
        for enforcement in plan.defaults[:1]:
            yield from self._write(enforcement)

    def _write(self, enforcement: Enforcement) -> Iterator[Written]:
        result = self._formatter.result_of(self._results[enforcement.rule])
        if self.spot.merge(result, self._formatter.array_key):
            old = plain_numbers(self._now)
            field = self.spot.plan.field
            yield Written(self.spot.path, "", old, enforcement.value, field, enforcement)

    # -- judging ----------------------------------------------------------------------------

    def judge(self) -> Iterator[Broken]:
        plan = self.spot.plan
        if self._is_untouched:
            return
        for enforcement in plan.rules:
            wrong = self._type_problem(enforcement, self._now)
            if wrong is not None:
                yield self._broken(Rule.TYPE, wrong, enforcement)
                return
            if enforcement.rule is Rule.DEFAULT:
                continue
            found = self._problem(enforcement, self._now)
            if found is not None and not self._is_less_bad(enforcement, found):
                yield self._broken(enforcement.rule, found, enforcement)

    def _type_problem(self, enforcement: Enforcement, value: Any) -> Problem | None:
        if value is None:
            return None
        if has_inexact(value):
            return INEXACT
        if self._formatter.has_arguments:
            expected = "" if isinstance(value, dict) else "an object of arguments"
        else:
            try:
                read_value(value, enforcement.type)
                expected = ""
            except ValueTypeError as error:
                expected = error.expected
        return Problem("has the wrong type", expected) if expected else None

    def _problem(self, enforcement: Enforcement, value: Any) -> Problem | None:
        if enforcement.rule is Rule.SET and self._formatter.has_arguments:
            return self._set_problem(enforcement, value)
        meaning = None if value is None else read_value(value, enforcement.type)
        return judge(enforcement, meaning, minimum=self.spot.plan.minimum)

    def _set_problem(self, enforcement: Enforcement, value: Any) -> Problem | None:
        """What *value* lacks of what is set."""
        if self._formatter.has_arguments:
            if isinstance(value, dict) and self._formatter.says(value, enforcement.value):
                return None
            return Problem("the policy sets this value", f"exactly {show(enforcement.value)}")
        if self._type_problem(enforcement, value) is not None:
            return Problem("has the wrong type", "")
        meaning = None if value is None else read_value(value, enforcement.type)
        return judge(enforcement, meaning)

    def _is_less_bad(self, enforcement: Enforcement, found: Problem) -> bool:
        """Whether an update broke this rule before, and is now nearer to keeping it."""
        before = self._before
        if self.spot.is_new or before is None:
            return False
        if self._type_problem(enforcement, before) is not None:
            return False
        was = self._problem(enforcement, before)
        if was is None:
            return False
        same = not self._formatter.has_arguments and read_value(
            before, enforcement.type
        ) == read_value(self._now, enforcement.type)
        return same or bool(found.badness < was.badness)

    def _broken(self, rule: Rule, problem: Problem, enforcement: Enforcement) -> Broken:
        value = self._now
        if problem is INEXACT and not isinstance(value, (dict, list)):
            value = json_type(plain_numbers(value))
        field = self.spot.plan.field
        return Broken(
            self.spot.path, "", rule, problem, plain_numbers(value), field, enforcement.source
        )
