"""Every row of the policy reference's tables (policy_reference.yaml) is in the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.unit.catalog.policies import TYPES, legal_value, problems_of, tree
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


@cache
def names_by_lower_case() -> Mapping[str, str]:
    names = {name.lower(): name for name in native_rows()}
    for name, row in native_rows().items():
        names |= {f"{name}.{key}".lower(): f"{name}.{key}" for key in row.get("attributes", ())}
    return names


def canonical(path: str) -> str:
    """The name in the catalogue of a field or attribute that is written *path*."""
    spelling = path.lower()
    return names_by_lower_case().get(spelling) or native_spellings().get(spelling) or path


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


FIELDS = [row for row in ROWS if not row.is_attribute]
ATTRIBUTES = [row for row in ROWS if row.is_attribute]


def is_unknown(problems: list[tuple[str, str]], path: str) -> bool:
    """Whether all that is wrong is that *path*, or a section of it, is no name of the type."""
    return len(problems) == 1 and (
        f"{path}.".startswith(f"{problems[0][0]}.")
        and (problems[0][1].startswith("unknown field") or " has no role " in problems[0][1])
    )


def attribute_rules(row: Row) -> dict[str, Any]:
    """A rule on the attribute, as it is spelt in the reference."""
    spelling = row.path.removeprefix(f"{row.within}.")
    return tree(row.within, {"attributes": tree(spelling, {"required": True})})


@pytest.mark.slow
def test_a_policy_can_name_each_field_for_the_printed_workload_types() -> None:
    problems = [
        (row.path, workload_type, problem)
        for row in FIELDS
        for workload_type in row.workloads
        for _, problem in problems_of(workload_type, **policies(workload_type, row))
    ]

    assert problems == []


@pytest.mark.slow
def test_each_field_is_unknown_for_all_other_workload_types() -> None:
    known = [
        (row.path, workload_type)
        for row in FIELDS
        for workload_type in set(TYPES) - row.workloads
        if not is_unknown(
            problems_of(workload_type, rules=tree(row.path, {"required": True})),
            f"spec.rules.{row.path}",
        )
    ]

    assert known == []


def test_a_policy_can_rule_each_attribute_for_the_printed_workload_types() -> None:
    problems = [
        (row.path, workload_type, problem)
        for row in ATTRIBUTES
        for workload_type in row.workloads
        for _, problem in problems_of(workload_type, rules=attribute_rules(row))
    ]

    assert problems == []


def test_each_attribute_has_the_printed_value_type_and_can_be_ruled() -> None:
    printed = {row.path: row.type for row in ATTRIBUTES}
    fields = {row.path: native_rows()[canonical(row.within)] for row in ATTRIBUTES}
    names = {
        row.path: canonical(row.path).removeprefix(f"{canonical(row.within)}.")
        for row in ATTRIBUTES
    }

    assert {
        path: field["attributes"][names[path]]["type"] for path, field in fields.items()
    } == printed
    assert [
        path for path, field in fields.items() if names[path] not in field["ruledAttributes"]
    ] == []


def test_each_attribute_is_unknown_for_all_other_workload_types() -> None:
    known = [
        (row.path, workload_type)
        for row in ATTRIBUTES
        for workload_type in set(TYPES) - row.workloads
        if not is_unknown(
            problems_of(workload_type, rules=attribute_rules(row)), f"spec.rules.{row.within}"
        )
    ]

    assert known == []


def test_each_field_has_the_printed_value_type_and_workload_types() -> None:
    printed = {row.path: row for row in FIELDS if row.type != SECTION}

    assert {path: as_catalogued(path) for path in printed} == {
        path: (row.type, row.workloads) for path, row in printed.items()
    }


def as_catalogued(path: str) -> tuple[str, frozenset[str]]:
    """Value type and workload types of the field that is written *path*."""
    name = canonical(path)
    # `container` and `port` are printed as one field for three types.
    twins = {name, native_spellings().get(name.lower(), name)} & set(native_rows())
    types = [workload for twin in twins for workload in native_rows()[twin]["workloads"]]
    return native_rows()[name]["type"], frozenset(types)


def test_the_reference_has_fields_and_attributes() -> None:
    assert (len(FIELDS), len(ATTRIBUTES)) == (118, 31)


def test_the_catalogue_has_no_field_that_is_not_printed_but_those_of_the_workload_api() -> None:
    printed = {canonical(row.path) for row in ROWS}

    unprinted = [name for name in native_rows() if name not in printed]
    assert [name for name in unprinted if not UNPRINTED.fullmatch(name)] == []
