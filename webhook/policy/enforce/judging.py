"""What is there, judged by every rule on plain fields; of an update, only what it made worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.mapping.compiled import CompiledSelector
from webhook.mapping.fields import RefMismatchError, read_ref
from webhook.mapping.locate import Places
from webhook.model.decision import NOT_SHOWN, Rule, Source, Violation
from webhook.model.pointer import Path, lookup
from webhook.model.values import FieldType, ValueTypeError, json_type, read_value, same_value
from webhook.policy.enforce.beside import contradiction, derived_from
from webhook.policy.enforce.findings import Findings, printable
from webhook.policy.enforce.homes import Found, counted_at_home
from webhook.policy.enforce.sites import Site, Sites
from webhook.policy.plans import FieldPlan, SelectorPlan, is_own_item
from webhook.policy.rules.enforcement import ASKING, Enforcement
from webhook.policy.rules.judge import Problem, expected_type, judge, judge_mistyped

# Rules that don't concern every value; see `_is_exempt`.
_EXEMPTIBLE = frozenset({Rule.SET, Rule.BLOCKED, Rule.CAN_EDIT})


class Judge:
    """
    Judges the plain fields of one object.

    *set_by* says, of each path that something is set at, which `set` counts there.
    """

    def __init__(
        self, sites: Sites, findings: Findings, set_by: Mapping[Path, Enforcement]
    ) -> None:
        self._sites = sites
        self._findings = findings
        self._set_by = set_by

    def judge_mismatches(self, part: SelectorPlan, places: Places) -> None:
        """Tell what keeps the selector of *part* from places, if anything is enforced there."""
        enforced = [
            (plan, enforcement)
            for plan in (*part.fields, *part.computed)
            for enforcement in (*plan.judges, *plan.sets, *plan.defaults)
        ]
        if not enforced:
            return  # All that the policies say here never acts.
        plan, source = enforced[0][0], enforced[0][1].source
        for mismatch in places.mismatches:
            found = lookup(self._sites.document, mismatch.path)
            old_path = self._sites.old_of(mismatch.path)
            if old_path is not None and same_value(lookup(self._sites.old, old_path), found):
                continue
            self.add(
                plan,
                part.selector,
                mismatch.path,
                "",
                _wrong_type("an object" if mismatch.expected == "object" else "a list"),
                Rule.TYPE,
                json_type(found),
                source,
            )

    def judge_site(self, site: Site) -> None:
        """Tell which rules the plain fields of *site* break."""
        node = self._sites.node(site)
        for plan in site.plan.judging:
            if not (plan.is_plain and self._is_known(site, plan, node)):
                self._judge_field(site, plan)

    def _is_known(self, site: Site, plan: FieldPlan, node: Any) -> bool:
        """
        Whether a field needs no judging.

        So it is with most: they are absent, or have a value that others have had.
        """
        try:
            current = read_ref(node, plan.ref)
        except RefMismatchError:
            return False
        if current is None:
            return not plan.absent_rules and not plan.filled
        if plan.kept is None or current not in plan.kept:
            return False
        return not plan.is_set_related or not self._is_contradicted(site, plan, plan.sets[0])

    def _is_contradicted(self, site: Site, plan: FieldPlan, enforcement: Enforcement) -> bool:
        if self._set_by[site.path + plan.ref] is not enforcement:
            return False
        return bool(contradiction(self._sites, site, plan, enforcement))

    def _judge_field(self, site: Site, plan: FieldPlan) -> None:
        mismatch: RefMismatchError | None = None
        current: Any = None
        path = site.path + plan.ref
        try:
            path, current = self._find(site, plan)
        except RefMismatchError as error:
            mismatch = error
        if not self._sites.is_new(site) and self._is_untouched(site, plan, current, mismatch):
            return
        rules = plan.rules
        if mismatch is not None:
            path = site.path + mismatch.ref
            problem = _wrong_type("an object")
            source = rules[0].source
            self._add(site, plan, path, problem, Rule.TYPE, json_type(mismatch.value), source)
            return
        current = plan.read_as(current)
        if current is None:
            rules = plan.absent_rules
        keeps_all = True
        asks = self._sites.asks(site, plan)
        for enforcement in rules:
            if not asks and is_unasked(plan, enforcement.rule):
                continue
            if enforcement.rule in _EXEMPTIBLE and self._is_exempt(
                site, plan, enforcement, current
            ):
                # Another set counts at this very place; elsewhere it may be this one.
                keeps_all = keeps_all and enforcement.rule is not Rule.SET
                continue
            try:
                meaning = None if current is None else read_value(current, enforcement.type)
            except ValueTypeError as error:
                got = _got(plan, current)
                problem = _wrong_type(expected_type(error.expected, got))
                source = enforcement.source
                self._add(site, plan, path, problem, Rule.TYPE, got, source)
                self._judge_mistyped(site, plan, path, current, asks=asks)
                return
            if enforcement.rule is Rule.DEFAULT:
                continue
            if self._sites.old is not None and self._is_same(site, plan, enforcement, meaning):
                keeps_all = False
                continue
            found = self._problem(site, plan, enforcement, meaning)
            if found is None:
                continue
            keeps_all = False
            if not self._is_less_bad(site, plan, enforcement, found):
                got = None if current is None else printable(plan.field, current)
                self._add(site, plan, path, found, enforcement.rule, got, enforcement.source)
        if keeps_all and plan.kept is not None:
            plan.kept.add(current)

    def _judge_mistyped(
        self, site: Site, plan: FieldPlan, path: Path, current: Any, *, asks: bool
    ) -> None:
        """Tell what stands against any value here, of whatever type."""
        for enforcement in plan.rules:
            if not asks and is_unasked(plan, enforcement.rule):
                continue
            if enforcement.rule in _EXEMPTIBLE and self._is_exempt(
                site, plan, enforcement, current
            ):
                continue
            standard = self._standard(site, plan, enforcement)
            found = judge_mistyped(enforcement, current, default=standard)
            if found is not None:
                got = _got(plan, current)
                self._add(site, plan, path, found, enforcement.rule, got, enforcement.source)

    def _standard(
        self, site: Site, plan: FieldPlan, enforcement: Enforcement
    ) -> Enforcement | None:
        """The effective default, which `canEdit` compares with; None if there is none."""
        if plan.standard is not None or enforcement.rule is not Rule.CAN_EDIT:
            return plan.standard
        derived = derived_from(self._sites, site, plan)
        return derived if derived is not None and derived.value is not None else None

    def _problem(
        self, site: Site, plan: FieldPlan, enforcement: Enforcement, meaning: Any
    ) -> Problem | None:
        standard = self._standard(site, plan, enforcement)
        found = judge(
            enforcement, meaning, default=standard, minimum=plan.minimum, beside=plan.judges
        )
        if found is None and enforcement.rule is Rule.SET and plan.is_set_related:
            reason = contradiction(self._sites, site, plan, enforcement)
            return Problem(f"the value that the policy sets {reason}", "") if reason else None
        return found

    def _find(self, site: Site, plan: FieldPlan, *, old: bool = False) -> Found:
        """
        The part of a field's value that rules look at, and where it stands.

        Raises:
            RefMismatchError: something on the way is neither absent nor an object.
        """
        found = self._sites.find(site, plan, old=old)
        if plan.field.home.special and found.value is None and not old:
            counted = counted_at_home(self._sites.document, site.path, plan.field)
            found = Found(found.path, counted)
        return Found(found.path, _judged_part(found.value, plan))

    def _is_exempt(
        self, site: Site, plan: FieldPlan, enforcement: Enforcement, current: Any
    ) -> bool:
        """Whether a rule does not concern this value."""
        if enforcement.rule is Rule.SET:
            # Two policies set one place by different selectors: the first counts.
            return self._set_by[site.path + plan.ref] is not enforcement
        if enforcement.rule in (Rule.BLOCKED, Rule.CAN_EDIT):
            if plan.copy_of is not None and current is not None:
                return same_value(current, lookup(self._sites.node(site), plan.copy_of))
            return any(same_value(current, value) for value in plan.filled)
        return False

    # -- of an update ---------------------------------------------------------------------------

    def _is_untouched(
        self, site: Site, plan: FieldPlan, current: Any, mismatch: RefMismatchError | None
    ) -> bool:
        if mismatch is None and plan.field.having is None and not plan.own_items:
            return self._sites.is_untouched(site, plan, current)
        if self._sites.old is None or site.old_path is None:
            return False
        if mismatch is None:
            try:
                return same_value(self._find(site, plan, old=True).value, current)
            except RefMismatchError:
                return False
        old_value = lookup(self._sites.old, site.old_path + mismatch.ref)
        return same_value(old_value, mismatch.value)

    def _is_less_bad(
        self, site: Site, plan: FieldPlan, enforcement: Enforcement, found: Problem
    ) -> bool:
        """Whether an update broke this rule before, and is now nearer to keeping it."""
        before = self._meaning_before(site, plan, enforcement)
        if before is None:
            return False
        was = judge(enforcement, before)
        if was is None:
            return False
        if isinstance(before, (tuple, list)):
            # The bad elements of a list may stay where they are; new ones may not come.
            meaning = read_value(self._find(site, plan).value, enforcement.type)
            added = [e for e in meaning if not any(same_value(e, old) for old in before)]
            if added and judge(enforcement, type(before)(added)) is not None:
                return False
            if enforcement.rule in (Rule.OPTIONS, Rule.PATTERN):
                return True
        return bool(found.badness < was.badness)

    def _is_same(self, site: Site, plan: FieldPlan, enforcement: Enforcement, meaning: Any) -> bool:
        """Whether an update only spells the value anew: `1` for `1000m`."""
        if meaning is None or enforcement.type is FieldType.OBJECT:
            return False
        return bool(self._meaning_before(site, plan, enforcement) == meaning)

    def _meaning_before(self, site: Site, plan: FieldPlan, enforcement: Enforcement) -> Any:
        """What the field meant before an update; None where it was absent, or there is none."""
        if self._sites.old is None or site.old_path is None:
            return None
        try:
            old = plan.read_as(self._find(site, plan, old=True).value)
            return None if old is None else read_value(old, enforcement.type)
        except (RefMismatchError, ValueTypeError):
            return None

    # -- telling --------------------------------------------------------------------------------

    def _add(
        self,
        site: Site,
        plan: FieldPlan,
        path: Path,
        problem: Problem,
        rule: Rule,
        got: Any,
        source: Source,
    ) -> None:
        item = self._sites.item_of(site)
        self.add(plan, site.plan.selector, path, item, problem, rule, got, source)

    def add(
        self,
        plan: FieldPlan,
        selector: CompiledSelector,
        path: Path,
        item: str,
        problem: Problem,
        rule: Rule,
        got: Any,
        source: Source,
        *,
        is_hidden: bool = False,
    ) -> None:
        """
        Note a violation of the field of *plan*; *got* is as printed.

        With *is_hidden*, this value of it is not shown, whatever the field says.
        """
        hidden = is_hidden or plan.field.sensitive
        hidden = hidden and rule not in (Rule.TYPE, Rule.REQUIRED, Rule.BLOCKED)
        self._findings.violations.append(
            Violation(
                path=path,
                field=plan.label,
                selector=selector.name,
                item=item,
                rule=rule,
                problem=problem.text,
                value=got,
                accepted=NOT_SHOWN if hidden and problem.accepted else problem.accepted,
                source=source,
                is_missing=rule is Rule.REQUIRED,
            )
        )


def _wrong_type(expected: str) -> Problem:
    return Problem("has the wrong type", expected)


def _got(plan: FieldPlan, current: Any) -> Any:
    """A value of the wrong type: itself if it may be shown, else the name of its type."""
    shown = printable(plan.field, current)
    return json_type(current) if shown == NOT_SHOWN else shown


def is_unasked(plan: FieldPlan, rule: Rule) -> bool:
    """
    Whether *rule* does not concern a place that nothing is asked of.

    A container beside the main one may have another value than the default; a place that is only
    judged may not.
    """
    return rule in ASKING and not (plan.field.home.judged and rule is Rule.CAN_EDIT)


def _judged_part(value: Any, plan: FieldPlan) -> Any:
    """
    What of *value* rules look at.

    Of a list, without the items that are Kubernetes' own, and of a field with *having* only those
    that carry the key; None where none is left.
    """
    having = plan.field.having
    if not isinstance(value, list) or (having is None and not plan.own_items):
        return value
    items = [
        item
        for item in value
        if not is_own_item(item, plan.own_items)
        and (having is None or (isinstance(item, dict) and item.get(having) is not None))
    ]
    return items or None
