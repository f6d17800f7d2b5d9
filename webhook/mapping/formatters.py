"""Formatters: fields that are read and written by jq expressions, and selectors of list items."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from webhook.errors import EvaluationError, SpecError
from webhook.mapping.answers import Question, ask_about
from webhook.mapping.merging import merge
from webhook.mapping.programs import Expression, compile_expression
from webhook.mapping.reading import Reach, reach_of
from webhook.mapping.vetting import literal_names
from webhook.model.documents import Document, FormatterFieldSpec, FormatterSpec, ItemSelectorSpec
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType, ValueTypeError, json_type, read_value, same_value

# The argument that holds the value of a field which has only one.
VALUE = "value"
# A field with these two arguments and no arrayKey is a map: enforcements name a key.
KEY = "key"

_ARGUMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class FormatterField:
    """
    One field of a formatter.

    *get* reads it from an element, *set* gives what to merge into one. *args* are the types of
    their arguments, *enums* the texts that some of them may be. Of a list of items, *array_key*
    is the argument that tells one from another.
    """

    formatter: str
    name: str
    get: Expression | None = None
    set: Expression | None = None
    args: Mapping[str, FieldType] = field(default_factory=dict)
    enums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    array_key: str | None = None
    # Built in: its field says itself whether it is a secret.
    builtin: bool = False

    def __str__(self) -> str:
        return f"{self.formatter}.{self.name}"

    @cached_property
    def is_map(self) -> bool:
        """Whether an enforcement names one key, as of a KeyValueMap."""
        return self.array_key is None and set(self.args) == {KEY, VALUE}

    @cached_property
    def has_arguments(self) -> bool:
        """Whether a value is an object of arguments, and not a plain one."""
        return self.array_key is not None or (len(self.args) > 1 and not self.is_map)

    @cached_property
    def argument(self) -> str:
        """The argument that holds a plain value."""
        return next(iter(self.args)) if len(self.args) == 1 else VALUE

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name that says what the field is about: its own, and those it reads or writes."""
        sources = [expression.source for expression in (self.get, self.set) if expression]
        spelled = [name for source in sources for name in literal_names(source)]
        return (self.name, *self.args, *spelled)

    @cached_property
    def reads_anything(self) -> bool:
        """Whether its values may come from places that its getExpr does not name."""
        return (
            not self.builtin
            and self.get is not None
            and reach_of(self.get.source) is Reach.ANYTHING
        )

    @cached_property
    def names_all(self) -> bool:
        """Whether `names` tells of each of its values, read or written, where it comes from."""
        return self.builtin or all(
            reach_of(e.source) is Reach.NAMED for e in (self.get, self.set) if e
        )

    @cached_property
    def key_type(self) -> FieldType | None:
        """The type of the argument that tells one item from another."""
        return None if self.array_key is None else self.args.get(self.array_key)

    def same_key(self, one: Any, other: Any) -> bool:
        """Whether two values of that argument mean the same."""
        return self.array_key is not None and self.same(self.array_key, one, other)

    def merged(self, node: Any, result: dict[str, Any]) -> Any:
        """
        The element *node* with what setExpr says in it; neither is changed.

        Raises:
            EvaluationError: the result has a number that jq has rounded.
        """
        return merge(node, result, self.array_key, self.same_key)

    def key_of(self, value: Any) -> str:
        """An item's key as text: the same for two that mean the same number."""
        if self.key_type in (FieldType.INTEGER, FieldType.NUMBER):
            try:
                number = read_value(value, self.key_type)
            except ValueTypeError:
                return json.dumps(value) if isinstance(value, bool) else str(value)
            return str(int(number)) if number == int(number) else str(value)
        return str(value)

    @cached_property
    def _no_arguments(self) -> Mapping[str, Any]:
        return dict.fromkeys(self.args)

    def read_question(self, element: Any, key: str | None = None) -> Question:
        """The question for the value at *element*; for a map, that of one *key*."""
        assert self.get is not None, "the compiler asks for a getExpr"
        named = {**self._no_arguments, KEY: key} if self.is_map else self._no_arguments
        return ask_about(self.get, named, element)

    def items_question(
        self, element: Any, selector: ItemSelector, params: Mapping[str, Any]
    ) -> Question:
        """The question for the items at *element*, and which of them *selector* means."""
        named = {"of": self._no_arguments, "then": selector.named(params)}
        return ask_about(self.selecting(selector), named, element)

    def selecting(self, selector: ItemSelector) -> Expression:
        """The expression of `items_question`."""
        assert self.get is not None, "the compiler asks for a getExpr"
        return Expression(self.get.source, then=selector.query.source)

    def write_question(self, element: Any, value: Any, key: str | None = None) -> Question:
        """The question for what to merge into *element* so that the field has *value*."""
        assert self.set is not None, "the compiler asks for a setExpr"
        if self.has_arguments:
            named = {**self._no_arguments, **value}
        elif self.is_map:
            named = {KEY: key, VALUE: value}
        else:
            named = {self.argument: value}
        return ask_about(self.set, named, element)

    def read_one(self, values: Sequence[Any]) -> Any:
        """
        The value that getExpr yielded; None where there is none.

        Raises:
            EvaluationError: it yielded several.
        """
        if len(values) > 1:
            raise EvaluationError(f"getExpr of {self} gives {len(values)} values; one is needed")
        return values[0] if values else None

    def read_items(self, values: Sequence[Any]) -> list[dict[str, Any]]:
        """
        The items that getExpr yielded, one by one or as one list.

        Raises:
            EvaluationError: one of them is no object.
        """
        found = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        items = [item for item in found if item is not None]
        wrong = [item for item in items if not isinstance(item, dict)]
        if wrong:
            raise EvaluationError(
                f"getExpr of {self} gives {json_type(wrong[0])};"
                " objects of its arguments are needed"
            )
        return items

    def result_of(self, values: Sequence[Any]) -> dict[str, Any]:
        """
        What setExpr wants to be merged.

        Raises:
            EvaluationError: it is no object.
        """
        if len(values) == 1 and isinstance(values[0], dict):
            return values[0]
        got = json_type(values[0]) if len(values) == 1 else f"{len(values)} values"
        raise EvaluationError(f"setExpr of {self} gives {got}; one object is needed")

    def says(self, item: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        """Whether *item* has each argument that is *wanted*, by meaning: `1` is `1000m`."""
        return all(
            value is None or self.same(name, item.get(name), value)
            for name, value in wanted.items()
        )

    def same(self, name: str, one: Any, other: Any) -> bool:
        """Whether two values of an argument mean the same; of one without a type, are it."""
        value_type = self.args.get(name, FieldType.OBJECT)
        if one is None or other is None or value_type is FieldType.OBJECT:
            return same_value(one, other)
        try:
            return bool(read_value(one, value_type) == read_value(other, value_type))
        except ValueTypeError:
            return False


@dataclass(frozen=True, slots=True)
class CompiledFormatter:
    """A formatter: its name as its author spells it, and its fields by name."""

    name: str
    fields: Mapping[str, FormatterField]


@dataclass(frozen=True, slots=True)
class ItemSelector:
    """A named choice of items of a list: *query* says of one whether it is meant."""

    name: str
    query: Expression
    args: Mapping[str, FieldType] = field(default_factory=dict)

    def named(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict.fromkeys(self.args), **params}

    def question(self, item: Any, params: Mapping[str, Any]) -> Question:
        return ask_about(self.query, self.named(params), item)


# --- compiling ----------------------------------------------------------------------------------


def compile_formatter(document: Document) -> CompiledFormatter:
    """
    Compile one Formatter.

    Raises:
        ExceptionGroup: of SpecError, one for each problem.
    """
    spec: FormatterSpec = document.spec
    problems: list[SpecError] = []
    name = spec.name or document.name
    fields = {
        field_name: replace(
            _compile_field(name, field_name, field_spec, f"spec.fields.{field_name}", problems),
            builtin=document.builtin,
        )
        for field_name, field_spec in spec.fields.items()
    }
    if not fields and not document.builtin:
        problems.append(SpecError("spec.fields", "a formatter has at least one field"))
    if problems:
        raise ExceptionGroup("the formatter is wrong", problems)
    return CompiledFormatter(name, fields)


def _compile_field(
    formatter: str, name: str, spec: FormatterFieldSpec, path: str, problems: list[SpecError]
) -> FormatterField:
    args = compile_arguments(spec.args_info, f"{path}.argsInfo", problems)
    for enum, values in spec.args_enum.items():
        where = f"{path}.argsEnum.{enum}"
        if enum not in args:
            problems.append(SpecError(where, f"no argument {enum!r}{did_you_mean(enum, args)}"))
        elif args[enum] is not FieldType.STRING:
            problems.append(
                SpecError(where, f"is for arguments of type string; {enum} is {args[enum]}")
            )
        elif not values:
            problems.append(SpecError(where, "must not be empty"))
    array_key = spec.array_key.arg_name if spec.array_key is not None else None
    if array_key is not None and array_key not in args:
        hint = did_you_mean(array_key, args)
        problems.append(
            SpecError(f"{path}.arrayKey.argName", f"no argument {array_key!r} in argsInfo{hint}")
        )
    if spec.get_expr is None and spec.set_expr is None:
        problems.append(SpecError(path, "getExpr or setExpr is needed, or both"))
    known = args or {VALUE: FieldType.OBJECT}
    return FormatterField(
        formatter=formatter,
        name=name,
        get=_compile(spec.get_expr, f"{path}.getExpr", known, problems),
        set=_compile(spec.set_expr, f"{path}.setExpr", known, problems),
        args=args,
        enums={enum: tuple(values) for enum, values in spec.args_enum.items()},
        array_key=array_key,
    )


def compile_item_selector(
    name: str, spec: ItemSelectorSpec, path: str, problems: list[SpecError]
) -> ItemSelector | None:
    """Compile one item selector of a group; None if it is wrong."""
    args = compile_arguments(spec.args_info, f"{path}.argsInfo", problems)
    query = _compile(spec.query, f"{path}.query", args, problems, is_test=True)
    return None if query is None else ItemSelector(name, query, args)


def compile_arguments(
    args_info: Mapping[str, str], path: str, problems: list[SpecError]
) -> dict[str, FieldType]:
    for name in args_info:
        if not _ARGUMENT_NAME.fullmatch(name):
            problems.append(
                SpecError(f"{path}.{name}", "is no name that an expression can use: letters first")
            )
    return {name: FieldType(type_name) for name, type_name in args_info.items()}


def _compile(
    source: str | None,
    path: str,
    args: Iterable[str],
    problems: list[SpecError],
    *,
    is_test: bool = False,
) -> Expression | None:
    if source is None:
        return None
    try:
        expression = compile_expression(source, path=path, is_test=is_test)
    except SpecError as error:
        problems.append(error)
        return None
    for name in expression.arguments:
        if name not in args:
            hint = did_you_mean(name, args)
            problems.append(
                SpecError(path, f"uses $ARGS.named.{name}, which is not in argsInfo{hint}")
            )
    return expression
