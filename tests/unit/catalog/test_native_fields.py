"""The rows of the catalogue fit together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders import make_snapshot, make_workload_policy
from tests.unit.catalog.policies import TYPES, builtin, problems_of, tree
from webhook.catalog import native_places, native_rows, native_rows_of, native_spellings
from webhook.model.kinds import NATIVE_KINDS
from webhook.model.values import FieldType

ROWS = native_rows()
ITEMIZED = [path for path, row in ROWS.items() if row["type"] == FieldType.ITEMIZED]
PLAIN = [path for path in ROWS if path not in ITEMIZED]

COMMON_KEYS = {
    "type", "description", "enum", "min", "max", "maxLength", "pattern", "sensitive",
    "platformDefault",
}  # fmt: skip
RELATIONS = ("notBelow", "notAbove", "notWith", "notWithout")
PLAIN_KEYS = {*COMMON_KEYS, *RELATIONS, "workloads", "differs"}
ITEMIZED_KEYS = {
    "type", "description", "sensitive", "workloads", "key", "attributes", "ruledAttributes", "exclusive",
    "assets",
}  # fmt: skip

NUMERIC = (FieldType.INTEGER, FieldType.NUMBER)

# What people can impose on workloads (kinds of DataSource).
ASSETS = {
    "pvc", "nfs", "s3", "git", "hostPath", "configMapVolume", "secretVolume", "dataVolume",
    "emptyDirVolume",
}  # fmt: skip


def shapes() -> list[Any]:
    """Everything that has a type: fields, what differs of them for a type, attributes."""
    found = [pytest.param(ROWS[path], id=path) for path in PLAIN]
    found += [
        pytest.param(native_rows_of(workload_type)[path], id=f"{path}-{workload_type}")
        for path in PLAIN
        for workload_type in ROWS[path].get("differs", ())
    ]
    found += [
        pytest.param(row, id=f"{path}-{name}")
        for path in ITEMIZED
        for name, row in ROWS[path]["attributes"].items()
    ]
    return found


@pytest.mark.parametrize("path", PLAIN)
def test_a_row_says_nothing_that_nobody_reads(path: str) -> None:
    row = ROWS[path]

    assert set(row) <= PLAIN_KEYS
    assert set(row.get("differs", {})) <= set(row["workloads"])
    assert all(set(part) < COMMON_KEYS for part in row.get("differs", {}).values())


@pytest.mark.parametrize("path", ITEMIZED)
def test_an_itemized_field_has_a_key_and_attributes(path: str) -> None:
    row = ROWS[path]

    assert set(row) <= ITEMIZED_KEYS
    assert row["key"] in row["attributes"]
    assert set(row["ruledAttributes"]) <= set(row["attributes"])
    assert "exclude" not in row["attributes"]
    assert all(set(attribute) <= COMMON_KEYS for attribute in row["attributes"].values())


@pytest.mark.parametrize("row", shapes())
def test_bounds_and_enums_fit_the_type(row: Mapping[str, Any]) -> None:
    value_type = FieldType(row["type"])
    bounds = [row[key] for key in ("min", "max") if key in row]

    assert bounds == [] or value_type in NUMERIC
    assert bounds == sorted(bounds)
    if "enum" in row or "pattern" in row or "maxLength" in row:
        assert value_type is FieldType.STRING
    assert all(isinstance(text, str) for text in row.get("enum", ()))
    assert re.compile(row.get("pattern", "")).groups == 0


@pytest.mark.parametrize("row", shapes())
def test_a_description_is_one_phrase_on_one_line(row: Mapping[str, Any]) -> None:
    text = row["description"]

    assert re.fullmatch(r"\S.{3,}[^\s.]", text)
    assert "|" not in text + row.get("platformDefault", ""), "they stand in a table"


@pytest.mark.parametrize("path", ROWS)
def test_a_field_stands_at_selectors_that_its_types_have(path: str) -> None:
    for workload_type, selectors in ROWS[path]["workloads"].items():
        assert selectors
        assert set(selectors) <= set(native_places(workload_type))


@pytest.mark.parametrize("path", [path for path in ROWS if set(ROWS[path]) & {*RELATIONS}])
def test_a_field_is_related_to_one_of_its_type(path: str) -> None:
    row = ROWS[path]
    opposite = dict(zip(RELATIONS, ("notAbove", "notBelow", "notWithout", "notWith"), strict=True))

    for relation in set(row) & {*RELATIONS}:
        other = ROWS[row[relation]]
        assert other["type"] == row["type"]
        assert other[opposite[relation]] == path
        assert set(other["workloads"]) & set(row["workloads"])


def test_no_name_is_a_field_and_a_section() -> None:
    names = [path.lower() for path in ROWS]
    names += [f"{path}.{name}".lower() for path in ITEMIZED for name in ROWS[path]["attributes"]]
    sections = {
        name[: match.start()]
        for name in names
        for match in re.finditer(r"\.", name)
        # An itemized field is the section of its attributes.
        if name[: match.start()] not in {path.lower() for path in ITEMIZED}
    }

    assert len(names) == len(set(names))
    assert sections & set(names) == set()


def test_every_storage_field_can_be_imposed() -> None:
    storage = {path: row.get("assets") for path, row in ROWS.items() if "storage." in path}

    assert {path: path.removeprefix("storage.") for path in storage} == storage
    assert set(storage.values()) == ASSETS
    assert [path for path, row in ROWS.items() if "assets" in row and path not in storage] == []


# --- spellings ---


@pytest.mark.parametrize(("spelling", "name"), native_spellings().items())
def test_a_spelling_is_lower_case_and_leads_to_a_field_or_attribute(
    spelling: str, name: str
) -> None:
    attributes = {f"{path}.{key}" for path in ITEMIZED for key in ROWS[path]["attributes"]}

    assert spelling == spelling.lower() != name.lower()
    assert name in ROWS or name in attributes


@pytest.mark.parametrize("workload_type", TYPES)
def test_a_spelling_does_not_hide_a_field(workload_type: str) -> None:
    names = {path.lower() for path in native_rows_of(workload_type)}
    clashes = [
        spelling
        for spelling, name in native_spellings().items()
        if spelling in names and name in native_rows_of(workload_type)
    ]

    assert clashes == []


@pytest.mark.parametrize(
    ("workload_type", "spelling", "name"),
    [
        (workload_type, spelling, name)
        for workload_type in TYPES
        for spelling, name in native_spellings().items()
        if name in native_rows_of(workload_type) and name in PLAIN
    ],
)
def test_a_spelling_is_read_with_a_warning(workload_type: str, spelling: str, name: str) -> None:
    # The section as it is written, so that one name is another spelling.
    depth = len(spelling.rpartition(".")[0])
    spelling = name[:depth] + spelling[depth:]
    policy = make_workload_policy(
        workload_type=workload_type, rules=tree(spelling, {"required": True})
    )

    snapshot = make_snapshot(policy)

    (problem,) = snapshot.problems
    assert problem.warning
    assert problem.path == f"spec.rules.{spelling}"
    assert problem.problem.endswith(f"is read as {name}")
    kind = NATIVE_KINDS[workload_type]
    (compiled,) = [p for p in snapshot.policies.policies_of(kind) if not p.document.builtin]
    assert {entry.slot.field for entry in compiled.entries} == {name}


# --- values ---


@pytest.mark.parametrize("path", [path for path in ROWS if "enum" in ROWS[path]])
def test_every_text_of_an_enum_is_a_legal_default(path: str) -> None:
    problems = [
        problem
        for workload_type in ROWS[path]["workloads"]
        for text in native_rows_of(workload_type)[path]["enum"]
        for problem in problems_of(workload_type, defaults=tree(path, text))
    ]

    assert problems == []


@pytest.mark.parametrize(
    ("workload_type", "enum"),
    [
        ("training", ["Always", "Never", "OnFailure"]),
        ("distributedInference", ["RecreateGroupOnPodRestart", "None"]),
    ],
)
def test_a_row_may_differ_for_one_type(workload_type: str, enum: list[str]) -> None:
    assert native_rows_of(workload_type)["restartPolicy"]["enum"] == enum


# --- mappings ---


@pytest.mark.parametrize("workload_type", TYPES)
def test_every_native_type_has_a_mapping_that_needs_no_jq(workload_type: str) -> None:
    mapping = builtin().mappings[NATIVE_KINDS[workload_type]]

    assert {name for name, selector in mapping.selectors.items() if selector.query.plain} == {
        *native_places(workload_type),
        "metadata",
    }
    assert len(mapping.selectors) == len(native_places(workload_type)) + 1
    assert mapping.resource == f"{NATIVE_KINDS[workload_type].kind.lower()}s"


@pytest.mark.parametrize("workload_type", TYPES)
def test_a_mapping_exposes_the_fields_of_its_rows_and_no_others(workload_type: str) -> None:
    mapping = builtin().mappings[NATIVE_KINDS[workload_type]]
    exposed = {
        (name, selector)
        for selector in native_places(workload_type)
        for name in mapping.selectors[selector].fields
    }

    assert exposed == {
        (path, selector)
        for path, row in native_rows_of(workload_type).items()
        for selector in row["workloads"][workload_type]
    }


def test_a_field_whose_relation_a_type_does_not_have_stands_alone() -> None:
    mappings = builtin().mappings
    inference = mappings[NATIVE_KINDS["inference"]].selectors["spec"].fields
    training = mappings[NATIVE_KINDS["training"]].selectors["spec"].fields

    assert "security.allowPrivilegeEscalation" not in inference
    assert inference["security.privileged"].not_without is None
    assert training["security.privileged"].not_without == "security.allowPrivilegeEscalation"
