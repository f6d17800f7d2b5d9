"""Object and mapping to places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from webhook.errors import EvaluationError
from webhook.mapping.answers import JqAnswers, Question, UnansweredError, answered, ask_about
from webhook.mapping.compiled import CompiledMapping, CompiledSelector
from webhook.mapping.creating import creation_question, selected_places
from webhook.mapping.evaluator import JqWorker, document_for_jq, without_managed_fields
from webhook.mapping.patterns import can_select
from webhook.mapping.programs import Expression, places_entry
from webhook.mapping.results import QueryFailure, read_places
from webhook.mapping.walk import Mismatch
from webhook.model.documents import SameAs
from webhook.model.pointer import Path, lookup
from webhook.model.values import json_type

_T = TypeVar("_T")

# Paths that the jq worker found, by the text of the query.
JqPlaces = Mapping[str, tuple[Path, ...]]


def locate_by_jq(
    worker: JqWorker,
    sources: tuple[str, ...],
    document: dict[str, Any],
    begin_until: float | None = None,
) -> JqPlaces:
    """
    The places that only jq can find, by query. Waits for the worker, as `JqWorker` does.

    Raises:
        EvaluationError: a query failed on this object, or the worker died over it.
    """
    if not sources:
        return {}
    places: dict[str, tuple[Path, ...]] = {}
    answers = worker.evaluate_paths(sources, document_for_jq(document), begin_until)
    for source, answer in zip(sources, answers, strict=True):
        if isinstance(answer, QueryFailure):
            raise EvaluationError(f"query {source!r} of the mapping failed: {answer.reason}")
        places[source] = tuple(answer)
    return places


def locate_now(sources: tuple[str, ...], document: dict[str, Any], answers: JqAnswers) -> JqPlaces:
    """
    As `locate_by_jq`, of a *document* that was changed since jq was asked where things are, from
    *answers*.

    Raises:
        EvaluationError: a query failed on it.
        UnansweredError: jq has not been asked about it yet.
    """
    if not sources:
        return {}
    subject = without_managed_fields(document)
    questions = {
        source: ask_about(Expression(places_entry(source)), {}, subject) for source in sources
    }
    missing = answers.unanswered(questions.values())
    if missing:
        asked = tuple(sorted({question.expression for question in questions.values()}))
        raise UnansweredError(expressions=asked, questions=missing)
    places: dict[str, tuple[Path, ...]] = {}
    for source, question in questions.items():
        (entry,) = answers.values[question]
        found = read_places(entry, source, lambda: document)
        if isinstance(found, QueryFailure):
            raise EvaluationError(f"query {source!r} of the mapping failed: {found.reason}")
        places[source] = tuple(found)
    return places


def ask_jq(
    worker: JqWorker,
    document: dict[str, Any],
    unanswered: UnansweredError,
    answers: JqAnswers,
    begin_until: float | None = None,
) -> JqAnswers:
    """
    *answers* about *document*, with those that are missing. Waits for the worker, as it says.

    Raises:
        EvaluationError: an expression failed on this object, or the worker died over it.
    """
    places = locate_by_jq(worker, unanswered.queries, document, begin_until)
    answers = answers.with_places(places)
    if not unanswered.questions:
        return answers
    values: dict[Question, tuple[Any, ...]] = {}
    results = worker.evaluate_values(unanswered.expressions, unanswered.questions, begin_until)
    for question, result in zip(unanswered.questions, results, strict=True):
        if isinstance(result, QueryFailure):
            asked = str(question.expression)
            raise EvaluationError(f"expression {asked!r} failed: {result.reason}")
        values[question] = result
    return answers.with_values(values)


def answer_by_jq(
    worker: JqWorker, document: dict[str, Any], review: Callable[[JqAnswers], _T]
) -> _T:
    """
    What *review* of *document* returns once jq has answered all that it asks.

    Raises:
        EvaluationError: as in `ask_jq`; or it goes on asking.
    """
    return answered(
        review, lambda unanswered, answers: ask_jq(worker, document, unanswered, answers)
    )


class Places(NamedTuple):
    """
    What one selector found. A tuple, as `Located` is.

    A path of *paths* leads to an object, or to nothing where one may be created; *nodes* are what
    stood at each of them when it was found. *mismatches* are the spots where something of another
    type stands in the way.
    """

    paths: tuple[Path, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    # They are another selector's, which has its own defaults: these are only judged.
    are_borrowed: bool = False
    nodes: tuple[Any, ...] = ()


class Locator:
    """
    Finds the places of one object. Each selector is asked once.

    *values* are what jq answered to the questions which places it would find once they are there;
    without any, no place of a query of jq is created.
    """

    def __init__(
        self,
        mapping: CompiledMapping,
        document: dict[str, Any],
        jq_places: JqPlaces,
        values: Mapping[Question, tuple[Any, ...]] | None = None,
    ) -> None:
        self._mapping = mapping
        self._document = document
        self._jq_places = jq_places
        self._values = values
        self._found: dict[str, Places] = {}
        self._missing: dict[Question, None] = {}

    def close(self) -> None:
        """
        See whether all is known that the places depend on.

        Raises:
            UnansweredError: jq has to be asked which places it would find once they are there.
        """
        if self._missing:
            expressions = tuple(sorted({question.expression for question in self._missing}))
            raise UnansweredError(expressions=expressions, questions=tuple(self._missing))

    def needs_jq(self, selector: CompiledSelector) -> bool:
        """Whether the places of *selector* depend on what jq finds."""
        if selector.query.plain is None:
            return True
        same_as = selector.same_as
        others = [selector.parent, None if same_as is None else same_as.spec_selector]
        return any(self.needs_jq(self._mapping.selectors[name]) for name in others if name)

    def places(self, selector: CompiledSelector) -> Places:
        """
        The places of *selector*, in the order of the document; absent ones that may be created,
        and that its query selects then, are among them.

        Raises:
            EvaluationError: its query was not evaluated for this object.
        """
        found = self._found.get(selector.name)
        if found is None:
            found = self._found[selector.name] = self._locate(selector)
        return found

    def _locate(self, selector: CompiledSelector) -> Places:
        plain = selector.query.plain
        mismatches: list[Mismatch] = []
        candidates: Sequence[Path]
        if plain is not None:
            found = plain.walk(self._document)
            candidates, nodes, mismatches = found.paths, found.nodes, found.mismatches
        else:
            try:
                candidates = self._jq_places[selector.query.source]
            except KeyError:
                raise EvaluationError(f"selector {selector.name}: not evaluated") from None
            nodes = [lookup(self._document, path) for path in candidates]
        places: dict[Path, Any] = {}
        has_absent = False
        for path, node in zip(candidates, nodes, strict=True):
            if isinstance(node, dict):
                places[path] = node
            elif node is None:
                has_absent = True
            else:
                mismatches.append(Mismatch(path, "object", json_type(node)))
        if selector.creates is not None and (
            has_absent
            or not places
            or (selector.parent is not None and selector.name not in self._mapping.complete)
        ):
            wanted = [
                path
                for path in self._creatable(selector)
                if path not in places and is_free(self._document, path)
            ]
            for path in self._selected_once_there(selector, wanted, candidates):
                places[path] = None
        same_as = selector.same_as
        if same_as is not None and not places and self._is_same(same_as):
            lender = self.places(self._mapping.selectors[same_as.spec_selector])
            return Places(lender.paths, lender.mismatches, are_borrowed=True, nodes=lender.nodes)
        return Places(tuple(places), tuple(mismatches), False, tuple(places.values()))

    def _is_same(self, same_as: SameAs) -> bool:
        return not same_as.when or self._document.get(same_as.when) is True

    def _creatable(self, selector: CompiledSelector) -> list[Path]:
        """Where an absent place of *selector* may be created, by its chain of dependencies."""
        if selector.creates is None:
            return []
        if selector.parent is None:
            return [selector.creates]
        parent = self._mapping.selectors[selector.parent]
        places = self.places(parent)
        # What is borrowed is another's to complete.
        return [] if places.are_borrowed else [path + selector.creates for path in places.paths]

    def _selected_once_there(
        self, selector: CompiledSelector, wanted: list[Path], found: Sequence[Path]
    ) -> list[Path]:
        """Those of the *wanted* places that the query selects as soon as they are created."""
        plain = selector.query.plain
        if plain is not None:
            if plain.any_case:
                # The same name in another case is there: that is the place.
                there, spelt = {*found}, {_folded(path) for path in found}
                wanted = [path for path in wanted if path in there or _folded(path) not in spelt]
            return [path for path in wanted if can_select(plain, path)]
        if not wanted or self._values is None:
            return []
        question = creation_question(selector.query.source, self._document, wanted)
        values = self._values.get(question)
        if values is None:
            # Until it is known, they are taken for found: what is below them is asked at once.
            self._missing[question] = None
            return wanted
        return selected_places(values, wanted)


def _folded(path: Path) -> Path:
    return tuple([token.casefold() if isinstance(token, str) else token for token in path])


def is_free(document: dict[str, Any], path: Path) -> bool:
    """Whether nothing stands at *path*, and nothing but objects on the way to it."""
    node: Any = document
    for token in path:
        if isinstance(node, list) and isinstance(token, int):
            # Items are found, never made: the parent's place has this one.
            node = node[token] if token < len(node) else False
        elif isinstance(node, dict):
            node = node.get(token)
        else:
            return False
        if node is None:
            return True
    return False


def item_name(selector: CompiledSelector, document: dict[str, Any], path: Path) -> str:
    """
    What tells the place at *path* from its siblings: `Worker/pytorch`, `main`, ``""``.

    Items of lists go by their name, else by their index.
    """
    parts: list[str] = []
    node: Any = document
    literals = selector.literals
    for token in path:
        if isinstance(node, dict):
            node = node.get(token)
        elif isinstance(node, list) and isinstance(token, int):
            node = node[token] if token < len(node) else None
            name = node.get("name") if isinstance(node, dict) else None
            parts.append(name if isinstance(name, str) and name else str(token))
            continue
        else:
            node = None
        if token not in literals:
            parts.append(str(token))
    return "/".join(parts)


class OldPaths:
    """
    Where the places of an object stood before an update.

    Items of lists go together by name, and by position where they have none. Each old item is
    one item's past only: a second one of the same name is new.
    """

    def __init__(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._old = old
        self._new = new
        # The old index of each item, by the identity of the new list that holds it.
        self._matched: dict[int, list[int | None]] = {}

    def path(self, path: Path) -> Path | None:
        """The old path of what stands at *path*; None where the old object has no such item."""
        old: Any = self._old
        new: Any = self._new
        matched: list[str | int] = []
        for token in path:
            if isinstance(token, int):
                if not isinstance(old, list) or not isinstance(new, list) or token >= len(new):
                    return None
                index = self._indexes(old, new)[token]
                if index is None:
                    return None
                matched.append(index)
                old, new = old[index], new[token]
            else:
                matched.append(token)
                old = old.get(token) if isinstance(old, dict) else None
                new = new.get(token) if isinstance(new, dict) else None
        return tuple(matched)

    def _indexes(self, old: list[Any], new: list[Any]) -> list[int | None]:
        indexes = self._matched.get(id(new))
        if indexes is None:
            indexes = self._matched[id(new)] = _match_items(old, new)
        return indexes


def _match_items(old: list[Any], new: list[Any]) -> list[int | None]:
    """For each item of *new*, its index in *old*."""
    by_name: dict[str, list[int]] = {}
    for index in range(len(old) - 1, -1, -1):
        name = _name_of(old[index])
        if name is not None:
            by_name.setdefault(name, []).append(index)
    indexes: list[int | None] = []
    for position, item in enumerate(new):
        name = _name_of(item)
        if name is None:
            unnamed = position < len(old) and _name_of(old[position]) is None
            indexes.append(position if unnamed else None)
        else:
            left = by_name.get(name)
            indexes.append(left.pop() if left else None)
    return indexes


def _name_of(item: Any) -> str | None:
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None
