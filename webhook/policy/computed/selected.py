"""A list of which rules concern some items: those that an item selector chooses, or of one key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from webhook.mapping.fields import Field
from webhook.mapping.formatters import ItemSelector
from webhook.model.decision import Rule
from webhook.model.pointer import Path
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
from webhook.policy.rules.judge import Problem, judge


@dataclass(frozen=True, slots=True)
class Item:
    """
    One item: where it stands as far as that is known, and whether the selector means it.

    *name* is its key, or what people call it.
    """

    path: Path
    value: Any
    name: str
    is_selected: bool = True


@dataclass(frozen=True, slots=True)
class Listed:
    """What was read at a place: the items, or the value that is no list."""

    items: tuple[Item, ...] = ()
    wrong: Any = None
    wrong_at: Path = ()

    @property
    def selected(self) -> list[Item]:
        return [item for item in self.items if item.is_selected]

    @property
    def names(self) -> frozenset[str]:
        return frozenset([item.name for item in self.items])


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known once all answers are there; *past* is what each item was before an update."""

    now: Listed = field(default_factory=Listed)
    before: Listed = field(default_factory=Listed)
    past: Mapping[Any, Item] = field(default_factory=dict)


class ListedItems(ABC):
    """A list at one place, and the rules on some of its items."""

    # How one item, or what of it is judged, is read and printed.
    item_field: Field

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        plan = spot.plan
        self.selector: ItemSelector | None = None
        self.params: Mapping[str, Any] = {}
        if plan.slot.items is not None:
            self.selector = plan.field.item_selectors[plan.slot.items.selector]
            self.params = plan.slot.items.params
        # Of items with a key, the one that the rules are about; None for all.
        self.rule_key = plan.slot.key
        self.known = _Known()
        self._is_matched = False
        # Whether the item that a default would add is one that the selector means.
        self._selects_own: tuple[Any, ...] | Unknown = ()

    # -- what each kind of list does in its own way -------------------------------------------

    @abstractmethod
    def find(self, inquiry: Inquiry, node: Any, path: Path) -> Listed | Unknown:
        """The items of the element *node*, which stands at *path*."""

    @abstractmethod
    def match(self, now: Listed, before: Listed) -> Iterator[tuple[Any, Item]]:
        """Items before an update, by the identity that they have now."""

    @abstractmethod
    def identity(self, item: Item) -> Any: ...

    @abstractmethod
    def judged(self, item: Item) -> Any:
        """What of an item value rules look at."""

    @abstractmethod
    def item_of(self, enforcement: Enforcement) -> Any:
        """The item that a default adds."""

    @abstractmethod
    def ask_for_writes(self, inquiry: Inquiry, now: Listed) -> None:
        """Ask what to write; *now* is empty while it is unknown."""

    @abstractmethod
    def set(self) -> Iterator[Written]: ...

    @abstractmethod
    def is_there(self, listed: Listed, enforcement: Enforcement) -> bool:
        """Whether a default finds, without a selector, what it is for."""

    @abstractmethod
    def add(self, enforcement: Enforcement) -> Iterator[Written | LeftOut]: ...

    @abstractmethod
    def unread(self, *, is_touched: bool) -> Enforcement | None: ...

    @abstractmethod
    def judge_set(self, enforcement: Enforcement) -> Iterator[Broken]: ...

    # -- reading ----------------------------------------------------------------------------

    def gather(self, inquiry: Inquiry, *, mutates: bool) -> None:
        spot = self.spot
        node, old_node = spot.node, spot.old_node
        now = Listed() if node is None else self.find(inquiry, node, spot.path)
        before: Listed | Unknown = Listed()
        if old_node is not None:
            before = self.find(inquiry, old_node, spot.old_path or ())
        for enforcement in spot.plan.defaults[:1] if mutates and self.selector else ():
            self._selects_own = self._ask_selector(inquiry, self.item_of(enforcement))
        if mutates:
            self.ask_for_writes(inquiry, self.known.now if isinstance(now, Unknown) else now)
        if isinstance(now, Unknown) or isinstance(before, Unknown):
            return
        # Items go together as they were submitted; afterwards they stand elsewhere.
        past = self.known.past if self._is_matched else dict(self.match(now, before))
        self._is_matched = True
        self.known = _Known(now, before, past)

    def select(self, inquiry: Inquiry, items: list[Item]) -> Listed | Unknown:
        """*items* as the selector sees them."""
        answers = [self._ask_selector(inquiry, item.value) for item in items]
        if any(isinstance(answer, Unknown) for answer in answers):
            return UNKNOWN
        return Listed(
            tuple(
                [
                    replace(item, is_selected=bool(answer))
                    for item, answer in zip(items, answers, strict=True)
                ]
            )
        )

    def _ask_selector(self, inquiry: Inquiry, value: Any) -> tuple[Any, ...] | Unknown:
        assert self.selector is not None, "who asks it has one"
        return inquiry.ask(self.selector.question(plain_numbers(value), self.params))

    def meant(self, listed: Listed) -> list[Item]:
        """The items that the rules concern: selected, and of the key if the rules name one."""
        return [item for item in listed.selected if self.rule_key in (None, item.name)]

    def was(self, item: Item) -> Item | None:
        return self.known.past.get(self.identity(item))

    def is_untouched(self, item: Item) -> bool:
        """Whether an update left it as it was; it was a selected one before, too."""
        was = self.was(item)
        return was is not None and was.is_selected and same_value(was.value, item.value)

    # -- mutation ---------------------------------------------------------------------------

    def default(self) -> Iterator[Written | LeftOut]:
        now, before = self.known.now, self.known.before
        if now.wrong is not None or self.spot.plan.sets:
            return
        for enforcement in self.spot.plan.defaults[:1]:
            if self.selector is not None:
                there, there_before = bool(now.selected), bool(before.selected)
            else:
                there = self.is_there(now, enforcement)
                there_before = self.is_there(before, enforcement)
            if there or (not self.spot.is_new and not there_before):
                continue
            if self.selector is not None and not self._selects_own:
                # It would be added again each time.
                yield LeftOut(
                    self._at,
                    f"item selector {self.selector.name} does not select it",
                    enforcement,
                )
            else:
                yield from self.add(enforcement)

    # -- judging ----------------------------------------------------------------------------

    @property
    def _at(self) -> Path:
        return (*self.spot.path, *self.spot.plan.ref)

    def judge(self) -> Iterator[Broken]:
        now = self.known.now
        rules = self.spot.plan.rules
        if now.wrong is not None:
            if rules and not same_value(now.wrong, self.known.before.wrong):
                problem = Problem("has the wrong type", "a list")
                yield self._broken_at(now.wrong_at, Rule.TYPE, problem, now.wrong, rules[0])
            return
        mistyped: dict[Path, None] = {}
        for enforcement in rules:
            match enforcement.rule:
                case Rule.DEFAULT:
                    continue
                case Rule.REQUIRED:
                    yield from self._judge_required(enforcement)
                case Rule.BLOCKED:
                    yield from self._judge_blocked(enforcement)
                case Rule.SET:
                    yield from self.judge_set(enforcement)
                case _:
                    yield from self.judge_values(enforcement, mistyped)

    def _judge_required(self, enforcement: Enforcement) -> Iterator[Broken]:
        if self.meant(self.known.now):
            return
        if self.spot.is_new or self.meant(self.known.before):
            problem = Problem("a value is required", "")
            yield self._broken_at(self._at, Rule.REQUIRED, problem, None, enforcement)

    def _judge_blocked(self, enforcement: Enforcement) -> Iterator[Broken]:
        for item in self.meant(self.known.now):
            if not self.is_untouched(item):
                problem = Problem("blocked by the policy", "no such item")
                yield self.broken(item, Rule.BLOCKED, problem, enforcement)

    def judge_values(
        self, enforcement: Enforcement, mistyped: dict[Path, None] | None = None
    ) -> Iterator[Broken]:
        """Judge what value rules look at, in each selected item; a wrong type is told once."""
        mistyped = {} if mistyped is None else mistyped
        for item in self.known.now.selected:
            if self.is_untouched(item) or item.path in mistyped:
                continue
            wrong = self._type_problem(enforcement, self.judged(item))
            if wrong is not None:
                mistyped[item.path] = None
                yield self.broken(item, Rule.TYPE, wrong, enforcement)
                continue
            found = self.problem(enforcement, item)
            if found is not None and not self._is_less_bad(enforcement, found, item):
                yield self.broken(item, enforcement.rule, found, enforcement)

    def problem(self, enforcement: Enforcement, item: Item) -> Problem | None:
        """What is wrong with one item by a rule on values."""
        value = self.judged(item)
        if self._type_problem(enforcement, value) is not None:
            return Problem("has the wrong type", "")
        return judge(enforcement, _meaning(value, enforcement), minimum=self.spot.plan.minimum)

    def _type_problem(self, enforcement: Enforcement, value: Any) -> Problem | None:
        if has_inexact(value):
            return INEXACT
        try:
            _meaning(value, enforcement)
        except ValueTypeError as error:
            return Problem("has the wrong type", error.expected)
        return None

    def _is_less_bad(self, enforcement: Enforcement, found: Problem, item: Item) -> bool:
        was = self.was(item)
        if was is None or not was.is_selected:
            return False
        value = self.judged(was)
        if value is None or self._type_problem(enforcement, value) is not None:
            return False
        if _meaning(value, enforcement) == _meaning(self.judged(item), enforcement):
            return True
        before = self.problem(enforcement, was)
        return before is not None and bool(found.badness < before.badness)

    def shown_name(self, item: Item, field: Field) -> str:
        """What *item* is called where all may read it; *field* says whether its value is hidden."""
        return item.name

    def broken(self, item: Item, rule: Rule, problem: Problem, enforcement: Enforcement) -> Broken:
        value = plain_numbers(self.judged(item))
        if rule is Rule.TYPE:
            value = json_type(value)
        field = self.spot.guarded(self.item_field, self.judged(item), item.name)
        name = self.shown_name(item, field)
        return Broken(item.path, name, rule, problem, value, field, enforcement.source)

    def _broken_at(
        self, path: Path, rule: Rule, problem: Problem, value: Any, enforcement: Enforcement
    ) -> Broken:
        shown = json_type(value) if rule is Rule.TYPE else value
        key = self.spot.plan.slot.key or ""
        return Broken(path, key, rule, problem, shown, self.spot.plan.field, enforcement.source)


def _meaning(value: Any, enforcement: Enforcement) -> Any:
    return None if value is None else read_value(value, enforcement.type)


def name_of(value: Any) -> str:
    """What people call an item; ``""`` where it has no name."""
    name = value.get("name") if isinstance(value, dict) else value
    return name if isinstance(name, str) else ""
