"""
Places that are not there yet: which of those that a `dependency` leads to its query would find.

What nobody would find once it is there is not created: no rule could judge it, and it may be a
misspelt path. Of plain queries that is known from their patterns. jq is asked about the object as
it would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.errors import EvaluationError
from webhook.mapping.answers import Question, ask_about
from webhook.mapping.patterns import (
    EACH,
    Pattern,
    can_select,
    outline_of,
    patterns_of,
    show_pattern,
)
from webhook.mapping.programs import MAX_PLACES, Expression, Selector
from webhook.model.pointer import Path

# So many places are told in a message.
_MAX_SHOWN = 3


def why_nothing_is_created(
    query: Selector, creates: tuple[str, ...], parent: Selector | None = None
) -> str:
    """
    Why *query* selects none of the places that may be created at *creates* below those of
    *parent* (the object if None), whatever the object is; empty where it may.
    """
    own = query.plain or outline_of(query.source)
    if own is None:
        return ""
    above = None if parent is None else parent.plain or outline_of(parent.source)
    selected = patterns_of(own)
    if parent is not None and above is None:
        if any(_ends_with(pattern, creates) for pattern in selected):
            return ""
        places: Sequence[str] = [f"a place that ends with {show_pattern(creates)}"]
    else:
        created = [(*begin, *creates) for begin in (patterns_of(above) if above else [()])]
        if any(can_select(own, place) for place in created):
            return ""
        places = [show_pattern(place) for place in created]
    found = [show_pattern(pattern) for pattern in selected]
    return f"leads to {_told(places)}, which the query never selects: it selects {_told(found)}"


def _ends_with(pattern: Pattern, names: tuple[str, ...]) -> bool:
    if len(pattern) < len(names):
        return False
    ending = pattern[len(pattern) - len(names) :]
    return all(token in (name, EACH) for token, name in zip(ending, names, strict=True))


def _told(places: Sequence[str]) -> str:
    shown = list(dict.fromkeys(places))
    more = [f"{len(shown) - _MAX_SHOWN} more"] if len(shown) > _MAX_SHOWN else []
    return ", ".join([*shown[:_MAX_SHOWN], *more])


# --- asking jq -----------------------------------------------------------------------------------


def creation_expression(source: str) -> Expression:
    """
    For each path of the argument `places`, in their order: whether *source* selects it.

    Indexes that count from the end are resolved first. Where *source* fails, it selects nothing.
    """
    resolved = (
        "reduce .[] as $__t ({n: $__in, p: []};"
        ' (if ($__t | type) == "number" and $__t < 0 then $__t + (.n | length) else $__t end)'
        " as $__k | {n: .n[$__k], p: (.p + [$__k])}) | {key: (.p | tojson), value: true}"
    )
    return Expression(
        f". as $__in | ([limit({MAX_PLACES + 1}; try path(\n{source}\n\n) catch empty)"
        f" | try ({resolved}) catch empty] | from_entries) as $__found"
        " | [$ARGS.named.places[] | $__found[tojson] // false]"
    )


def creation_question(source: str, document: Mapping[str, Any], places: Sequence[Path]) -> Question:
    """
    The question which of *places* the query *source* would select in *document* with all of them.

    Raises:
        EvaluationError: the object nests too deeply.
    """
    named = {"places": [list(place) for place in places]}
    return ask_about(creation_expression(source), named, with_objects(document, places))


def selected_places(values: Sequence[Any], places: Sequence[Path]) -> list[Path]:
    """
    Those of *places* that are selected, by the answer to their question.

    Raises:
        EvaluationError: it is none.
    """
    if len(values) != 1 or not isinstance(values[0], list) or len(values[0]) != len(places):
        raise EvaluationError("a query does not say which places it would select")
    return [place for place, is_selected in zip(places, values[0], strict=True) if is_selected]


def with_objects(document: Mapping[str, Any], places: Sequence[Path]) -> dict[str, Any]:
    """
    *document*, which stays as it is, with an empty object at each of *places*.

    Nothing but objects, and lists that have the item, is on the way to them. `managedFields` are
    left out, as wherever jq is asked.
    """
    whole: dict[str, Any] = dict(document)
    metadata = whole.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        whole["metadata"] = {k: part for k, part in metadata.items() if k != "managedFields"}
    # What is ours already, by identity: a list of a thousand items is copied once.
    copied = {id(whole)}
    for place in places:
        node: Any = whole
        for token in place:
            child = node.get(token) if isinstance(node, dict) else node[token]
            if child is None:
                child = {}
            elif id(child) not in copied:
                child = list(child) if isinstance(child, list) else dict(child)
            node[token] = child
            copied.add(id(child))
            node = child
    return whole
