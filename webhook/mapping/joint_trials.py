"""What is found out about values that one policy writes at one place, before it takes effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webhook.errors import EvaluationError
from webhook.mapping.evaluator import Evaluate
from webhook.mapping.formatters import FormatterField
from webhook.mapping.merging import differences, merge
from webhook.mapping.programs import Expression
from webhook.mapping.results import QueryFailure
from webhook.mapping.trials import reads_back, trial_key
from webhook.model.pointer import Path, lookup
from webhook.model.values import same_value

# Fields that write where another one has written. Each takes a trip to jq of its own, beside those
# of any review (`answers.MAX_ROUNDS`).
MAX_OVERLAPS = 4


@dataclass(frozen=True, slots=True)
class Step:
    """
    One value that a policy sets, or fills in with *is_default*: through a formatter's *field*, for
    a map at *map_key*, or at the path *ref* of the element.
    """

    label: str
    value: Any
    is_default: bool = False
    field: FormatterField | None = None
    map_key: str | None = None
    ref: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Together:
    """That what one policy writes at a place, one after the other, is all read at the end."""

    steps: tuple[Step, ...]

    @property
    def key(self) -> str:
        return trial_key(
            "together",
            *[
                (step.label, step.value, step.is_default, step.map_key, step.ref)
                + ((f.get, f.set, f.args, f.array_key) if (f := step.field) else ())
                for step in self.steps
            ],
        )

    @property
    def expressions(self) -> Sequence[Expression]:
        fields = [step.field for step in self.steps if step.field is not None]
        return tuple(dict.fromkeys([e for f in fields for e in (f.get, f.set) if e is not None]))

    def problem(self, evaluate: Evaluate) -> str:
        try:
            return self._problem(evaluate)
        except EvaluationError as error:
            return str(error)

    def _problem(self, evaluate: Evaluate) -> str:
        node: Any = {}
        written: list[tuple[Step, list[Path]]] = []
        # Where values stand that a default may not write over.
        taken: list[Path] = []
        overlapping = 0
        for step in self.steps:
            after = _after(step, node, evaluate)
            if isinstance(after, QueryFailure):
                # It may need what an element of this kind always has.
                return ""
            if after is None:
                continue
            changed = [difference.path for difference in differences(node, after)]
            if step.field is None:
                taken += changed
            elif step.is_default and any(_meet(one, two) for one in changed for two in taken):
                continue
            if step.field is not None and self._meets_formatter(changed, written):
                overlapping += 1
            written.append((step, changed))
            node = after
        if overlapping > MAX_OVERLAPS:
            return (
                f"{overlapping + 1} fields of formatters write into one text or list, and each has"
                f" to see what the last one wrote; at most {MAX_OVERLAPS + 1} can in one policy"
            )
        for index, (step, own) in enumerate(written):
            if _holds(step, node, evaluate):
                continue
            for other, paths in reversed(written[index + 1 :]):
                if any(_meet(one, two) for one in own for two in paths):
                    return (
                        f"{_rule(step)} of {step.label} and {_rule(other)} of {other.label} can't"
                        " both hold: what the second writes undoes the first"
                    )
        return ""

    @staticmethod
    def _meets_formatter(changed: list[Path], written: list[tuple[Step, list[Path]]]) -> bool:
        """Whether a formatter has written at one of the paths *changed*."""
        others = [path for step, paths in written if step.field is not None for path in paths]
        return any(_meet(one, two) for one in changed for two in others)


def _rule(step: Step) -> str:
    return "default" if step.is_default else "set"


def _meet(one: Path, two: Path) -> bool:
    """Whether one of two paths leads to the other, or they are the same."""
    return one[: len(two)] == two[: len(one)]


def _after(step: Step, node: Any, evaluate: Evaluate) -> Any:
    """*node* with what *step* writes; None where a default has nothing to fill."""
    field = step.field
    if field is None:
        if step.is_default and lookup(node, step.ref) is not None:
            return None
        value = step.value
        for token in reversed(step.ref):
            value = {token: value}
        return merge(node, value, None)
    read, result = evaluate(
        [
            field.read_question(node, step.map_key),
            field.write_question(node, step.value, step.map_key),
        ]
    )
    if isinstance(read, QueryFailure) or isinstance(result, QueryFailure):
        return read if isinstance(read, QueryFailure) else result
    if step.is_default and _is_there(step, read):
        return None
    return field.merged(node, field.result_of(result))


def _is_there(step: Step, values: Sequence[Any]) -> bool:
    field = step.field
    assert field is not None, "a plain field is looked up"
    if field.array_key is None:
        return field.read_one(values) is not None
    wanted = step.value[field.array_key]
    return any(
        field.same_key(item.get(field.array_key), wanted) for item in field.read_items(values)
    )


def _holds(step: Step, node: Any, evaluate: Evaluate) -> bool:
    """Whether what *step* wrote is read in *node*; so it is where the getExpr fails."""
    if step.field is None:
        return same_value(lookup(node, step.ref), step.value)
    (read,) = evaluate([step.field.read_question(node, step.map_key)])
    return isinstance(read, QueryFailure) or reads_back(step.field, read, step.value)
