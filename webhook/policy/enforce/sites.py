"""
Where a plan acts on one object: its places, what stands there now, and what did before an update.

A site is one place and everything that is enforced there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webhook.mapping.answers import JqAnswers
from webhook.mapping.compiled import CompiledSelector
from webhook.mapping.fields import RefMismatchError, read_ref
from webhook.mapping.homes import NO_HOME
from webhook.mapping.locate import Locator, OldPaths, Places, is_free, item_name, locate_now
from webhook.model.pointer import Path, lookup, to_pointer
from webhook.model.values import same_value
from webhook.policy.enforce.homes import Found, find_at_home
from webhook.policy.gpu import gpu_share
from webhook.policy.plans import MAIN_CONTAINER, FieldPlan, Plan, Rank, SelectorPlan

# What the place of a pod spec ends with, if it is that of a pod template.
_TEMPLATE_SPEC = ("spec",)


@dataclass(slots=True)
class Site:
    """
    One place and everything enforced there.

    *place* is what the selector found; what is enforced may be some levels above it, at *path*.
    *old_path* is that of the same place before an update; *node* is what stands there, as far as
    that is known.
    """

    plan: SelectorPlan
    place: Path
    path: Path
    old_path: Path | None
    is_judged_only: bool = False
    node: Any = None
    generation: int = 0
    item: str | None = None
    pointer: str | None = None

    @property
    def at(self) -> tuple[str, Path, Path, bool]:
        """What tells it from the other sites of its plan."""
        return self.plan.selector.name, self.place, self.path, self.is_judged_only


class Sites:
    """
    The sites of one plan on one object, found before anything is written to them.

    *old* is the object before an update. With *is_changed*, it is no longer the object of which
    *answers* say where things are. *mismatched* are the selectors that something of a wrong type
    keeps from places.

    Raises:
        EvaluationError: a query of the mapping failed on this object.
        UnansweredError: jq has to be asked first.
    """

    def __init__(
        self,
        plan: Plan,
        document: dict[str, Any],
        old: dict[str, Any] | None,
        answers: JqAnswers,
        *,
        is_changed: bool = False,
    ) -> None:
        self.document = document
        self.old = old
        self.all: list[Site] = []
        self.mismatched: list[tuple[SelectorPlan, Places]] = []
        # Counts writes that may have replaced nodes; a node of an older one is looked up anew.
        self._generation = 0
        self._main: frozenset[Path] | None = None
        # By the names that containers have now: what is written later may give one another name.
        # Where the plan is enforced once more, these are the written ones: a container that a
        # policy has renamed goes with the old one of its new name, if any, as in a second review.
        self._old_paths = None if old is None else OldPaths(old, document)
        jq_places = answers.places
        if is_changed:
            jq_places = locate_now(plan.jq_sources, document, answers)
        locator = Locator(plan.mapping, document, jq_places, answers.values)
        past = None if old is None else Locator(plan.mapping, old, {})
        for part in plan.selectors:
            places = locator.places(part.selector)
            for place, node in zip(places.paths, places.nodes, strict=True):
                old_path = None if old is None else self._old_place(part.selector, place, past)
                if part.above and place[-part.above :] != _TEMPLATE_SPEC:
                    continue  # A pod spec that is no template's: there is no metadata to it.
                self.all.append(
                    Site(
                        part,
                        place,
                        _above(place, part.above),
                        None if old_path is None else _above(old_path, part.above),
                        is_judged_only=places.are_borrowed,
                        node=None if part.above else node,
                    )
                )
            if places.mismatches:
                self.mismatched.append((part, places))
        locator.close()
        main = plan.mapping.selectors.get(MAIN_CONTAINER)
        self._find_main: Callable[[], frozenset[Path]] | None = None
        if main is not None:
            self._find_main = lambda: frozenset(locator.places(main).paths)

    def are_those_of(self, other: Sites) -> bool:
        """
        Whether the sites are at the places of *other*, the same is in the way of more, and the
        main containers are the same where anything depends on them.
        """
        return (
            [site.at for site in self.all] == [site.at for site in other.all]
            and self.mismatched == other.mismatched
            and (
                not any(site.plan.asks_for_main for site in self.all)
                or self._main_places() == other._main_places()
            )
        )

    @property
    def writable(self) -> list[Site]:
        """Those that a policy may write to."""
        return [site for site in self.all if not site.is_judged_only]

    def ranked(
        self, fields: Callable[[SelectorPlan], tuple[tuple[Rank, FieldPlan], ...]]
    ) -> list[tuple[Site, FieldPlan]]:
        """Where *fields* of the plan are, in the order in which they count."""
        found = [
            (rank, site, plan)
            for site in self.all
            if not site.is_judged_only
            for rank, plan in fields(site.plan)
        ]
        # Mostly there is one policy, and so one rank.
        if len({rank for rank, _, _ in found}) > 1:
            found.sort(key=_rank_of)
        return [(site, plan) for _, site, plan in found]

    # -- before an update ---------------------------------------------------------------------

    def _old_place(
        self, selector: CompiledSelector, path: Path, past: Locator | None
    ) -> Path | None:
        """
        Where the place at *path* was before an update; None where it is new.

        A container that becomes the first one is new to a selector of the first: nobody has
        judged it there.
        """
        old_path = self.old_of(path)
        if past is None or old_path is None or past.needs_jq(selector):
            return old_path
        return old_path if old_path in past.places(selector).paths else None

    def old_of(self, path: Path) -> Path | None:
        """Where anything at *path* was before an update; None where it is new."""
        return None if self._old_paths is None else self._old_paths.path(path)

    def is_untouched(self, site: Site, plan: FieldPlan, current: Any) -> bool:
        """Whether this is an update, and the field has the value that it had before it."""
        if self.old is None or site.old_path is None:
            return False
        old_node = lookup(self.old, site.old_path)
        if old_node is None and self.node(site) is not None:
            return False  # The place is new.
        try:
            return same_value(self.find(site, plan, old=True).value, current)
        except RefMismatchError:
            return False

    def is_new(self, site: Site) -> bool:
        """Whether nothing at this place can be as it was before."""
        return self.old is None or site.old_path is None

    # -- what stands at a site ------------------------------------------------------------------

    def node(self, site: Site) -> Any:
        """What stands at the place now."""
        if site.node is None or site.generation != self._generation:
            site.node = lookup(self.document, site.path)
            site.generation = self._generation
        return site.node

    def is_blocked(self, site: Site) -> bool:
        """Whether something else has taken the place, or stands on the way: nothing fits in."""
        # Mostly an object is there, and nothing has to be looked for.
        return not isinstance(self.node(site), dict) and not is_free(self.document, site.path)

    def pointer(self, site: Site) -> str:
        """The JSON pointer of the place."""
        if site.pointer is None:
            site.pointer = to_pointer(site.path)
        return site.pointer

    def forget_nodes(self) -> None:
        """Look each node up anew: another place may lie inside what was written."""
        self._generation += 1

    def value(self, site: Site, plan: FieldPlan) -> Any:
        """
        The value of a field at a place now.

        Raises:
            RefMismatchError: something on the way is neither absent nor an object.
        """
        if plan.field.home is not NO_HOME:
            return find_at_home(self.document, site.path, plan.field).value
        return read_ref(self.node(site), plan.ref)

    def find(self, site: Site, plan: FieldPlan, *, old: bool = False) -> Found:
        """
        The value of a field at a place, now or before the update, and where it stands.

        Raises:
            RefMismatchError: something on the way is neither absent nor an object.
        """
        path = site.path if not old else site.old_path or ()
        document = self.old if old else self.document
        if plan.field.home is not NO_HOME:
            return find_at_home(document, path, plan.field)
        node = lookup(document, path) if old else self.node(site)
        return Found(path + plan.ref, read_ref(node, plan.ref))

    def item_of(self, site: Site) -> str:
        """What people call the place, where it is an item of a list."""
        if site.item is None:
            site.item = item_name(site.plan.selector, self.document, site.path)
        return site.item

    # -- main containers ------------------------------------------------------------------------

    def is_main(self, site: Site) -> bool:
        """Whether the container at this place is the one that policies mean by default."""
        mains = self._main_places()
        return site.place[-2:] == ("containers", 0) if mains is None else site.place in mains

    def asks(self, site: Site, plan: FieldPlan) -> bool:
        """Whether defaults and rules that ask for a value mean this place."""
        home = plan.field.home
        if home is NO_HOME:
            return True
        return not home.judged and (not home.main_only or self.is_main(site))

    def main_name(self, template: Site, plan: FieldPlan) -> str:
        """The name of the main container of a pod template, unless it is the first one."""
        mains = self._main_places() or ()
        return gpu_share.main_name(self.document, template.path, mains, plan.field.home.pod)

    def _main_places(self) -> frozenset[Path] | None:
        """The places of main containers; None where the mapping doesn't say which they are."""
        if self._main is None and self._find_main is not None:
            self._main = self._find_main()
        return self._main


def _rank_of(item: tuple[Rank, Site, FieldPlan]) -> Rank:
    return item[0]


def _above(path: Path, levels: int) -> Path:
    return path[:-levels] if levels else path
