"""A field of one value that a formatter reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from webhook.mapping.formatters import FormatterField
from webhook.model.decision import Rule
from webhook.model.values import ValueTypeError, json_type, read_value, same_value
from webhook.policy.computed.computed import (
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
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import Problem, judge, judge_mistyped, show


class FormattedValue:
    """A formatter's field at one place: a plain value, or an object of arguments."""

    def __init__(self, spot: Spot, formatter: FormatterField) -> None:
        self.spot = spot
        self._formatter = formatter
        self._key = spot.plan.slot.key if formatter.is_map else None
        self._now: Any = UNKNOWN
        self._before: Any = None
        self._was_read = False
        self._results: dict[Rule, Any] = {}
        # What was written or is there already, and has to be read when all is written.
        self._applied: Enforcement | None = None

    def gather(self, inquiry: Inquiry, *, mutates: bool) -> None:
        spot = self.spot
        now = self._read(inquiry, spot.node)
        if not isinstance(now, Unknown):
            self._now = now
        if not self._was_read:
            before = self._read(inquiry, spot.old_node)
            if not isinstance(before, Unknown):
                self._before, self._was_read = before, True
        for enforcement in self._writing() if mutates else ():
            question = self._formatter.write_question(spot.node or {}, enforcement.value, self._key)
            result = inquiry.ask(question)
            if not isinstance(result, Unknown):
                self._results[enforcement.rule] = result

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
        for enforcement in () if self._is_untouched else self.spot.plan.sets[:1]:
            if self._set_problem(enforcement, self._now) is None:
                self._applied = enforcement
            else:
                yield from self._write(enforcement)

    def default(self) -> Iterator[Written | LeftOut]:
        plan = self.spot.plan
        if plan.sets or self._now is not None or self._is_untouched:
            return
        for enforcement in plan.defaults[:1]:
            result = self._formatter.result_of(self._results[enforcement.rule])
            obstacle = self.spot.obstacle(result, enforcement.rule)
            written = [] if obstacle else self._write(enforcement)
            yield from written
            if not written:
                reason = obstacle or f"setExpr of {self._formatter} changes nothing here"
                yield LeftOut(self.spot.path, reason, enforcement)

    def _write(self, enforcement: Enforcement) -> list[Written]:
        result = self._formatter.result_of(self._results[enforcement.rule])
        written = self.spot.merge(result, "", enforcement)
        if written:
            self._applied = enforcement
        return written

    def unread(self, *, is_touched: bool) -> Enforcement | None:
        applied = self._applied
        if applied is None:
            return None
        if applied.rule is Rule.SET or is_touched:
            written = replace(applied, rule=Rule.SET)
            is_read = self._set_problem(written, self._now) is None
        else:
            is_read = self._now is not None
        return None if is_read else applied

    # -- judging ----------------------------------------------------------------------------

    def judge(self) -> Iterator[Broken]:
        plan = self.spot.plan
        if self._is_untouched:
            return
        for enforcement in plan.rules:
            wrong = self._type_problem(enforcement, self._now)
            if wrong is not None:
                yield self._broken(Rule.TYPE, wrong, enforcement)
                for other in plan.rules:
                    found = judge_mistyped(other, self._now)
                    if found is not None:
                        yield self._broken(other.rule, found, other)
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
        plan = self.spot.plan
        return judge(enforcement, meaning, default=plan.standard, minimum=plan.minimum)

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
        value = plain_numbers(value)
        field = self.spot.guarded(self.spot.plan.field, value)
        return Broken(self.spot.path, "", rule, problem, value, field, enforcement.source)
