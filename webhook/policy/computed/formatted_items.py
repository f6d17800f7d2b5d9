"""Items that a formatter with an arrayKey reads and writes: objects of its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from webhook.mapping.answers import NO_ANSWERS
from webhook.mapping.fields import Field
from webhook.mapping.formatters import VALUE, FormatterField
from webhook.mapping.merging import SameKey, index_of, is_keyed
from webhook.model.decision import NOT_SHOWN, Rule
from webhook.model.pointer import Path
from webhook.model.values import FieldType
from webhook.policy.computed.computed import (
    Broken,
    Inquiry,
    LeftOut,
    Spot,
    Unknown,
    Written,
    has_inexact,
)
from webhook.policy.computed.selected import Item, Listed, ListedItems
from webhook.policy.rules.arguments import judged_argument
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import Problem, show


class FormattedItems(ListedItems):
    """Here an item is an object of arguments, one of which is its key."""

    def __init__(self, spot: Spot, formatter: FormatterField, key: str) -> None:
        super().__init__(spot)
        self._formatter = formatter
        self._key = key
        self.item_field = replace(
            spot.plan.field, type=judged_argument(formatter) or FieldType.OBJECT
        )
        # What setExpr says, by rule and key of the item.
        self._results: dict[tuple[Rule, str], Any] = {}
        # Where it has written, and whom it asks to write more there.
        self._touched: set[Path] = set()
        self._inquiry = Inquiry(NO_ANSWERS, ())
        # What was written or is there already, and has to be read when all is written, by key.
        self._applied: dict[str, Enforcement] = {}
        # The key that the rules are about, as `Item.name` spells it.
        slot = spot.plan.slot
        self.rule_key = None if slot.key is None else formatter.key_of(slot.key)

    def find(self, inquiry: Inquiry, node: Any, path: Path) -> Listed | Unknown:
        selected: list[bool] | None = None
        if self.selector is None:
            values = inquiry.ask(self._formatter.read_question(node))
        else:
            values = inquiry.ask(self._formatter.items_question(node, self.selector, self.params))
        if isinstance(values, Unknown):
            return values
        if self.selector is not None:
            selected = [is_selected for _, is_selected in values]
            values = tuple([value for value, _ in values])
        found = self._formatter.read_items(values)
        items = [
            Item(self._path_of(node, path, value), value, self._name(value), is_selected)
            for value, is_selected in zip(found, selected or [True] * len(found), strict=True)
        ]
        return Listed(tuple(items))

    def _name(self, value: dict[str, Any]) -> str:
        return self._formatter.key_of(value.get(self._key))

    def shown_name(self, item: Item, field: Field) -> str:
        return self._shown(item.name)

    def _shown(self, name: str) -> str:
        """An item's key, unless it may be a secret itself."""
        if name == self.rule_key or self._formatter.names_all:
            return name
        is_secret = self._formatter.reads_anything or self.spot.secrets.tell(self.spot, [name])
        return NOT_SHOWN if is_secret else name

    def _path_of(self, node: Any, path: Path, value: dict[str, Any]) -> Path:
        """Where an item stands: the only object of its key in a list of the element, if any."""
        if value.get(self._key) is None or not isinstance(node, dict):
            return path
        same_key = self._formatter.same_key
        places = [
            (*path, name, index)
            for name, listed in node.items()
            if isinstance(listed, list)
            and (index := index_of(listed, self._key, value[self._key], same_key)) is not None
        ]
        return places[0] if len(places) == 1 else path

    def match(self, now: Listed, before: Listed) -> Iterator[tuple[Any, Item]]:
        for item in reversed(before.items):
            yield item.name, item

    def identity(self, item: Item) -> Any:
        return item.name

    def judged(self, item: Item) -> Any:
        return item.value.get(VALUE) if judged_argument(self._formatter) else item.value

    def item_of(self, enforcement: Enforcement) -> Any:
        return enforcement.value

    def _key_of(self, enforcement: Enforcement) -> str:
        return self._formatter.key_of(enforcement.value[self._key])

    # -- mutation ---------------------------------------------------------------------------

    def ask_for_writes(self, inquiry: Inquiry, now: Listed) -> None:
        plan = self.spot.plan
        self._inquiry = inquiry
        for enforcement in (*plan.sets[:1], *plan.defaults[:1]):
            for key, wanted in self._wanted(enforcement, now):
                result = inquiry.ask(self._formatter.write_question(self.spot.node or {}, wanted))
                if not isinstance(result, Unknown):
                    self._results[enforcement.rule, key] = result

    def _wanted(
        self, enforcement: Enforcement, now: Listed
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """The items that *enforcement* may write, whole, by key."""
        if self.selector is None or enforcement.rule is Rule.DEFAULT:
            yield self._key_of(enforcement), enforcement.value
            return
        for item in self.meant(now):
            # What the policy does not say of a selected item is as it is.
            known = {
                name: part
                for name, part in item.value.items()
                if name in self._formatter.args and not has_inexact(part)
            }
            yield item.name, {**known, **enforcement.value}

    def set(self) -> Iterator[Written]:
        now = self.known.now
        there = {item.name: item for item in self.meant(now)}
        for enforcement in self.spot.plan.sets[:1]:
            for key, wanted in self._wanted(enforcement, now):
                item = there.get(key)
                if item is None:
                    if not self._was_missing(key):
                        yield from self._write(enforcement, key, wanted)
                elif not self.is_untouched(item):
                    if self._says(item, enforcement):
                        self._applied[key] = enforcement
                    else:
                        yield from self._write(enforcement, key, wanted)

    def _was_missing(self, key: str) -> bool:
        """Whether this is an update, and the place had no item of this key before it either."""
        return not self.spot.is_new and key not in self.known.before.names

    def is_there(self, listed: Listed, enforcement: Enforcement) -> bool:
        # Judged by its key alone, whatever other items are there.
        return self._key_of(enforcement) in listed.names

    def add(self, enforcement: Enforcement) -> Iterator[Written | LeftOut]:
        key = self._key_of(enforcement)
        result = self._formatter.result_of(self._results[enforcement.rule, key])
        if _completes(self.spot.node, result, self._key, self._formatter.same_key):
            # One that the formatter does not read: a volume of another kind.
            yield LeftOut(self.spot.path, f"another item is called {key}", enforcement)
        else:
            obstacle = self.spot.obstacle(result, enforcement.rule)
            written = [] if obstacle else self._write(enforcement, key, enforcement.value)
            yield from written
            if not written:
                reason = obstacle or f"setExpr of {self._formatter} changes nothing here"
                yield LeftOut(self.spot.path, reason, enforcement)

    def _write(self, enforcement: Enforcement, key: str, wanted: dict[str, Any]) -> list[Written]:
        values = self._results.get((enforcement.rule, key))
        if values is None or self._is_stale(values):
            # Items that stand in one text: the setExpr has to see what became of it.
            question = self._formatter.write_question(self.spot.node or {}, wanted)
            answer = self._inquiry.ask(question)
            if isinstance(answer, Unknown):
                self._inquiry.close()
            else:
                values = answer
        assert values is not None, "the inquiry has ended"
        result = self._formatter.result_of(values)
        written = self.spot.merge(result, self._shown(key), enforcement)
        self._touched.update([found.path for found in written])
        if written:
            self._applied[key] = enforcement
        return written

    def _is_stale(self, values: Any) -> bool:
        """Whether what a setExpr said was for another value than the one that it now changes."""
        if not self._touched:
            return False
        _, found = self.spot.difference(self._formatter.result_of(values))
        return any((*self.spot.path, *change.path) in self._touched for change in found)

    def unread(self, *, is_touched: bool) -> Enforcement | None:
        now = self.known.now
        for key, applied in self._applied.items():
            if applied.rule is Rule.SET or is_touched:
                found = [item for item in now.items if item.name == key]
                is_read = any(self._says(item, applied) for item in found)
            else:
                is_read = key in now.names if self.selector is None else bool(now.selected)
            if not is_read:
                return applied
        return None

    # -- judging ----------------------------------------------------------------------------

    def judge_set(self, enforcement: Enforcement) -> Iterator[Broken]:
        """Each item that is meant has what is set; without a selector, it is there."""
        found = self.meant(self.known.now)
        for item in found:
            if not self.is_untouched(item) and not self._says(item, enforcement):
                accepted = f"exactly {show(enforcement.value)}"
                problem = Problem("the policy sets this item", accepted)
                yield self.broken(item, Rule.SET, problem, enforcement)
        key = self.rule_key
        if not found and self.selector is None and key is not None and not self._was_missing(key):
            problem = Problem("the policy sets this item, and it is missing", "that it is there")
            field = self.spot.plan.field
            yield Broken(self.spot.path, key, Rule.SET, problem, None, field, enforcement.source)

    def _says(self, item: Item, enforcement: Enforcement) -> bool:
        return self._formatter.says(item.value, enforcement.value)


def _completes(node: Any, result: Any, key: str, same_key: SameKey) -> bool:
    """Whether merging *result* by *key* would complete an item that is there."""
    if isinstance(node, dict) and isinstance(result, dict):
        return any(_completes(node.get(name), part, key, same_key) for name, part in result.items())
    if isinstance(node, list) and isinstance(result, list) and is_keyed(result, key):
        return any(index_of(node, key, item[key], same_key) is not None for item in result)
    return False
