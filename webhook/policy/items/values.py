"""Values of items: as policies write them, as they stand in an object, and which are the same."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from webhook.catalog import native_rows
from webhook.mapping.codecs import CODECS
from webhook.mapping.fields import Field, read_ref
from webhook.mapping.homes import NO_HOME
from webhook.model.pointer import lookup
from webhook.model.values import FieldType, ValueTypeError, read_value
from webhook.policy.plans import ItemPlan
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.mounts import MOUNTS, is_same_mount, mount_path


def content_value(content: Mapping[str, Any], attribute: str) -> Any:
    """The value of *attribute* in an item as policies write it; None if it is absent."""
    return read_ref(content, tuple(attribute.split(".")))


def attributes_of(field: Field) -> list[str]:
    """The attributes of *field* that have a home where it stands."""
    return [name for name, attribute in field.attributes.items() if attribute.ref]


def decoded(field: Field, value: Any) -> Any:
    """*value* as policies write it."""
    if value is None or not field.home.codec:
        return value
    return CODECS[field.home.codec].from_home(value)


def encoded_value(field: Field, value: Any) -> Any:
    """*value* as it is written where the field stands."""
    return CODECS[field.home.codec].to_home(value) if field.home.codec else value


def means_the_same(field: Field, one: Any, other: Any) -> bool:
    """Whether both are absent, or one value in whatever spelling."""
    if one is None or other is None or field.type is None:
        return one is None and other is None
    try:
        return bool(read_value(one, field.type) == read_value(other, field.type))
    except ValueTypeError:
        return False


def _platform_flags() -> Mapping[tuple[str, str], bool]:
    flags = {"true": True, "false": False}
    return {
        (name, attribute): flags[part["platformDefault"]]
        for name, row in native_rows().items()
        for attribute, part in row.get("attributes", {}).items()
        if part["type"] == "boolean" and part.get("platformDefault") in flags
    }


# What the workload API takes an absent yes or no for, by itemized field and attribute.
_PLATFORM_FLAGS = _platform_flags()


def _of_absent(field: Field, name: str) -> bool | None:
    """What the attribute *name* is taken for where it is absent; None: only for absent."""
    if field.attributes[name].type is not FieldType.BOOLEAN:
        return None
    # In a pod template an absent yes or no is a no.
    return _PLATFORM_FLAGS.get((field.name, name)) if field.home is NO_HOME else False


def says_the_same(field: Field, name: str, one: Any, other: Any) -> bool:
    """
    Whether an item of *field* is the same with either value of the attribute *name*.

    It is with one mount path in two spellings, and with what an absent value is taken for.
    """
    absent = _of_absent(field, name)
    one, other = (absent if value is None else value for value in (one, other))
    is_mount = MOUNTS.get(field.name) == name
    if is_mount and isinstance(one, str) and isinstance(other, str):
        return is_same_mount(one, other)
    return means_the_same(field.attributes[name], one, other)


class GivenItems:
    """
    Items that policies give, found by all that they hold but for their key.

    Looking one up costs the same however many there are: they are kept by what they hold, in one
    group for each set of attributes that may also be left to the defaults of all items.
    """

    def __init__(self, plan: ItemPlan, given: Iterable[Enforcement]) -> None:
        self._field = plan.field
        self._defaults = plan.defaults
        self._names = [
            name
            for name, attribute in plan.field.attributes.items()
            if attribute.ref and name != plan.field.item_key
        ]
        self._groups: dict[tuple[str, ...], dict[Hashable, list[tuple[int, Enforcement]]]] = {}
        for rank, enforcement in enumerate(given):
            own = {name: content_value(enforcement.value, name) for name in self._names}
            fixed = tuple(
                [name for name in self._names if own[name] is not None or name not in plan.defaults]
            )
            signature = self._signature(fixed, own)
            group = self._groups.setdefault(fixed, {})
            group.setdefault(signature, []).append((rank, enforcement))

    def key_of(self, node: Any) -> str | None:
        """The key of the first one that *node* is in all but its key, completed or not yet."""
        if not isinstance(node, dict) or not self._groups:
            return None
        values = {
            name: decoded(self._field.attributes[name], lookup(node, attribute.ref))
            for name, attribute in self._field.attributes.items()
            if name in self._names
        }
        found = [
            ranked
            for fixed, group in self._groups.items()
            for ranked in group.get(self._signature(fixed, values), ())
            if self._is_equal(values, ranked[1])
        ]
        if not found:
            return None
        return str(min(found, key=lambda ranked: ranked[0])[1].meaning)

    def _is_equal(self, values: Mapping[str, Any], given: Enforcement) -> bool:
        return all(self._is_as_given(name, values[name], given) for name in self._names)

    def _is_as_given(self, name: str, value: Any, given: Enforcement) -> bool:
        own = content_value(given.value, name)
        default = self._defaults.get(name)
        if own is None and default is not None:
            return value is None or says_the_same(self._field, name, default.value, value)
        return says_the_same(self._field, name, own, value)

    def _signature(self, names: tuple[str, ...], values: Mapping[str, Any]) -> Hashable:
        """Equal for items of which all attributes *names* say the same."""
        return tuple([self._sign(name, values[name]) for name in names])

    def _sign(self, name: str, value: Any) -> Hashable:
        field = self._field.attributes[name]
        if value is None:
            return _of_absent(self._field, name)
        if MOUNTS.get(self._field.name) == name and isinstance(value, str):
            return mount_path(value)
        try:
            meaning: Hashable = read_value(value, field.type or FieldType.OBJECT)
            hash(meaning)
        except (ValueTypeError, TypeError):
            return ...  # Objects are compared one by one.
        return meaning
