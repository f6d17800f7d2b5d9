"""What is found out about expressions before they take effect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from webhook.errors import EvaluationError
from webhook.mapping.answers import ask_about
from webhook.mapping.evaluator import Evaluate
from webhook.mapping.fields import Field
from webhook.mapping.formatters import KEY, VALUE, FormatterField, ItemSelector
from webhook.mapping.programs import Expression
from webhook.mapping.results import QueryFailure
from webhook.mapping.samples import ARGUMENT_SAMPLES, VALUE_SAMPLES, elements_for
from webhook.model.values import FieldType, same_value


@dataclass(frozen=True, slots=True)
class SmokeRun:
    """That an expression compiles and ends, on samples and with arguments of its types."""

    expression: Expression
    args: Mapping[str, FieldType]

    @property
    def key(self) -> str:
        return trial_key("smoke", self.expression, self.args)

    @property
    def expressions(self) -> Sequence[Expression]:
        return (self.expression,)

    def problem(self, evaluate: Evaluate) -> str:
        nothing = dict.fromkeys(self.args)
        given = {name: ARGUMENT_SAMPLES[value_type][0] for name, value_type in self.args.items()}
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
class WritesSamples:
    """
    That setExpr gives a result for some values of its arguments' types.

    A warning, not more: what it wants of them, their types may not say.
    """

    field: FormatterField

    @property
    def key(self) -> str:
        field = self.field
        return trial_key(
            "writes samples", str(field), field.get, field.set, field.args, field.enums
        )

    @property
    def expressions(self) -> Sequence[Expression]:
        return tuple([e for e in (self.field.set,) if e is not None])

    def problem(self, evaluate: Evaluate) -> str:
        field = self.field
        candidates = {
            name: field.enums.get(name) or ARGUMENT_SAMPLES[value_type]
            for name, value_type in (field.args or {VALUE: FieldType.OBJECT}).items()
        }
        given = [
            {name: samples[index % len(samples)] for name, samples in candidates.items()}
            for index in range(max(map(len, candidates.values())))
        ]
        why = _why_never_written(
            evaluate,
            field,
            [
                (named if field.has_arguments else named[field.argument], named.get(KEY))
                for named in given
            ],
        )
        return f"fails with every sample value, whatever the element: {why}" if why else ""


@dataclass(frozen=True, slots=True)
class Writes:
    """
    That setExpr gives a result with one of *values*, in some element.

    *is_hidden*: what jq says of them is not shown.
    """

    field: FormatterField
    values: Sequence[Any]
    map_key: str | None = None
    is_hidden: bool = False

    @property
    def key(self) -> str:
        field = self.field
        return trial_key(
            *("writes", str(field), field.get, field.set, field.args),
            *(self.values, self.map_key, self.is_hidden),
        )

    @property
    def expressions(self) -> Sequence[Expression]:
        return tuple([e for e in (self.field.set,) if e is not None])

    def problem(self, evaluate: Evaluate) -> str:
        given = [(value, self.map_key) for value in self.values]
        why = _why_never_written(evaluate, self.field, given, is_hidden=self.is_hidden)
        told = f"setExpr of {self.field} fails with this value, whatever the element: {why}"
        return told if why else ""


def _why_never_written(
    evaluate: Evaluate,
    field: FormatterField,
    given: Sequence[tuple[Any, str | None]],
    *,
    is_hidden: bool = False,
) -> str:
    """
    Why setExpr fails with each of the values and keys *given*, in every element that it is tried
    in; empty if it does not. It may need what an element of its kind always has, and such elements
    are made after the paths that it spells out.
    """
    elements = elements_for(
        [expression.source for expression in (field.set, field.get) if expression]
    )
    results = evaluate(
        [
            field.write_question(element, value, key)
            for element, (value, key) in product(elements, given)
        ]
    )
    failures = [result for result in results if isinstance(result, QueryFailure)]
    if len(failures) < len(results):
        return ""
    first = failures[0]
    return first.reason if is_hidden or not first.text else f"jq says: {first.text}"


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """
    That setExpr gives a result, that getExpr reads it, and that writing it once more changes
    nothing. *is_hidden*: what jq says of the value is not shown.
    """

    field: FormatterField
    value: Any
    map_key: str | None = None
    is_hidden: bool = False

    @property
    def key(self) -> str:
        field = self.field
        return trial_key(
            *("round", str(field), field.get, field.set, field.args, field.array_key),
            *(self.value, self.map_key, self.is_hidden),
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
            return Writes(field, [value], self.map_key, self.is_hidden).problem(evaluate)
        once = field.merged({}, field.result_of(written))
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
        twice = field.merged(once, field.result_of(again))
        if not same_value(once, twice):
            return f"setExpr of {field} writes something else the second time"
        return ""

    def _is_read_back(self, values: Sequence[Any]) -> bool:
        return reads_back(self.field, values, self.value)


def reads_back(field: FormatterField, values: Sequence[Any], wanted: Any) -> bool:
    """Whether what getExpr yielded is, or has, the value that is *wanted*."""
    if field.array_key is not None:
        return any(field.says(item, wanted) for item in field.read_items(values))
    found = field.read_one(values)
    if field.has_arguments:
        return isinstance(found, dict) and field.says(found, wanted)
    return field.same(field.argument, found, wanted)


@dataclass(frozen=True, slots=True)
class LeavesLists:
    """That setExpr makes no list of what other fields, by the paths of *refs*, have keys of."""

    field: FormatterField
    refs: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def key(self) -> str:
        return trial_key("lists", str(self.field), self.field.set, self.field.args, self.refs)

    @property
    def expressions(self) -> Sequence[Expression]:
        return tuple([e for e in (self.field.set,) if e is not None])

    def problem(self, evaluate: Evaluate) -> str:
        field = self.field
        named = {name: ARGUMENT_SAMPLES[value_type][0] for name, value_type in field.args.items()}
        value = named if field.has_arguments else named.get(field.argument, "sample")
        (written,) = evaluate([field.write_question({}, value, named.get(KEY))])
        # Whether it gives what it has to is for the trials of policies.
        result = None if isinstance(written, QueryFailure) or not written else written[0]
        for name, ref in self.refs:
            node = result
            for depth, token in enumerate(ref):
                if isinstance(node, list):
                    shown = ".".join(ref[:depth])
                    return (
                        f"specRef of field {name!r} leads into {shown},"
                        f" of which setExpr of {field} makes a list"
                    )
                node = node.get(token) if isinstance(node, dict) else None
        return ""


def trials_of_lists(fields: Iterable[Field]) -> Iterator[LeavesLists]:
    """The trials whether paths of *fields*, those of one place, lead into what formatters write."""
    beside = list(fields)
    refs: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for field in beside:
        if len(field.ref) > 1:
            refs.setdefault(field.ref[0], []).append((field.name, field.ref))
    for formatter in [field.formatter for field in beside if field.formatter] if refs else ():
        found = [ref for name in sorted({*formatter.names} & refs.keys()) for ref in refs[name]]
        if found and formatter.set is not None:
            yield LeavesLists(formatter, tuple(found))


@dataclass(frozen=True, slots=True)
class SelectsOwn:
    """That an item which a policy adds is selected by its own item selector."""

    selector: ItemSelector
    params: Mapping[str, Any]
    item: Any

    @property
    def key(self) -> str:
        return trial_key("own", self.selector.query, self.params, self.item)

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


def trial_key(*parts: Any) -> str:
    """Equal for trials of the same *parts*."""
    return json.dumps(parts, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Expression):
        return [value.source, value.is_test]
    return str(value)
