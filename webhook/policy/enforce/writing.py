"""Sets, defaults and derived values of plain fields: what is written, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.mapping.fields import RefMismatchError
from webhook.mapping.homes import NO_HOME
from webhook.model.decision import Change, NotApplied
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.pointer import Path, lookup
from webhook.model.values import ValueTypeError, read_value
from webhook.patch import Below, Editor
from webhook.policy.enforce.beside import contradiction, derived_from
from webhook.policy.enforce.findings import Findings, printable
from webhook.policy.enforce.homes import write_at_home
from webhook.policy.enforce.sites import Site, Sites
from webhook.policy.native.agreement import broken_rule, refused_defaults
from webhook.policy.native.conditions import Reading
from webhook.policy.plans import FieldPlan, is_own_item
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import keeps_set

# What stands where a default has nothing to do.
_FILLED = object()


class Writer:
    """
    Writes the plain fields of one object of this *kind*.

    *set_by* says, of each path that something is set at, which `set` counts there.
    """

    def __init__(
        self,
        kind: GroupVersionKind,
        sites: Sites,
        editor: Editor,
        findings: Findings,
        set_by: Mapping[Path, Enforcement],
    ) -> None:
        self._workload_type = NATIVE_TYPE_OF.get(kind)
        self._sites = sites
        self._editor = editor
        self._findings = findings
        self._set_by = set_by
        # Nothing can be as it was before.
        self._is_all_new = sites.old is None

    def set(self, site: Site, plan: FieldPlan, enforcement: Enforcement) -> None:
        """Overwrite what differs from the set value."""
        if self._set_by[site.path + plan.ref] is not enforcement:
            return
        if plan.is_simple and self._is_all_new:
            self._write_simple(site, plan, enforcement, replaces=True)
            return
        if self._sites.is_blocked(site):
            return
        try:
            current = self._sites.value(site, plan)
        except RefMismatchError:
            return  # Judged: a value of the wrong type stands in the way.
        if self._sites.is_untouched(site, plan, current):
            return
        theirs = _own_items(current, plan)
        value = [item for item in current if item not in theirs] if theirs else current
        if not is_set(plan.read_as(value), enforcement):
            self._write(site, plan, enforcement, current, theirs)

    def fill(self) -> None:
        """Write defaults, and derived values where there are none."""
        defaults = self._sites.ranked(lambda part: part.defaulting)
        derived = [
            (site, plan, plan.derived)
            for site in self._sites.writable
            for plan in site.plan.fields
            if plan.derived
        ]
        left_out = len(self._findings.not_applied)
        # One may be what another needs, in any order: again until nothing comes of it.
        for _ in range(len(defaults) + len(derived) + 1):
            count = len(self._findings.changes)
            # The last time says what is left out.
            del self._findings.not_applied[left_out:]
            refused = self._refused_defaults(defaults)
            for site, plan in defaults:
                self._default(site, plan, plan.defaults[0], refused.get((site.path, plan.label)))
            for site, plan, enforcement in derived:
                self._derive(site, plan, enforcement)
            if len(self._findings.changes) == count or not (derived or refused):
                break

    def _refused_defaults(
        self, defaults: list[tuple[Site, FieldPlan]]
    ) -> dict[tuple[Path, str], str]:
        """Of a native workload: defaults that don't go with what is there, by place and field."""
        if self._workload_type is None:
            return {}
        by_site: dict[Path, tuple[Site, dict[str, Reading]]] = {}
        for site, plan in defaults:
            default = plan.defaults[0]
            if self._gap(site, plan) is not _FILLED and not self._contradiction(
                site, plan, default
            ):
                _, candidates = by_site.setdefault(site.path, (site, {}))
                candidates[plan.label] = Reading(default.value, default.meaning)
        return {
            (path, name): reason
            for path, (site, candidates) in by_site.items()
            for name, reason in self._refused(site, candidates).items()
        }

    def _refused(self, site: Site, candidates: Mapping[str, Reading]) -> dict[str, str]:
        if self._workload_type is None:
            return {}
        selector, node = site.plan.selector.name, self._sites.node(site)
        return refused_defaults(self._workload_type, selector, node, candidates)

    def _gap(self, site: Site, plan: FieldPlan) -> Any:
        """
        What a default has to complete here: nothing, or a list of Kubernetes' own items alone;
        `_FILLED` where it has to leave alone what there is, or nothing fits in.
        """
        if not self._sites.asks(site, plan) or self._sites.is_blocked(site):
            return _FILLED
        try:
            current = self._sites.value(site, plan)
        except RefMismatchError:
            return _FILLED
        if current is not None:
            theirs = _own_items(current, plan)
            if not theirs or len(theirs) != len(current):
                return _FILLED
        if self._set_by and site.path + plan.ref in self._set_by:
            return _FILLED  # A set decides here, be it that nothing stands here.
        return _FILLED if self._sites.is_untouched(site, plan, current) else current

    def _default(
        self, site: Site, plan: FieldPlan, enforcement: Enforcement, refused: str | None
    ) -> None:
        if plan.is_simple and self._is_all_new and not (refused or plan.is_default_related):
            if site.path + plan.ref not in self._set_by:
                self._write_simple(site, plan, enforcement, replaces=False)
            return
        current = self._gap(site, plan)
        if current is _FILLED:
            return
        reason = self._contradiction(site, plan, enforcement) or refused
        if reason:
            self._leave_out(site, plan, enforcement, reason)
        else:
            self._write(site, plan, enforcement, current, _own_items(current, plan))

    def _contradiction(self, site: Site, plan: FieldPlan, default: Enforcement) -> str:
        """Why a *default* can't stand beside another value of the place; else ``""``."""
        if not plan.is_default_related:
            return ""
        return contradiction(self._sites, site, plan, default)

    def _derive(self, site: Site, plan: FieldPlan, enforcement: Enforcement) -> None:
        """Fill what is still absent from another field of the place."""
        if not self._sites.asks(site, plan):
            return
        try:
            current = self._sites.value(site, plan)
        except RefMismatchError:
            return  # Judged: a value of the wrong type.
        if current is not None or self._sites.is_untouched(site, plan, current):
            return
        derived = derived_from(self._sites, site, plan)
        if derived is None:
            return
        if derived.value is None:
            reason = f"{enforcement.value} is more than the field can hold"
        else:
            broken = broken_rule(plan.judges, plan.field, derived)
            if broken and plan.field.sensitive:
                broken = "what comes of it is no value that the policy accepts"
            reason = (
                contradiction(self._sites, site, plan, derived)
                or broken
                or self._refused(site, {plan.label: Reading(derived.value, derived.meaning)}).get(
                    plan.label, ""
                )
            )
        if reason:
            self._leave_out(site, plan, enforcement, reason)
        else:
            self._write(site, plan, derived, current, [])

    def _leave_out(
        self, site: Site, plan: FieldPlan, enforcement: Enforcement, reason: str
    ) -> None:
        path = site.path + plan.ref
        self._findings.not_applied.append(
            NotApplied(path, plan.label, enforcement.rule, reason, enforcement.source)
        )

    def _write(
        self,
        site: Site,
        plan: FieldPlan,
        enforcement: Enforcement,
        current: Any,
        theirs: list[Any],
    ) -> None:
        """Write the value; what Kubernetes itself put into a list (*theirs*) stays in it."""
        path, pointer = site.path + plan.ref, ""
        value = [*theirs, *enforcement.value] if theirs else enforcement.value
        if plan.field.home is NO_HOME:
            pointer = self._sites.pointer(site) + plan.pointer
            self._editor.write(path, value, below=self._below(site), pointer=pointer)
        else:
            main = self._sites.main_name(site, plan) if plan.field.home.special else ""
            written = write_at_home(self._editor, site.path, plan.field, value, main=main)
            if written is None:
                return
            path = written
        told = printable(plan.field, enforcement.value)
        self._note(site, plan, enforcement, current, told, path, pointer)
        for name in plan.field.removes:
            beside = site.path + plan.field.ref[:-1]
            if name in (lookup(self._sites.document, beside) or ()):
                self._editor.remove((*beside, name))
        if isinstance(enforcement.value, (dict, list)) or isinstance(current, (dict, list)):
            self._sites.forget_nodes()

    def _write_simple(
        self, site: Site, plan: FieldPlan, enforcement: Enforcement, *, replaces: bool
    ) -> None:
        """
        What `set` (if it *replaces* what is there) or `_default` comes to where nothing but the
        field has to be looked at, and it `is_simple`.

        In one piece, and from what is the same for all objects: a review does it a dozen times.
        """
        sites = self._sites
        holder = sites.node(site)
        for token in plan.parents:
            if not isinstance(holder, dict):
                break
            holder = holder.get(token)
        if isinstance(holder, dict):
            current = holder.get(plan.key)
        elif holder is None and not sites.is_blocked(site):
            current = None
        else:
            return  # Judged: a value of the wrong type stands in the way.
        if is_set(current, enforcement) if replaces else current is not None:
            return

        path, rule, value = site.path + plan.ref, enforcement.rule, enforcement.value
        pointer = (site.pointer or sites.pointer(site)) + plan.pointer
        if isinstance(holder, dict):
            self._editor.put(holder, plan.key, value, pointer)
        else:
            self._editor.write(path, value, below=self._below(site), pointer=pointer)
        told = plan.told.get(rule)
        if told is None:
            told = plan.told[rule] = printable(plan.field, value)
        self._note(site, plan, enforcement, current, told, path, pointer)
        if isinstance(current, (dict, list)):
            # What stood in it is out of the object now.
            sites.forget_nodes()

    def _below(self, site: Site) -> Below | None:
        """What the editor need not walk to again."""
        node = self._sites.node(site)
        return (len(site.path), node) if isinstance(node, dict) else None

    def _note(
        self,
        site: Site,
        plan: FieldPlan,
        enforcement: Enforcement,
        current: Any,
        told: Any,
        path: Path,
        pointer: str,
    ) -> None:
        """Note that a value, which is *told* so, was written at *path* in place of *current*."""
        item = self._sites.item_of(site) if site.item is None else site.item
        old = None if current is None else printable(plan.field, current)
        selector, rule, source = site.plan.selector.name, enforcement.rule, enforcement.source
        self._findings.changes.append(
            Change._make((path, plan.label, selector, item, rule, old, told, source, pointer))
        )


def is_set(current: Any, enforcement: Enforcement) -> bool:
    """Whether *current* is the value that *enforcement* sets; an empty one may be absent."""
    try:
        meaning = None if current is None else read_value(current, enforcement.type)
    except ValueTypeError:
        return False
    return keeps_set(enforcement, meaning)


def _own_items(current: Any, plan: FieldPlan) -> list[Any]:
    if not plan.own_items or not isinstance(current, list):
        return []
    return [item for item in current if is_own_item(item, plan.own_items)]
