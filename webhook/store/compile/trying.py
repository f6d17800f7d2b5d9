"""Expressions of jq, tried before they are in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from webhook.errors import EvaluationError, SpecError
from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.evaluator import Trial
from webhook.mapping.fields import CompiledGroup
from webhook.mapping.formatters import CompiledFormatter
from webhook.mapping.joint_trials import Together
from webhook.mapping.trials import SmokeRun, WritesSamples, trials_of_lists
from webhook.policy.compile.trials import trials_of
from webhook.policy.rules.enforcement import CompiledPolicy
from webhook.store.compile.inputs import QueryCheck
from webhook.store.compile.problems import Problems, leaves
from webhook.store.memo import Memo
from webhook.store.snapshot import Snapshot

# Ours, as the limits of `model.documents`: a trial takes some 10 ms.
MAX_TRIALS = 150


class Trials:
    """
    Makes trials by *check*, each once: what *previous* has tried is not tried again.

    Without *check* none is made. *is_transient*: one failed for a reason that will pass.
    """

    def __init__(
        self, check: QueryCheck | None, memo: Memo, problems: Problems, previous: Snapshot | None
    ) -> None:
        self._check = check
        self._memo = memo
        self._problems = problems
        self._checked = _checked_queries(previous)
        self._refused = dict(previous.refused_queries) if previous is not None else {}
        self._seen: set[str] = set()
        self.is_transient = False

    @property
    def refused(self) -> dict[str, str]:
        """Those that are refused, and why; of what this build has come across."""
        return {source: why for source, why in self._refused.items() if source in self._seen}

    def of_formatter(self, formatter: CompiledFormatter) -> None:
        """
        Raises:
            ExceptionGroup: of SpecError, an expression fails.
        """
        self._make(
            [
                (f"spec.fields.{name}.{part}", SmokeRun(expression, field.args))
                for name, field in formatter.fields.items()
                for part, expression in (("getExpr", field.get), ("setExpr", field.set))
                if expression is not None
            ]
        )

    def advise_on_writing(self, formatter: CompiledFormatter, source: str) -> None:
        """Say of expressions that seem to write nothing that they do."""
        trials = [
            (f"spec.fields.{name}.setExpr", WritesSamples(field))
            for name, field in formatter.fields.items()
            if field.set is not None
        ]
        try:
            self._make(trials)
        except ExceptionGroup as error:
            for leaf in leaves(error):
                self._problems.advise(source, leaf.path, leaf.problem)

    def of_group(self, group: CompiledGroup, base: CompiledGroup | None) -> None:
        """
        Of *group*, beside the fields of *base* that it extends.

        Raises:
            ExceptionGroup: of SpecError, an expression fails.
        """
        beside = {**(base.fields if base is not None else {}), **group.fields}
        self._make(
            [
                *[
                    (f"spec.itemSelectors.{name}.query", SmokeRun(own.query, own.args))
                    for name, own in group.item_selectors.items()
                ],
                *[("spec.fields", trial) for trial in trials_of_lists(beside.values())],
            ]
        )

    def of_mapping(self, mapping: CompiledMapping) -> None:
        """
        Raises:
            ExceptionGroup: of SpecError, an expression fails.
        """
        self._check_queries(mapping)
        self._make(
            [
                (f"spec.specSelectors.{selector.name}.fieldGroups", trial)
                for selector in mapping.selectors.values()
                for trial in trials_of_lists(selector.fields.values())
            ]
        )

    def of_policy(self, compiled: Sequence[CompiledPolicy]) -> None:
        """
        Of one document, for each of its kinds.

        Raises:
            ExceptionGroup: of SpecError, an expression fails, or there are more than can be tried.
        """
        self._make(_bounded([trial for policy in compiled for trial in trials_of(policy)]))

    def _check_queries(self, mapping: CompiledMapping) -> None:
        """Let jq try what is no plain path; what was tried before is not tried again."""
        problems: list[SpecError] = []
        for name, selector in mapping.selectors.items():
            source = selector.query.source
            self._seen.add(source)
            if selector.query.plain is None and source not in self._checked:
                path = f"spec.specSelectors.{name}.query"
                problems += self._attempt(source, path, partial(self._try, source, path))
        if problems:
            raise ExceptionGroup("the mapping is wrong", problems)

    def _make(self, trials: Iterable[tuple[str, Trial]]) -> None:
        """Make each trial, with the path that it is about; one that was made is not made again."""
        problems: list[SpecError] = []
        for path, trial in trials:
            self._seen.add(trial.key)
            recall = partial(
                self._memo.recall,
                ("tried", trial.key),
                (self._check is not None,),
                partial(self._try, trial, path),
            )
            problems += self._attempt(trial.key, path, recall)
        if problems:
            raise ExceptionGroup("an expression is wrong", problems)

    def _attempt(self, key: str, path: str, attempt: Callable[[], None]) -> list[SpecError]:
        """What is wrong with the expression at *path*, which is known by *key*; mostly nothing."""
        if key in self._refused:
            return [SpecError(path, self._refused[key])]
        try:
            attempt()
        except SpecError as error:
            self._refused[key] = error.problem
            return [error]
        except EvaluationError as error:
            # Not the expression's fault: jq was busy, or could not be started.
            self.is_transient = True
            return [SpecError(path, str(error))]
        return []

    def _try(self, tried: Trial | str, path: str) -> None:
        if self._check is not None:
            self._check(tried, path)


def _bounded(trials: Sequence[tuple[str, Trial]]) -> Sequence[tuple[str, Trial]]:
    """
    Raises:
        ExceptionGroup: they are more than can be made in a second or two.
    """
    # One that tries values together is made of those that are counted.
    count = len({trial.key for _, trial in trials if not isinstance(trial, Together)})
    if count > MAX_TRIALS:
        problem = (
            f"give {count} values to fields of formatters and item selectors, each of which is"
            f" tried; at most {MAX_TRIALS} are allowed in one policy"
        )
        raise ExceptionGroup("the policy is wrong", [SpecError("spec.rules", problem)])
    return trials


def _checked_queries(snapshot: Snapshot | None) -> frozenset[str]:
    if snapshot is None:
        return frozenset()
    return frozenset(
        [
            selector.query.source
            for mapping in snapshot.mappings.values()
            for selector in mapping.selectors.values()
        ]
    )
