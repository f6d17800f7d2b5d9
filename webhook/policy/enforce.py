"""
A plan over an object: changes and violations.

Selectors are located once; mutation edits the object through an `Editor`, and judging reads the
object as it then is. Order of mutation: set, then default.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.mapping.answers import NO_ANSWERS, JqAnswers
from webhook.mapping.codecs import Unreadable
from webhook.mapping.compiled import CompiledSelector
from webhook.mapping.fields import Field, RefMismatchError, read_ref
from webhook.mapping.homes import NO_HOME
from webhook.mapping.locate import Locator, OldPaths, Places, item_name
from webhook.model.decision import (
    NOT_SHOWN,
    Change,
    NotApplied,
    Rule,
    Source,
    Violation,
    without_credentials,
)
from webhook.model.kinds import NATIVE_TYPE_OF
from webhook.model.pointer import Path, lookup
from webhook.model.values import (
    FieldType,
    ValueTypeError,
    json_type,
    read_value,
    same_value,
)
from webhook.patch import Editor
from webhook.policy.agreement import broken_rule, is_extended_resource, refused_defaults
from webhook.policy.computed import ComputedField, LeftOut, Spot, Written, gather_all
from webhook.policy.computing import computed_field
from webhook.policy.conditions import Reading
from webhook.policy.effective import (
    MAIN_CONTAINER,
    FieldPlan,
    ItemPlan,
    Plan,
    SelectorPlan,
    is_own_item,
)
from webhook.policy.enforcement import ASKING, Derivation, Enforcement, derive
from webhook.policy.homes import (
    Found,
    counted_at_home,
    find_at_home,
    obstacle_at_home,
    write_at_home,
)
from webhook.policy.items import ItemChange, ItemizedField, ItemProblem
from webhook.policy.judge import Problem, expected_type, judge, show
from webhook.policy.native_fields import role_of

# What the place of a pod spec ends with, if it is that of a pod template.
_TEMPLATE_SPEC = ("spec",)

# Rules that don't concern every value; see `_is_exempt`.
_EXEMPTIBLE = frozenset({Rule.SET, Rule.BLOCKED, Rule.CAN_EDIT})

# A printed value is cut at this length: the message has to stay readable.
_SHOWN_CHARS = 120


@dataclass(slots=True)
class Findings:
    """What enforcing a plan found out."""

    changes: list[Change] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    not_applied: list[NotApplied] = field(default_factory=list)


@dataclass(slots=True)
class _Site:
    """
    One place and everything enforced there.

    *place* is what the selector found; what is enforced may be some levels above it, at *path*.
    *old_path* is that of the same place before an update; *node* is what stands there, once it
    has been looked up.
    """

    plan: SelectorPlan
    place: Path
    path: Path
    old_path: Path | None
    is_judged_only: bool = False
    node: Any = None
    generation: int = 0
    item: str | None = None


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
        self._document = document
        self._old = old
        self._workload_type = NATIVE_TYPE_OF.get(plan.mapping.kind)
        self._sites: list[_Site] = []
        self._mismatched: list[tuple[SelectorPlan, Places]] = []
        # Counts writes that may have replaced nodes; a node of an older one is looked up anew.
        self._generation = 0
        self._main: frozenset[Path] | None = None
        # Before anything is written: afterwards a container may bear another name.
        self._old_paths = None if old is None else OldPaths(old, document)
        locator = Locator(plan.mapping, document, answers.places)
        past = None if old is None else Locator(plan.mapping, old, {})
        for part in plan.selectors:
            places = locator.places(part.selector)
            for place in places.paths:
                old_path = self._old_path(part.selector, place, past)
                if part.above and place[-part.above :] != _TEMPLATE_SPEC:
                    continue  # A pod spec that is no template's: there is no metadata to it.
                self._sites.append(
                    _Site(
                        part,
                        place,
                        _above(place, part.above),
                        None if old_path is None else _above(old_path, part.above),
                        is_judged_only=places.are_borrowed,
                    )
                )
            if places.mismatches:
                self._mismatched.append((part, places))
        main = plan.mapping.selectors.get(MAIN_CONTAINER)
        self._find_main: Callable[[], frozenset[Path]] | None = None
        if main is not None:
            self._find_main = lambda: frozenset(locator.places(main).paths)
        # Selectors may overlap: of several sets or defaults at one path the first counts.
        self._sets = self._ranked(lambda field_plan: field_plan.sets)
        self._set_by: dict[Path, Enforcement] = {}
        for site, field_plan in self._sets:
            self._set_by.setdefault(site.path + field_plan.ref, field_plan.sets[0])

        self._itemized = [
            (site, self._itemized_field(site, item_plan))
            for site in self._sites
            for item_plan in site.plan.items
        ]
        self._answers = answers
        self._expressions = plan.expressions
        self._computed = [
            (site, self._computed_field(site, field_plan))
            for site in self._sites
            for field_plan in site.plan.computed
        ]

    def _computed_field(self, site: _Site, plan: FieldPlan) -> ComputedField:
        return computed_field(
            Spot(
                plan=plan,
                path=site.path,
                editor=self.editor,
                old=self._old,
                old_path=site.old_path,
                old_of=self._old_paths.path if self._old_paths is not None else _nowhere,
                is_judged_only=site.is_judged_only,
            )
        )

    def _ranked_computed(self) -> list[tuple[_Site, ComputedField]]:
        """Computed fields that write, in the order in which they count."""
        found = [
            (site, computed, (*computed.spot.plan.sets, *computed.spot.plan.defaults))
            for site, computed in self._computed
            if not site.is_judged_only
        ]
        writing = [item for item in found if item[2]]
        return [(s, c) for s, c, written in sorted(writing, key=lambda item: item[2][0].rank)]

    def _gather(self, *, mutates: bool) -> None:
        """
        Read the computed fields as they are now.

        Raises:
            UnansweredError: jq has to be asked first.
        """
        if self._computed:
            fields = [computed for _, computed in self._computed]
            gather_all(fields, self._answers, self._expressions, mutates=mutates)

    def _old_path(
        self, selector: CompiledSelector, path: Path, past: Locator | None
    ) -> Path | None:
        """
        Where the place at *path* was before an update; None where it is new.

        A container that becomes the first one is new to a selector of the first: nobody has
        judged it there.
        """
        if past is None or self._old_paths is None:
            return None
        old_path = self._old_paths.path(path)
        if old_path is None or selector.query.plain is None:
            return old_path
        return old_path if old_path in past.places(selector).paths else None

    def _itemized_field(self, site: _Site, plan: ItemPlan) -> ItemizedField:
        role = role_of(site.plan.selector.name)
        name = f"{role}.{plan.field.name}" if role else plan.field.name
        ref = plan.field.ref
        old_path = None if site.old_path is None else site.old_path + ref
        return ItemizedField(
            plan,
            name,
            site.path + ref,
            self.editor,
            self._old,
            old_path,
            is_main=not plan.field.home.main_only or self._is_main(site),
        )

    def _ranked(
        self, enforcements: Callable[[FieldPlan], tuple[Enforcement, ...]]
    ) -> list[tuple[_Site, FieldPlan]]:
        """Where *enforcements* act, in the order in which they count."""
        found = [
            (site, plan)
            for site in self._sites
            if not site.is_judged_only
            for plan in site.plan.fields
            if enforcements(plan)
        ]
        # A share of a GPU before whole ones, which it rules out.
        found.sort(
            key=lambda item: (
                item[1].field.home.special != "gpuShare",
                enforcements(item[1])[0].rank,
            )
        )
        return found

    def _item_of(self, site: _Site) -> str:
        if site.item is None:
            site.item = item_name(site.plan.selector, self._document, site.path)
        return site.item

    def _is_main(self, site: _Site) -> bool:
        """Whether the container at this place is the one that policies mean by default."""
        mains = self._main_places()
        return site.place[-2:] == ("containers", 0) if mains is None else site.place in mains

    def _main_places(self) -> frozenset[Path] | None:
        """The places of main containers; None where the mapping doesn't say which they are."""
        if self._main is None and self._find_main is not None:
            self._main = self._find_main()
        return self._main

    def _main_name(self, template: _Site) -> str:
        """The name of the main container of a pod template, unless it is the first one."""
        pod = (*template.path, "spec", "containers")
        for path in sorted(path for path in self._main_places() or () if path[:-1] == pod):
            name = lookup(self._document, (*path, "name"))
            return name if path[-1] != 0 and isinstance(name, str) else ""
        return ""

    def _asks(self, site: _Site, plan: FieldPlan) -> bool:
        """Whether defaults and rules that ask for a value mean this place."""
        return not plan.field.home.main_only or self._is_main(site)

    def _find(self, site: _Site, plan: FieldPlan, *, old: bool = False) -> Found:
        """
        The value of a field at a place, now or before the update, and where it stands.

        Raises:
            RefMismatchError: something on the way is neither absent nor an object.
        """
        path = site.path if not old else site.old_path or ()
        document = self._old if old else self._document
        if plan.field.home is not NO_HOME:
            return find_at_home(document, path, plan.field)
        node = lookup(document, path) if old else self._node(site)
        return Found(path + plan.ref, read_ref(node, plan.ref))

    def _node(self, site: _Site) -> Any:
        if site.node is None or site.generation != self._generation:
            site.node = lookup(self._document, site.path)
            site.generation = self._generation
        return site.node

    # -- mutation ---------------------------------------------------------------------------

    def mutate(self) -> None:
        """
        Write what sets and defaults ask for.

        Raises:
            UnansweredError: jq has to be asked first. Nothing was written.
        """
        self._gather(mutates=True)
        for site, plan in self._sets:
            self._set(site, plan, plan.sets[0])
        writing = self._ranked_computed()
        for site, computed in writing:
            for written in computed.set():
                self._add_computed(site, computed.spot.plan, written)
        defaults = self._ranked(lambda field_plan: field_plan.defaults)
        derived = [
            (site, plan, plan.derived)
            for site in self._sites
            if not site.is_judged_only
            for plan in site.plan.fields
            if plan.derived
        ]
        # One may be what another needs, in any order: again until nothing comes of it.
        for _ in range(len(defaults) + len(derived) + 1):
            count = len(self.findings.changes)
            self.findings.not_applied.clear()
            refused = self._refused_defaults(defaults)
            for site, plan in defaults:
                self._default(site, plan, plan.defaults[0], refused.get((site.path, plan.label)))
            for site, plan, enforcement in derived:
                self._derive(site, plan, enforcement)
            if len(self.findings.changes) == count or not (derived or refused):
                break
        for site, computed in writing:
            for result in computed.default():
                self._add_computed(site, computed.spot.plan, result)
        for site, itemized in self._itemized:
            for change in () if site.is_judged_only else itemized.mutate():
                self._add_item_change(site, itemized.plan, change)
            self.findings.not_applied += itemized.not_applied

    def _add_computed(self, site: _Site, plan: FieldPlan, found: Written | LeftOut) -> None:
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
                item=_joined(self._item_of(site), found.item),
                rule=enforcement.rule,
                old=printable(found.field, found.old),
                new=printable(found.field, found.new),
                source=enforcement.source,
            )
        )
        # Another place may lie inside what was written.
        self._generation += 1

    def _add_item_change(self, site: _Site, plan: ItemPlan, change: ItemChange) -> None:
        self.findings.changes.append(
            Change(
                path=change.path,
                field=_item_field(plan, change.attribute),
                selector=site.plan.selector.name,
                item=change.item,
                rule=change.enforcement.rule,
                old=None,
                new=printable(change.field, change.value) if change.attribute else change.item,
                source=change.source,
            )
        )

    def _add_item_problem(self, site: _Site, plan: ItemPlan, found: ItemProblem) -> None:
        tells = (Rule.TYPE, Rule.REQUIRED, Rule.LOCKED, Rule.CAN_ADD)
        hidden = found.field.sensitive and found.rule not in tells
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

    def _set(self, site: _Site, plan: FieldPlan, enforcement: Enforcement) -> None:
        if self._set_by[site.path + plan.ref] is not enforcement:
            return
        try:
            current = self._find(site, plan).value
        except RefMismatchError:
            return  # Judged: a value of the wrong type stands in the way.
        if self._is_untouched(site, plan, current):
            return
        theirs = _own_items(current, plan)
        value = [item for item in current if item not in theirs] if theirs else current
        if not _is_set(plan.read_as(value), enforcement):
            self._write(site, plan, enforcement, current, theirs)

    def _refused_defaults(
        self, defaults: list[tuple[_Site, FieldPlan]]
    ) -> dict[tuple[Path, str], str]:
        """Of a native workload: defaults that don't go with what is there, by place and field."""
        if self._workload_type is None:
            return {}
        by_site: dict[Path, tuple[_Site, dict[str, Reading]]] = {}
        for site, plan in defaults:
            if self._is_fillable(site, plan) and not self._contradiction(
                site, plan, plan.defaults[0]
            ):
                _, candidates = by_site.setdefault(site.path, (site, {}))
                default = plan.defaults[0]
                candidates[plan.label] = Reading(default.value, default.meaning)
        return {
            (path, name): reason
            for path, (site, candidates) in by_site.items()
            for name, reason in self._refused(site, candidates).items()
        }

    def _refused(self, site: _Site, candidates: Mapping[str, Reading]) -> dict[str, str]:
        if self._workload_type is None:
            return {}
        selector = site.plan.selector.name
        return refused_defaults(self._workload_type, selector, self._node(site), candidates)

    def _is_fillable(self, site: _Site, plan: FieldPlan) -> bool:
        """Whether nothing stands there that a default would have to leave alone."""
        if not self._asks(site, plan):
            return False
        try:
            current = self._find(site, plan).value
        except RefMismatchError:
            return False
        if site.path + plan.ref in self._set_by:
            return False  # A set decides here, be it that nothing stands here.
        theirs = _own_items(current, plan)
        is_absent = current is None or (bool(theirs) and len(theirs) == len(current))
        return is_absent and not self._is_untouched(site, plan, current)

    def _default(
        self, site: _Site, plan: FieldPlan, enforcement: Enforcement, refused: str | None
    ) -> None:
        if not self._is_fillable(site, plan):
            return
        current = self._find(site, plan).value
        theirs = _own_items(current, plan)
        reason = self._contradiction(site, plan, enforcement) or refused
        if reason:
            path = site.path + plan.ref
            self.findings.not_applied.append(
                NotApplied(path, plan.label, enforcement.rule, reason, enforcement.source)
            )
        else:
            self._write(site, plan, enforcement, current, theirs)

    def _derive(self, site: _Site, plan: FieldPlan, enforcement: Enforcement) -> None:
        """Fill what is still absent from another field of the place."""
        if not self._asks(site, plan):
            return
        try:
            current = self._find(site, plan).value
        except RefMismatchError:
            return  # Judged: a value of the wrong type.
        if current is not None or self._is_untouched(site, plan, current):
            return
        derived = self._derived(site, plan)
        if derived is None:
            return
        if derived.value is None:
            reason = f"{enforcement.value} is more than the field can hold"
        else:
            reason = (
                self._contradiction(site, plan, derived)
                or broken_rule(plan.judges, plan.field, derived)
                or self._refused(site, {plan.label: Reading(derived.value, derived.meaning)}).get(
                    plan.label, ""
                )
            )
        if reason:
            path = site.path + plan.ref
            self.findings.not_applied.append(
                NotApplied(path, plan.label, enforcement.rule, reason, enforcement.source)
            )
        else:
            self._write(site, plan, derived, current, [])

    def _derived(self, site: _Site, plan: FieldPlan) -> Enforcement | None:
        """
        What the `defaultFrom` of *plan* gives here; None without one, or without a source.

        Its value is None where the field can't hold it.
        """
        if plan.derived is None:
            return None
        derivation: Derivation = plan.derived.meaning
        try:
            source = read_ref(self._node(site), derivation.ref)
            if source is None:
                return None
            return derive(plan.derived, source)
        except (RefMismatchError, ValueTypeError):
            return None

    def _write(
        self,
        site: _Site,
        plan: FieldPlan,
        enforcement: Enforcement,
        current: Any,
        theirs: list[Any],
    ) -> None:
        """Write the value; what Kubernetes itself put into a list (*theirs*) stays in it."""
        path = site.path + plan.ref
        value = [*theirs, *enforcement.value] if theirs else enforcement.value
        if plan.field.home is NO_HOME:
            node = self._node(site)
            known = (len(site.path), node) if isinstance(node, dict) else None
            self.editor.write(path, value, below=known)
        else:
            main = self._main_name(site) if plan.field.home.special else ""
            written = write_at_home(self.editor, site.path, plan.field, value, main=main)
            if written is None:
                return
            path = written
        self.findings.changes.append(
            Change(
                path=path,
                field=plan.label,
                selector=site.plan.selector.name,
                item=self._item_of(site),
                rule=enforcement.rule,
                old=printable(plan.field, current),
                new=printable(plan.field, enforcement.value),
                source=enforcement.source,
            )
        )
        for name in plan.field.removes:
            beside = site.path + plan.field.ref[:-1]
            if name in (lookup(self._document, beside) or ()):
                self.editor.remove((*beside, name))
        if isinstance(enforcement.value, (dict, list)):
            # Another place may lie inside what was written.
            self._generation += 1

    def _is_untouched(self, site: _Site, plan: FieldPlan, current: Any) -> bool:
        """Whether this is an update, and the field has the value that it had before it."""
        if self._old is None or site.old_path is None:
            return False
        old_node = lookup(self._old, site.old_path)
        if old_node is None and self._node(site) is not None:
            return False  # The place is new.
        try:
            return same_value(self._find(site, plan, old=True).value, current)
        except RefMismatchError:
            return False

    def _contradiction(self, site: _Site, plan: FieldPlan, enforcement: Enforcement) -> str:
        """Why *enforcement* and another value of the same place can't both stand; else ``""``."""
        field = plan.field
        if field.home.special:
            return obstacle_at_home(self._document, site.path, field, enforcement.meaning)
        node = self._node(site)
        fields = site.plan.selector.native if plan.slot.native else site.plan.selector.fields
        key = plan.slot.key
        for other_name, keeps, relation in (
            (field.not_below, operator.ge, "is below"),
            (field.not_above, operator.le, "is above"),
        ):
            other = _read_beside(node, fields, other_name, key)
            if other is None:
                continue
            exact = key is not None and is_extended_resource(key)
            if exact and enforcement.meaning == other.meaning:
                continue
            if not exact and keeps(enforcement.meaning, other.meaning):
                continue
            name = other_name if key is None else f"{other_name}[{key}]"
            own = show(printable(field, enforcement.value))
            return f"{own} {'differs from' if exact else relation} {name} {show(other.value)}"
        if enforcement.meaning is True:
            other = _read_beside(node, fields, field.not_without, None)
            if other is not None and other.meaning is False:
                return f"true contradicts {field.not_without} false"
        if enforcement.meaning is False:
            other = _read_beside(node, fields, field.not_with, None)
            if other is not None and other.meaning is True:
                return f"false contradicts {field.not_with} true"
        return ""

    # -- judging ----------------------------------------------------------------------------

    def judge(self) -> None:
        """
        Judge the object as it now is by every rule.

        Raises:
            UnansweredError: jq has to be asked first.
        """
        self._gather(mutates=False)
        for part, places in self._mismatched:
            self._judge_mismatches(part, places)
        for site in self._sites:
            for plan in site.plan.fields:
                self._judge_field(site, plan)
        for site, computed in self._computed:
            for broken in computed.judge():
                self._violation(
                    computed.spot.plan,
                    site.plan.selector,
                    broken.path,
                    _joined(self._item_of(site), broken.item),
                    broken.problem,
                    broken.rule,
                    printable(broken.field, broken.value),
                    broken.source,
                )
        for site, itemized in self._itemized:
            for found in itemized.judge():
                self._add_item_problem(site, itemized.plan, found)
        self.findings.violations = _once(self.findings.violations)
        self.findings.violations.sort(key=sort_key)

    def _judge_mismatches(self, part: SelectorPlan, places: Places) -> None:
        enforced = [
            (plan, enforcement)
            for plan in (*part.fields, *part.computed)
            for enforcement in (*plan.judges, *plan.sets, *plan.defaults)
        ]
        if not enforced:
            return  # All that the policies say here never acts.
        plan, source = enforced[0][0], enforced[0][1].source
        for mismatch in places.mismatches:
            found = lookup(self._document, mismatch.path)
            if self._old_paths is not None:
                old_path = self._old_paths.path(mismatch.path)
                if old_path is not None and same_value(lookup(self._old, old_path), found):
                    continue
            self._violation(
                plan,
                part.selector,
                mismatch.path,
                "",
                _wrong_type("an object" if mismatch.expected == "object" else "a list"),
                Rule.TYPE,
                json_type(found),
                source,
            )

    def _judge_field(self, site: _Site, plan: FieldPlan) -> None:
        mismatch: RefMismatchError | None = None
        current: Any = None
        path = site.path + plan.ref
        try:
            path, current = self._find_judged(site, plan)
        except RefMismatchError as error:
            mismatch = error
        if self._is_untouched_value(site, plan, current, mismatch):
            return
        current = plan.read_as(current)
        rules = plan.rules
        if not rules:
            return
        if mismatch is not None:
            path = site.path + mismatch.ref
            problem = _wrong_type("an object")
            source = rules[0].source
            self._add(site, plan, path, problem, Rule.TYPE, json_type(mismatch.value), source)
            return
        asks = self._asks(site, plan)
        for enforcement in rules:
            if not asks and enforcement.rule in ASKING:
                continue
            if enforcement.rule in _EXEMPTIBLE and self._is_exempt(
                site, plan, path, enforcement, current
            ):
                continue
            try:
                meaning = None if current is None else read_value(current, enforcement.type)
            except ValueTypeError as error:
                got = _got(plan, current)
                problem = _wrong_type(expected_type(error.expected, got))
                source = enforcement.source
                self._add(site, plan, path, problem, Rule.TYPE, got, source)
                return
            if enforcement.rule is Rule.DEFAULT:
                continue
            if self._old is not None and self._is_same(site, plan, enforcement, meaning):
                continue
            standard = plan.standard
            if standard is None and enforcement.rule is Rule.CAN_EDIT:
                standard = self._derived(site, plan)
                if standard is not None and standard.value is None:
                    standard = None
            found = judge(
                enforcement, meaning, default=standard, minimum=plan.minimum, beside=plan.judges
            )
            if found is None and enforcement.rule is Rule.SET:
                reason = self._contradiction(site, plan, enforcement)
                found = Problem(f"the value that the policy sets {reason}", "") if reason else None
            if found is not None and not self._is_less_bad(site, plan, enforcement, found):
                got = None if current is None else printable(plan.field, current)
                self._add(site, plan, path, found, enforcement.rule, got, enforcement.source)

    def _find_judged(self, site: _Site, plan: FieldPlan, *, old: bool = False) -> Found:
        """As `_find`, with the part of the value that rules look at."""
        found = self._find(site, plan, old=old)
        if plan.field.home.special and found.value is None and not old:
            found = Found(found.path, counted_at_home(self._document, site.path, plan.field))
        return Found(found.path, _judged_part(found.value, plan))

    def _is_exempt(
        self, site: _Site, plan: FieldPlan, path: Path, enforcement: Enforcement, current: Any
    ) -> bool:
        """Whether a rule does not concern this value."""
        if enforcement.rule is Rule.SET:
            # Two policies set one place by different selectors: the first counts.
            return self._set_by[path] is not enforcement
        if enforcement.rule in (Rule.BLOCKED, Rule.CAN_EDIT):
            if plan.copy_of is not None and current is not None:
                return same_value(current, lookup(self._node(site), plan.copy_of))
            return any(same_value(current, value) for value in plan.filled)
        return False

    def _is_untouched_value(
        self, site: _Site, plan: FieldPlan, current: Any, mismatch: RefMismatchError | None
    ) -> bool:
        if mismatch is None:
            if plan.field.having is None and not plan.own_items:
                return self._is_untouched(site, plan, current)
            if self._old is None or site.old_path is None:
                return False
            try:
                return same_value(self._find_judged(site, plan, old=True).value, current)
            except RefMismatchError:
                return False
        if self._old is None or site.old_path is None:
            return False
        old_value = lookup(self._old, site.old_path + mismatch.ref)
        return same_value(old_value, mismatch.value)

    def _is_less_bad(
        self, site: _Site, plan: FieldPlan, enforcement: Enforcement, found: Problem
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
            meaning = read_value(self._find_judged(site, plan).value, enforcement.type)
            added = [e for e in meaning if not any(same_value(e, old) for old in before)]
            if added and judge(enforcement, type(before)(added)) is not None:
                return False
            if enforcement.rule in (Rule.OPTIONS, Rule.PATTERN):
                return True
        return bool(found.badness < was.badness)

    def _is_same(
        self, site: _Site, plan: FieldPlan, enforcement: Enforcement, meaning: Any
    ) -> bool:
        """Whether an update only spells the value anew: `1` for `1000m`."""
        if meaning is None or enforcement.type is FieldType.OBJECT:
            return False
        return bool(self._meaning_before(site, plan, enforcement) == meaning)

    def _meaning_before(self, site: _Site, plan: FieldPlan, enforcement: Enforcement) -> Any:
        """What the field meant before an update; None where it was absent, or there is none."""
        if self._old is None or site.old_path is None:
            return None
        try:
            old = plan.read_as(self._find_judged(site, plan, old=True).value)
            return None if old is None else read_value(old, enforcement.type)
        except (RefMismatchError, ValueTypeError):
            return None

    def _add(
        self,
        site: _Site,
        plan: FieldPlan,
        path: Path,
        problem: Problem,
        rule: Rule,
        got: Any,
        source: Source,
    ) -> None:
        item = self._item_of(site)
        self._violation(plan, site.plan.selector, path, item, problem, rule, got, source)

    def _violation(
        self,
        plan: FieldPlan,
        selector: CompiledSelector,
        path: Path,
        item: str,
        problem: Problem,
        rule: Rule,
        got: Any,
        source: Source,
    ) -> None:
        hidden = plan.field.sensitive and rule not in (Rule.TYPE, Rule.REQUIRED, Rule.BLOCKED)
        self.findings.violations.append(
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


def _nowhere(_: Path) -> Path | None:
    return None


def _joined(site: str, item: str) -> str:
    """What an item of a list is called, at a place that has a name itself."""
    return "/".join(filter(None, (site, item)))


def _above(path: Path, levels: int) -> Path:
    return path[:-levels] if levels else path


def _once(violations: list[Violation]) -> list[Violation]:
    """*violations* without those that say the same of one value by another selector."""
    told: dict[tuple[Any, ...], Violation] = {}
    for found in violations:
        key = (found.path, found.field, found.rule, found.problem, found.accepted, found.source)
        told.setdefault(key, found)
    return list(told.values())


def _item_field(plan: ItemPlan, attribute: str) -> str:
    """The policy path of an itemized field, or of an attribute of its items."""
    return f"{plan.field.name}.{attribute}" if attribute else plan.field.name


def _wrong_type(expected: str) -> Problem:
    return Problem("has the wrong type", expected)


def _got(plan: FieldPlan, current: Any) -> Any:
    """A value of the wrong type: itself if it may be shown, else the name of its type."""
    shown = printable(plan.field, current)
    return json_type(current) if shown == NOT_SHOWN else shown


def _is_set(current: Any, enforcement: Enforcement) -> bool:
    """Whether *current* is the value that *enforcement* sets; an empty one may be absent."""
    try:
        meaning = None if current is None else read_value(current, enforcement.type)
    except ValueTypeError:
        return False
    return judge(enforcement, meaning) is None


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


def _own_items(current: Any, plan: FieldPlan) -> list[Any]:
    if not plan.own_items or not isinstance(current, list):
        return []
    return [item for item in current if is_own_item(item, plan.own_items)]


@dataclass(frozen=True, slots=True)
class _Beside:
    """Another field at the same place: its value as printed, and its meaning."""

    value: Any
    meaning: Any


def _read_beside(
    node: Any, fields: Mapping[str, Field], name: str | None, key: str | None
) -> _Beside | None:
    """The field *name* of the place *node*; None if there is none, or no readable value."""
    if name is None:
        return None
    field = fields[name]
    try:
        value = read_ref(node, field.ref if key is None else (*field.ref, key))
        if value is None:
            return None
        return _Beside(printable(field, value), read_value(value, field.type or FieldType.STRING))
    except (RefMismatchError, ValueTypeError):
        return None


def printable(field: Field, value: Any) -> Any:
    """*value* as it may stand in a message, record or log: hidden if secret, else bounded."""
    if isinstance(value, Unreadable):
        value = value.raw
    if value is None:
        return None
    if field.sensitive or field.type is FieldType.OBJECT:
        return NOT_SHOWN
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # 1e3 was a number like any other to its author.
    if isinstance(value, str):
        value = without_credentials(value[: 4 * _SHOWN_CHARS])
        return value if len(value) <= _SHOWN_CHARS else f"{value[:_SHOWN_CHARS]}…"
    if isinstance(value, list):
        if all(isinstance(item, (str, int, float)) for item in value) and len(value) <= 20:
            return [printable(field, item) for item in value]
        if field.type is FieldType.NAMES_ARRAY:
            return [printable(field, name) for name in _names(value)][:20]
        return NOT_SHOWN
    return NOT_SHOWN if isinstance(value, dict) else value


def _names(value: list[Any]) -> Iterator[str]:
    for item in value:
        name = item.get("name") if isinstance(item, dict) else item
        if isinstance(name, str):
            yield name


def sort_key(violation: Violation) -> tuple[Any, ...]:
    """Violations are told by field, then rule, then place."""
    return violation.field, violation.rule, _order(violation.path)


def _order(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """A sort key for paths: indexes by number, keys by text."""
    return tuple(
        [(False, token, "") if isinstance(token, int) else (True, 0, token) for token in path]
    )
