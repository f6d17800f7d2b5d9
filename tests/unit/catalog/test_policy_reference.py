"""Every row of the policy reference's tables (policy_reference.yaml) is in the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.catalog.policies import TYPES, is_later, legal_value, problems_of, tree
from webhook.catalog import native_rows, native_rows_of, native_spellings
from webhook.model.manifests import load_file

PRINTED = {
    "Workspace": "workspace",
    "Standard training": "training",
    "Distributed training": "distributed",
    "Inference": "inference",
    "Distributed inference": "distributedInference",
    "NVIDIA NIM services": "nimService",
}
VALUE_TYPES = {"array": "strings"}
SECTION = "-"

# What the workload API has and the tables do not print.
UNPRINTED = re.compile(
    r"probes\.readiness\.handler\..+|modelStore\..+|multiNode\.workers|autoscaling\.metric"
)


@dataclass(frozen=True)
class Row:
    """One name of the reference, by its path; of rows with the same name the types together."""

    path: str
    type: str
    within: str
    workloads: frozenset[str]

    @property
    def is_attribute(self) -> bool:
        return native_rows().get(canonical(self.within), {}).get("type") == "itemized"


def canonical(path: str) -> str:
    """The name in the catalogue of a field or attribute that is written *path*."""
    names = {name.lower(): name for name in native_rows()}
    for name, row in native_rows().items():
        names |= {f"{name}.{key}".lower(): f"{name}.{key}" for key in row.get("attributes", ())}
    spelling = path.lower()
    return names.get(spelling) or native_spellings().get(spelling) or path


def read_rows() -> Iterator[Row]:
    (manifest,) = load_file(Path(__file__).with_name("policy_reference.yaml"))
    found: dict[str, Row] = {}
    for table in manifest.value["tables"]:
        within = table["within"]
        for row in table["rows"]:
            # `container / port` is two names, `claimName (mandatory)` one.
            for name in re.sub(r" \(.*\)", "", row["field"]).split(" / "):
                path = f"{within}.{name}" if within else name
                printed = row.get("workloads", []) + row.get("also", [])
                types = {PRINTED[re.sub(r" \(.*\)", "", text)] for text in printed}
                if not printed:
                    types = set(found[canonical(within)].workloads)
                key = canonical(path)
                before = found[key].workloads if key in found else frozenset()
                value_type = row.get("is", row["type"])
                found[key] = Row(
                    path=path,
                    type=VALUE_TYPES.get(value_type, value_type),
                    within=within,
                    workloads=before | types,
                )
    yield from found.values()


ROWS = list(read_rows())


def cases(*, named: bool, attribute: bool) -> list[Any]:
    return [
        pytest.param(workload_type, row, id=f"{row.path}-{workload_type}")
        for row in ROWS
        for workload_type in TYPES
        if row.is_attribute is attribute and (workload_type in row.workloads) is named
    ]


def policies(workload_type: str, row: Row) -> dict[str, Any]:
    """Defaults and rules that name the field, and ask for nothing that it could not have."""
    if row.type == SECTION:
        return {"defaults": tree(row.path, {}), "rules": tree(row.path, {})}
    if row.type == "itemized":
        instances = legal_value(workload_type, canonical(row.path))
        return {
            "defaults": tree(row.path, {"instances": instances}),
            "rules": tree(row.path, {"instances": {"canAdd": False}}),
        }
    name = canonical(row.path)
    if name not in native_rows_of(workload_type):
        # One of two names of the same field.
        name = native_spellings()[name.lower()]
    return {
        "defaults": tree(row.path, legal_value(workload_type, name)),
        "rules": tree(row.path, {"required": True}),
    }


@pytest.mark.parametrize(("workload_type", "row"), cases(named=True, attribute=False))
def test_a_policy_can_name_the_field_for_each_type_that_is_printed(
    workload_type: str, row: Row
) -> None:
    problems = problems_of(workload_type, **policies(workload_type, row))

    # Those on itemized fields are known, whether or not they act yet.
    assert [text for _, text in problems if not (row.type == "itemized" and is_later(text))] == []


@pytest.mark.parametrize(("workload_type", "row"), cases(named=False, attribute=False))
def test_the_field_is_unknown_for_each_type_that_is_not_printed(
    workload_type: str, row: Row
) -> None:
    problems = problems_of(workload_type, rules=tree(row.path, {"required": True}))

    ((path, text),) = problems
    # The section that it stands in may be what the type does not have.
    assert f"spec.rules.{row.path}".startswith(path)
    assert text.startswith("unknown field")


@pytest.mark.parametrize(("workload_type", "row"), cases(named=True, attribute=True))
def test_a_policy_can_rule_the_attribute_for_each_type_that_is_printed(
    workload_type: str, row: Row
) -> None:
    field = canonical(row.within)
    attribute = canonical(row.path).removeprefix(f"{field}.")
    catalogued = native_rows_of(workload_type)[field]
    spelling = row.path.removeprefix(f"{row.within}.")

    problems = problems_of(
        workload_type,
        rules=tree(row.within, {"attributes": tree(spelling, {"required": True})}),
    )

    assert [text for _, text in problems if not is_later(text)] == []
    assert catalogued["attributes"][attribute]["type"] == row.type
    assert attribute in catalogued["ruledAttributes"]


@pytest.mark.parametrize(("workload_type", "row"), cases(named=False, attribute=True))
def test_the_attribute_is_unknown_for_each_type_that_is_not_printed(
    workload_type: str, row: Row
) -> None:
    rules = tree(row.within, {"attributes": tree(row.path.rpartition(".")[2], {"required": True})})

    ((path, text),) = problems_of(workload_type, rules=rules)

    assert f"spec.rules.{row.within}".startswith(path)
    assert text.startswith("unknown field")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.path)
        for row in ROWS
        if row.type != SECTION and not row.is_attribute
    ],
)
def test_the_field_has_the_printed_value_type_and_workload_types(row: Row) -> None:
    name = canonical(row.path)
    catalogued = native_rows()[name]
    # `container` and `port` are printed as one field for three types.
    twins = {name, native_spellings().get(name.lower(), name)} & set(native_rows())
    types = {workload for twin in twins for workload in native_rows()[twin]["workloads"]}

    assert catalogued["type"] == row.type
    assert types == row.workloads


def test_the_catalogue_has_no_field_that_is_not_printed_but_those_of_the_workload_api() -> None:
    printed = {canonical(row.path) for row in ROWS}

    unprinted = [name for name in native_rows() if name not in printed]
    assert [name for name in unprinted if not UNPRINTED.fullmatch(name)] == []
