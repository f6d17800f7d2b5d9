"""A table of values that are the same to a policy, and of values that only look so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import (
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from tests.unit.catalog.policies import tree
from webhook.model.manifests import load_file
from webhook.model.pointer import lookup
from webhook.store.snapshot import Snapshot

TRAINING = {"group": "workload.gatewright.io", "version": "v1alpha1", "kind": "Training"}

(TABLE,) = load_file(Path(__file__).with_name("equal_values.yaml"))
ROWS = [
    pytest.param(
        row["field"],
        row["policy"],
        row["submitted"],
        row["equal"],
        id=f"{row['field']}-{row['policy']!r}-{row['submitted']!r}",
    )
    for row in TABLE.value["rows"]
]
ARRAYS = ("nodePools",)


def compiled(*documents: JsonObject) -> Snapshot:
    snapshot = make_snapshot(*documents)
    assert [str(problem) for problem in snapshot.problems] == []
    return snapshot


def flat(field: str, enforcement: JsonObject) -> Snapshot:
    return compiled(make_gvk_policy(make_rule(field, "spec", enforcement), kind=TRAINING))


@pytest.mark.slow
@pytest.mark.parametrize(("field", "policy", "submitted", "equal"), ROWS)
def test_the_default_may_be_spelt_otherwise_and_not_changed(
    field: str, policy: Any, submitted: Any, equal: bool
) -> None:
    snapshot = compiled(
        make_workload_policy(defaults=tree(field, policy), rules=tree(field, {"canEdit": False}))
    )

    answer = submit(snapshot, make_training(**tree(field, submitted)))

    assert [rule for _, rule in answer.broken] == ([] if equal else ["canEdit"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "policy", "submitted", "equal"), [row for row in ROWS if row.values[0] not in ARRAYS]
)
def test_an_option_may_be_spelt_otherwise(
    field: str, policy: Any, submitted: Any, equal: bool
) -> None:
    snapshot = flat(field, {"options": [policy]})

    answer = submit(snapshot, make_training(**tree(field, submitted)))

    assert [rule for _, rule in answer.broken] == ([] if equal else ["options"])


@pytest.mark.slow
@pytest.mark.parametrize(("field", "policy", "submitted", "equal"), ROWS)
def test_a_set_leaves_an_equal_value_as_it_is_written(
    field: str, policy: Any, submitted: Any, equal: bool
) -> None:
    snapshot = flat(field, {"set": policy})

    answer = submit(snapshot, make_training(**tree(field, submitted)))

    path = ("spec", *field.split("."))
    assert answer.allowed
    after = lookup(answer.document, path)
    assert (after == submitted and type(after) is type(submitted)) is equal
