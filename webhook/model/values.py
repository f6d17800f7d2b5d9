"""Values of fields: their types, and what makes two of them equal."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction
from typing import Any

from webhook.errors import QuantityError, WebhookError
from webhook.model.quantity import format_quantity, parse_integer, parse_quantity


class FieldType(StrEnum):
    """Types that a field group may give a field; `ITEMIZED` is of native fields only."""

    STRING = "string"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    QUANTITY = "quantity"
    IPADDRESS = "ipaddress"
    STRINGS = "strings"
    INTEGERS = "integers"
    NUMBERS = "numbers"
    NAMES_ARRAY = "namesArray"
    OBJECT = "object"
    ITEMIZED = "itemized"

    @property
    def is_numeric(self) -> bool:
        return self in (FieldType.INTEGER, FieldType.NUMBER, FieldType.QUANTITY)

    @property
    def element(self) -> FieldType:
        """The type of an array's elements; of another type, itself."""
        return _ELEMENT_TYPES.get(self, self)


_ELEMENT_TYPES = {
    FieldType.STRINGS: FieldType.STRING,
    FieldType.INTEGERS: FieldType.INTEGER,
    FieldType.NUMBERS: FieldType.NUMBER,
    FieldType.NAMES_ARRAY: FieldType.STRING,
}


class ValueTypeError(WebhookError):
    """A value is not of its field's type. *expected* is said to people: `a whole number`."""

    def __init__(self, expected: str) -> None:
        super().__init__(f"must be {expected}")
        self.expected = expected


def json_type(value: Any) -> str:
    """The name of *value*'s type as people who write YAML know it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


def read_value(value: Any, value_type: FieldType) -> Any:
    """
    What *value* means, so that equal amounts compare equal: `1`, `"1"` and `1000m` do.

    Text and booleans are themselves, numbers exact, arrays tuples. *value* must not be None,
    which means absent.

    Raises:
        ValueTypeError: it is of another type.
    """
    return _READERS[value_type](value)


def _read_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueTypeError("text")


def _read_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueTypeError("true or false")


def _read_integer(value: Any) -> int:
    try:
        return parse_integer(value)
    except QuantityError as error:
        raise ValueTypeError("a whole number") from error


def _read_number(value: Any) -> Any:
    try:
        return parse_quantity(value)
    except QuantityError as error:
        raise ValueTypeError("a number") from error


def _read_quantity(value: Any) -> Any:
    try:
        return parse_quantity(value)
    except QuantityError as error:
        raise ValueTypeError("a quantity such as 500m, 2 or 4Gi") from error


def _read_address(value: Any) -> Any:
    try:
        if isinstance(value, str):
            return ipaddress.ip_address(value)
    except ValueError:
        pass
    raise ValueTypeError("an IP address")


def _read_names(value: Any) -> tuple[str, ...]:
    """A list of names, or of objects that have one (`imagePullSecrets`)."""
    if not isinstance(value, list):
        raise ValueTypeError("a list of names")
    names: list[str] = []
    for item in value:
        name = item.get("name") if isinstance(item, dict) else item
        if not isinstance(name, str):
            raise ValueTypeError("a list of names")
        names.append(name)
    return tuple(names)


def _array_reader(element: Callable[[Any], Any], expected: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueTypeError(expected)
        try:
            return tuple([element(item) for item in value])
        except ValueTypeError as error:
            raise ValueTypeError(expected) from error

    return read


def _read_object(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return value
    raise ValueTypeError("an object or a list")


_READERS: dict[FieldType, Callable[[Any], Any]] = {
    FieldType.STRING: _read_string,
    FieldType.BOOLEAN: _read_boolean,
    FieldType.INTEGER: _read_integer,
    FieldType.NUMBER: _read_number,
    FieldType.QUANTITY: _read_quantity,
    FieldType.IPADDRESS: _read_address,
    FieldType.STRINGS: _array_reader(_read_string, "a list of texts"),
    FieldType.INTEGERS: _array_reader(_read_integer, "a list of whole numbers"),
    FieldType.NUMBERS: _array_reader(_read_number, "a list of numbers"),
    FieldType.NAMES_ARRAY: _read_names,
    FieldType.OBJECT: _read_object,
    FieldType.ITEMIZED: _read_object,
}


def as_value(amount: Fraction, value_type: FieldType, *, like: object = 0) -> Any:
    """
    *amount* as it is written in a field: whole numbers rounded up, quantities as text in the
    manner of *like*. None where no number of an object can hold it (64 bits).

    Up, because who derives a request from a limit wants at least that share.
    """
    if value_type is FieldType.QUANTITY:
        return format_quantity(amount, like=like)
    if not -(2**63) <= amount < 2**63:
        return None
    if value_type is FieldType.INTEGER or amount.denominator == 1:
        return math.ceil(amount)
    return float(amount)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def same_value(left: Any, right: Any) -> bool:
    """
    Whether two JSON values are the same, types included.

    Python finds `1 == True`; an object in which one became the other has changed. Not recursive:
    how deep values nest is up to whoever sends them.
    """
    # What nearly every comparison is about; it saves the list.
    if type(left) is type(right) and type(left) in _SCALARS:
        return bool(left == right)
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            pairs += [(part, other[key]) for key, part in one.items()]
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pairs += zip(one, other, strict=True)
        elif isinstance(one, bool) or isinstance(other, bool):
            if one is not other:
                return False
        elif one != other:
            return False
    return True
