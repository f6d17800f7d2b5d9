"""What is found out about expressions before they take effect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.errors import EvaluationError
from webhook.mapping.answers import ask_about
from webhook.mapping.evaluator import Evaluate
from webhook.mapping.formatters import VALUE, FormatterField, ItemSelector
from webhook.mapping.merging import merge
from webhook.mapping.programs import Expression
from webhook.mapping.results import QueryFailure
from webhook.mapping.samples import VALUE_SAMPLES
from webhook.model.values import FieldType, same_value

_SAMPLE_ARGUMENTS: Mapping[FieldType, Any] = {
    FieldType.STRING: "sample",
    FieldType.INTEGER: 1,
    FieldType.BOOLEAN: True,
    FieldType.NUMBER: 0.5,
    FieldType.QUANTITY: "1Gi",
    FieldType.IPADDRESS: "192.0.2.1",
    FieldType.OBJECT: {"sample": 1},
}


@dataclass(frozen=True, slots=True)
class SmokeRun:
    """That an expression compiles and ends, on samples and with arguments of its types."""

    expression: Expression
    args: Mapping[str, FieldType]

    @property
    def key(self) -> str:
        return _key("smoke", self.expression, self.args)

    @property
    def expressions(self) -> Sequence[Expression]:
        return (self.expression,)

    def problem(self, evaluate: Evaluate) -> str:
        nothing = dict.fromkeys(self.args)
        given = {name: _SAMPLE_ARGUMENTS[value_type] for name, value_type in self.args.items()}
        results = evaluate(
            [
                ask_about(self.expression, arguments, sample)
                for sample in VALUE_SAMPLES
                for arguments in (nothing, given or {VALUE: "sample"})
            ]
        )
        # That jq raises an error on a sample is fine: the formatter may be for other elements.
        floods = [r.reason for r in results if isinstance(r, QueryFailure) and r.is_flood]
        return f"the expression {floods[0]} for a small sample" if floods else ""


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """That getExpr reads what setExpr wrote, and that writing it once more changes nothing."""

    field: FormatterField
    value: Any
    map_key: str | None = None

    @property
    def key(self) -> str:
        field = self.field
        return _key(
            "round", field.get, field.set, field.args, field.array_key, self.value, self.map_key
        )

    @property
    def expressions(self) -> Sequence[Expression]:
        return tuple([e for e in (self.field.get, self.field.set) if e is not None])

    def problem(self, evaluate: Evaluate) -> str:
        try:
            return self._problem(evaluate)
        except EvaluationError as error:
            return str(error)

    def _problem(self, evaluate: Evaluate) -> str:
        field, value = self.field, self.value
        (written,) = evaluate([field.write_question({}, value, self.map_key)])
        if isinstance(written, QueryFailure):
            # It may need what an element of this kind always has.
            return ""
        once = merge({}, field.result_of(written), field.array_key)
        read, again = evaluate(
            [
                field.read_question(once, self.map_key),
                field.write_question(once, value, self.map_key),
            ]
        )
        if isinstance(read, QueryFailure):
            return f"getExpr of {field} {read.reason} on what its setExpr writes"
        if not self._is_read_back(read):
            return f"getExpr of {field} does not read what its setExpr writes"
        if isinstance(again, QueryFailure):
            return f"setExpr of {field} {again.reason} on what it has written"
        twice = merge(once, field.result_of(again), field.array_key)
        if not same_value(once, twice):
            return f"setExpr of {field} writes something else the second time"
        return ""

    def _is_read_back(self, values: Sequence[Any]) -> bool:
        field = self.field
        if field.array_key is not None:
            return any(field.says(item, self.value) for item in field.read_items(values))
        found = field.read_one(values)
        if field.has_arguments:
            return isinstance(found, dict) and field.says(found, self.value)
        return field.same(field.argument, found, self.value)


@dataclass(frozen=True, slots=True)
class SelectsOwn:
    """That an item which a policy adds is selected by its own item selector."""

    selector: ItemSelector
    params: Mapping[str, Any]
    item: Any

    @property
    def key(self) -> str:
        return _key("own", self.selector.query, self.params, self.item)

    @property
    def expressions(self) -> Sequence[Expression]:
        return (self.selector.query,)

    def problem(self, evaluate: Evaluate) -> str:
        (found,) = evaluate([self.selector.question(self.item, self.params)])
        name = self.selector.name
        if isinstance(found, QueryFailure):
            return f"item selector {name} {found.reason} on the value itself"
        if not found:
            return (
                f"item selector {name} does not select the value, which each review would add"
                " once more"
            )
        return ""


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Expression):
        return [value.source, value.is_test]
    return str(value)
