"""What a native workload itself must satisfy, as violations beside those of policies."""

from __future__ import annotations

from typing import Any

from webhook.catalog import native_rows_of
from webhook.model.decision import Rule, Source, Violation
from webhook.model.scopes import Scope
from webhook.policy.native.schema import SchemaProblem, judge_native, judge_native_update

# No policy says it: the workload API does. Named like one, so that a denial says who speaks.
WORKLOAD_API = Source(policy="workload-api", scope=Scope.SYSTEM, kind="WorkloadAPI")


def native_violations(
    workload_type: str, document: dict[str, Any], old: dict[str, Any] | None
) -> list[Violation]:
    """
    Judge an object of a native *workload_type* by the catalogue.

    With *old*, the object before an update, what it had already is not counted.
    """
    rows = native_rows_of(workload_type)
    if old is None:
        problems = judge_native(workload_type, document, rows)
    else:
        problems = judge_native_update(workload_type, document, old, rows)
    return [_violation(problem) for problem in problems]


def _violation(problem: SchemaProblem) -> Violation:
    return Violation(
        path=problem.path,
        field=problem.field,
        selector=problem.selector,
        item=problem.item,
        rule=Rule(problem.kind),
        problem=problem.problem,
        value=problem.value,
        accepted=problem.accepted,
        source=WORKLOAD_API,
        is_missing=problem.is_missing,
    )
