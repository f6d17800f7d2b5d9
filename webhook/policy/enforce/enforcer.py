"""
A plan over an object: changes and violations.

Selectors are located first; mutation edits the object through an `Editor`, and judging reads the
object as it then is. Order of mutation: set, then default. Where what was written is a new place of
a selector, or holds one, that comes next: one review makes what several in a row would make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from webhook.errors import EvaluationError
from webhook.mapping.answers import NO_ANSWERS, JqAnswers
from webhook.mapping.uncovering import Uncovering
from webhook.model.decision import NOT_SHOWN, Change, NotApplied, Rule, Source, Violation
from webhook.model.pointer import Path, lookup, to_pointer
from webhook.patch import Editor
from webhook.policy.computed.computed import ComputedField, Inquiry, LeftOut, Spot, Taken, Written
from webhook.policy.computed.computing import computed_field
from webhook.policy.computed.hiding import hidden_part, is_secret_path
from webhook.policy.computed.traces import Trace
from webhook.policy.enforce.findings import Findings, as_one, once, printable, sort_key
from webhook.policy.enforce.judging import Judge, is_unasked
from webhook.policy.enforce.sites import Site, Sites
from webhook.policy.enforce.writing import Writer
from webhook.policy.items.enforcing import ItemChange, ItemizedField, ItemProblem
from webhook.policy.native.native_fields import role_of
from webhook.policy.plans import FieldPlan, ItemPlan, Plan, SelectorPlan
from webhook.policy.rules.enforcement import Enforcement

# Far more than a chain of places within one another takes.
_MAX_PASSES = 100

# Rules on items that say nothing of a hidden value.
_TELLING = frozenset({Rule.TYPE, Rule.REQUIRED, Rule.LOCKED, Rule.CAN_ADD})


class Enforcer:
    """
    Enforces one plan on one object.

    *old* is the object before an update. A field that has the same value there at the same place
    is neither changed nor judged: nobody touched it. *document* is edited in place.
    """

    def __init__(
        self,
        plan: Plan,
        document: dict[str, Any],
        old: dict[str, Any] | None = None,
        answers: JqAnswers = NO_ANSWERS,
    ) -> None:
        self.findings = Findings()
        self.editor = Editor(document)
        self._plan, self._answers = plan, answers
        self._enforce_at(Sites(plan, document, old, answers))

    def _enforce_at(self, sites: Sites) -> None:
        """Get ready to enforce the plan at *sites*, which are those of the object as it is."""
        plan = self._plan
        self._sites = sites
        if not plan.mapping.builtin:
            self._hide_secret_places()
        # Selectors may overlap: of several sets or defaults at one path the first counts.
        self._sets = self._sites.ranked(lambda part: part.setting)
        set_by: dict[Path, Enforcement] = {}
        self._taken = Taken()
        for site, field_plan in self._sets:
            path = site.path + field_plan.ref
            counts = set_by.setdefault(path, field_plan.sets[0]) is field_plan.sets[0]
            if counts and plan.expressions:
                self._taken.sets.add(path, _told(field_plan.label, field_plan.sets[0].source))
        self._writer = Writer(plan.mapping.kind, self._sites, self.editor, self.findings, set_by)
        self._judge = Judge(self._sites, self.findings, set_by)
        self._itemized = [
            (site, self._itemized_field(site, item_plan))
            for site in self._sites.all
            for item_plan in site.plan.items
        ]
        self._computed = [
            (site, self._computed_field(site, field_plan))
            for site in self._sites.all
            for field_plan in site.plan.computed
        ]
        for site in self._sites.writable if self._computed else ():
            for field_plan in site.plan.fields:
                for filled in (*field_plan.defaults[:1], *filter(None, [field_plan.derived])):
                    path = site.path + field_plan.ref
                    self._taken.defaults.add(path, _told(field_plan.label, filled.source))
        self._inquiry = Inquiry(self._answers, plan.expressions)
        # What computed fields wrote, which may be elsewhere than where they are read.
        self._trace = Trace()
        # How many writes there were when each had written, and where it did.
        self._turns: dict[ComputedField, int] = {}
        self._own_paths: dict[ComputedField, list[Path]] = {}

    def _computed_field(self, site: Site, plan: FieldPlan) -> ComputedField:
        if not self._sites.asks(site, plan):
            judges = [rule for rule in plan.judges if not is_unasked(plan, rule.rule)]
            plan = replace(plan, sets=(), defaults=(), judges=tuple(judges))
        return computed_field(
            Spot(
                plan=plan,
                path=site.path,
                editor=self.editor,
                old=self._sites.old,
                old_path=site.old_path,
                old_of=self._sites.old_of,
                is_judged_only=site.is_judged_only,
                taken=self._taken,
            )
        )

    def _itemized_field(self, site: Site, plan: ItemPlan) -> ItemizedField:
        role = role_of(site.plan.selector.name)
        name = f"{role}.{plan.field.name}" if role else plan.field.name
        ref = plan.field.ref
        return ItemizedField(
            plan,
            name,
            site.path + ref,
            self.editor,
            self._sites.old,
            None if site.old_path is None else site.old_path + ref,
            is_main=not plan.field.home.main_only or self._sites.is_main(site),
        )

    def _hide_secret_places(self) -> None:
        """Whatever a query spells out: what stands below `env` is a secret."""
        hidden: dict[int, SelectorPlan] = {}
        for site in self._sites.all:
            if is_secret_path(site.place):
                part = site.plan
                if id(part) not in hidden:
                    hidden[id(part)] = hidden_part(part)
                site.plan = hidden[id(part)]

    # -- mutation ---------------------------------------------------------------------------

    def mutate(self) -> None:
        """
        Write what sets and defaults ask for, each field as those before have left the object.

        Where jq has yet to say what a field makes of that, it is written as it would be without
        them, so that whatever else is unknown turns up as well. Then `judge` raises.

        Raises:
            EvaluationError: a mapping failed on this object, or what is written makes other
                places again and again.
            UnansweredError: jq has to be asked first. The object may be half written.
        """
        for _ in range(_MAX_PASSES):
            reshapes, earlier = self.editor.reshapes, self.findings.changes
            self.findings.changes, self.findings.not_applied = [], []
            self._write_once()
            has_changed, has_new = bool(self.findings.changes), self.editor.reshapes != reshapes
            if earlier:
                self.findings.changes = as_one(earlier, self.findings.changes)
            if not (has_changed or has_new) or not self._moves_on(has_new=has_new):
                return
        raise EvaluationError(
            "what policies write there makes other places for them again and again"
        )

    def _moves_on(self, *, has_new: bool) -> bool:
        """
        Whether there are other places now that something was written: then these are what to
        enforce the plan at. *has_new*: so are objects or lists.
        """
        uncovers = self._plan.uncovers
        if uncovers is Uncovering.NOTHING or not (has_new or uncovers is Uncovering.BY_VALUES):
            return False
        self._inquiry.close()
        document, old = self.editor.document, self._sites.old
        sites = Sites(self._plan, document, old, self._answers, is_changed=True)
        if sites.are_those_of(self._sites):
            return False
        self._enforce_at(sites)
        return True

    def _write_once(self) -> None:
        if self._computed:
            for _, computed in self._computed:
                computed.gather(self._inquiry, mutates=not computed.spot.is_judged_only)
            self._inquiry.close()
        try:
            self._write_all()
        except EvaluationError:
            self._inquiry.close()  # It may come of a guess.
            raise

    def _write_all(self) -> None:
        for site, plan in self._sets:
            self._writer.set(site, plan, plan.sets[0])
        writing = self._ranked_computed()
        for site, computed in writing:
            if computed.spot.plan.sets:
                self._write_computed(site, computed, computed.set)
        self._writer.fill()
        for site, computed in writing:
            if not computed.spot.plan.sets:
                self._write_computed(site, computed, computed.default)
        for site, itemized in self._itemized:
            for item_change in () if site.is_judged_only else itemized.mutate():
                self._add_item_change(site, itemized.plan, item_change)
            self.findings.not_applied += itemized.not_applied

    def _write_computed(
        self,
        site: Site,
        computed: ComputedField,
        write: Callable[[], Iterator[Written | LeftOut]],
    ) -> None:
        """Let *computed* write, once it has been read as it is after all that was written."""
        if self._sites.is_blocked(site):
            return
        if self.findings.changes:
            computed.gather(self._inquiry, mutates=True)
        for found in write():
            self._add_computed(site, computed.spot.plan, found)
            if isinstance(found, Written):
                self._own_paths.setdefault(computed, []).append(found.path)
                self._trace.add(
                    found.path, _told(computed.spot.plan.label, found.enforcement.source)
                )
        self._turns[computed] = len(self._trace)

    def _ranked_computed(self) -> list[tuple[Site, ComputedField]]:
        """Computed fields that write, in the order in which they count."""
        found = [
            (site, computed, (*computed.spot.plan.sets, *computed.spot.plan.defaults))
            for site, computed in self._computed
            if not site.is_judged_only
        ]
        writing = [item for item in found if item[2]]
        return [(s, c) for s, c, written in sorted(writing, key=lambda item: item[2][0].rank)]

    def _add_computed(self, site: Site, plan: FieldPlan, found: Written | LeftOut) -> None:
        enforcement = found.enforcement
        if isinstance(found, LeftOut):
            self.findings.not_applied.append(
                NotApplied(
                    found.path, plan.label, enforcement.rule, found.reason, enforcement.source
                )
            )
            return
        self.findings.changes.append(
            Change(
                path=found.path,
                field=plan.label,
                selector=site.plan.selector.name,
                item=_joined(self._sites.item_of(site), found.item),
                rule=enforcement.rule,
                old=printable(found.field, found.old),
                new=printable(found.field, found.new),
                source=enforcement.source,
            )
        )
        self._sites.forget_nodes()

    def _add_item_change(self, site: Site, plan: ItemPlan, change: ItemChange) -> None:
        self.findings.changes.append(
            Change(
                path=change.path,
                field=_item_field(plan, change.attribute),
                selector=site.plan.selector.name,
                item=change.item,
                rule=change.enforcement.rule,
                old=None if change.old is None else printable(change.field, change.old),
                new=self._new_of(plan, change),
                source=change.source,
            )
        )

    def _new_of(self, plan: ItemPlan, change: ItemChange) -> Any:
        """What is told of what was written: an item as a whole is told by its key."""
        if change.attribute:
            return printable(change.field, change.value)
        held = [
            field
            for name, field in plan.field.attributes.items()
            if name not in (plan.field.item_key, "exclude")
        ]
        node = lookup(self.editor.document, change.path)
        # An entry of a map, such as a label, is nothing but its value.
        if len(held) == 1 and node is not None and not isinstance(node, dict | list):
            return printable(held[0], node)
        return change.item

    # -- judging ----------------------------------------------------------------------------

    def judge(self) -> None:
        """
        Judge the object as it now is by every rule.

        Raises:
            EvaluationError: a formatter does not read back what it wrote.
            UnansweredError: jq has to be asked first.
        """
        if self._computed:
            for _, computed in self._computed:
                computed.gather(self._inquiry, mutates=False)
            self._inquiry.close()
        for _, computed in self._computed:
            self._confirm(computed)
        for part, places in self._sites.mismatched:
            self._judge.judge_mismatches(part, places)
        for site in self._sites.all:
            self._judge.judge_site(site)
        for site, computed in self._computed:
            for broken in computed.judge():
                self._judge.add(
                    computed.spot.plan,
                    site.plan.selector,
                    broken.path,
                    _joined(self._sites.item_of(site), broken.item),
                    broken.problem,
                    broken.rule,
                    printable(broken.field, broken.value),
                    broken.source,
                    is_hidden=broken.field.sensitive,
                )
        for site, itemized in self._itemized:
            for found in itemized.judge():
                self._add_item_problem(site, itemized.plan, found)
        if self.findings.violations:
            self.findings.violations = sorted(once(self.findings.violations), key=sort_key)

    def _confirm(self, computed: ComputedField) -> None:
        """
        Raises:
            EvaluationError: *computed* does not read what it wrote, or found there.
        """
        spot, since = computed.spot, self._turns.get(computed, 0)
        paths = self._own_paths.get(computed, [])
        others = [self._trace.last(path, since) for path in paths or [spot.path]]
        other = next(filter(None, others), "")
        lost = computed.unread(is_touched=bool(other))
        if lost is None:
            return
        at = to_pointer(spot.path)
        if other:
            raise EvaluationError(
                f"{lost.rule} of {_told(spot.plan.label, lost.source)} and what {other} writes"
                f" at {at} can't both hold: the second undoes the first"
            )
        if not paths:
            raise EvaluationError(
                f"{lost.rule} of {_told(spot.plan.label, lost.source)} is undone at {at}"
                " by another field"
            )
        raise EvaluationError(
            f"getExpr of {spot.plan.field.formatter} does not read the {lost.rule} of"
            f" {spot.plan.label} that its setExpr wrote at {at} ({lost.source})"
        )

    def _add_item_problem(self, site: Site, plan: ItemPlan, found: ItemProblem) -> None:
        hidden = found.field.sensitive and found.rule not in _TELLING
        accepted = found.problem.accepted
        self.findings.violations.append(
            Violation(
                path=found.path,
                field=_item_field(plan, found.attribute),
                selector=site.plan.selector.name,
                item=found.item,
                rule=found.rule,
                problem=found.problem.text,
                value=printable(found.field, found.value),
                accepted=NOT_SHOWN if hidden and accepted else accepted,
                source=found.source,
                is_missing=found.rule is Rule.REQUIRED,
            )
        )


def _told(label: str, source: Source) -> str:
    return f"{label} ({source})"


def _joined(site: str, item: str) -> str:
    """What an item of a list is called, at a place that has a name itself."""
    return "/".join(filter(None, (site, item)))


def _item_field(plan: ItemPlan, attribute: str) -> str:
    """The policy path of an itemized field, or of an attribute of its items."""
    return f"{plan.field.name}.{attribute}" if attribute else plan.field.name
