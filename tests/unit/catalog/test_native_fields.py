"""The rows of the catalogue fit together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
ITEM_RELATIONS = ("notWithItem", "itemNotWithout")
PLAIN_KEYS = {*COMMON_KEYS, *RELATIONS, *ITEM_RELATIONS, "workloads", "differs"}
ITEMIZED_KEYS = {
    "type", "description", "sensitive", "workloads", "key", "attributes", "ruledAttributes", "exclusive",
    "assets",
}  # fmt: skip

PHRASE = re.compile(r"\S.{3,}[^\s.]")
NUMERIC = (FieldType.INTEGER, FieldType.NUMBER)

# What people can impose on workloads (kinds of DataSource).
ASSETS = {
    "pvc", "nfs", "s3", "git", "hostPath", "configMapVolume", "secretVolume", "dataVolume",
    "emptyDirVolume",
}  # fmt: skip


def shapes() -> dict[str, Mapping[str, Any]]:
    """Everything that has a type: fields, what differs of them for a type, attributes."""
    found = {path: ROWS[path] for path in PLAIN}
    found |= {
        f"{path} of {workload_type}": native_rows_of(workload_type)[path]
        for path in PLAIN
        for workload_type in ROWS[path].get("differs", ())
    }
    found |= {
        f"{path}.{name}": row for path in ITEMIZED for name, row in ROWS[path]["attributes"].items()
    }
    return found


SHAPES = shapes()


def where(holds: Callable[[Mapping[str, Any]], bool], rows: Mapping[str, Any]) -> list[str]:
    """The names of those of *rows* for which *holds* is false."""
    assert rows
    return [name for name, row in rows.items() if not holds(row)]


def test_a_row_says_nothing_that_nobody_reads() -> None:
    rows = {path: ROWS[path] for path in PLAIN}

    assert {
        path: set(row) - PLAIN_KEYS for path, row in rows.items() if set(row) - PLAIN_KEYS
    } == {}
    assert where(lambda row: set(row.get("differs", {})) <= set(row["workloads"]), rows) == []
    assert [
        (path, workload_type)
        for path, row in rows.items()
        for workload_type, part in row.get("differs", {}).items()
        if not set(part) < COMMON_KEYS
    ] == []


def test_an_itemized_field_has_a_key_and_attributes() -> None:
    rows = {path: ROWS[path] for path in ITEMIZED}

    assert where(lambda row: set(row) <= ITEMIZED_KEYS, rows) == []
    assert where(lambda row: row["key"] in row["attributes"], rows) == []
    assert where(lambda row: set(row["ruledAttributes"]) <= set(row["attributes"]), rows) == []
    assert where(lambda row: "exclude" not in row["attributes"], rows) == []
    assert [
        f"{path}.{name}"
        for path, row in rows.items()
        for name, attribute in row["attributes"].items()
        if not set(attribute) <= COMMON_KEYS
    ] == []


def bounds_of(row: Mapping[str, Any]) -> list[Any]:
    return [row[key] for key in ("min", "max") if key in row]


def test_bounds_and_enums_fit_the_type() -> None:
    bounded = {name: row for name, row in SHAPES.items() if bounds_of(row)}
    texts = {name: row for name, row in SHAPES.items() if {"enum", "pattern", "maxLength"} & {*row}}

    assert where(lambda row: row["type"] in [*FieldType], SHAPES) == []
    assert where(lambda row: FieldType(row["type"]) in NUMERIC, bounded) == []
    assert where(lambda row: bounds_of(row) == sorted(bounds_of(row)), bounded) == []
    assert where(lambda row: FieldType(row["type"]) is FieldType.STRING, texts) == []
    assert (
        where(lambda row: all(isinstance(text, str) for text in row.get("enum", ())), texts) == []
    )
    assert where(lambda row: re.compile(row.get("pattern", "")).groups == 0, texts) == []


def test_a_description_is_one_phrase_on_one_line() -> None:
    assert where(lambda row: bool(PHRASE.fullmatch(row["description"])), SHAPES) == []
    # They stand in a table.
    assert where(lambda row: "|" not in row["description"], SHAPES) == []
    assert where(lambda row: "|" not in row.get("platformDefault", ""), SHAPES) == []


def test_a_field_stands_at_selectors_that_its_types_have() -> None:
    wrong = {
        (path, workload_type): selectors
        for path, row in ROWS.items()
        for workload_type, selectors in row["workloads"].items()
        if not selectors or not set(selectors) <= set(native_places(workload_type))
    }

    assert wrong == {}


@pytest.mark.parametrize("path", [path for path in ROWS if set(ROWS[path]) & {*RELATIONS}])
def test_a_field_is_related_to_one_of_its_type(path: str) -> None:
    row = ROWS[path]
    opposite = dict(zip(RELATIONS, ("notAbove", "notBelow", "notWithout", "notWith"), strict=True))

    for relation in set(row) & {*RELATIONS}:
        other = ROWS[row[relation]]
        assert other["type"] == row["type"]
        assert other[opposite[relation]] == path
        assert set(other["workloads"]) & set(row["workloads"])


def test_a_flag_and_an_item_that_do_not_go_together_say_so_of_one_another() -> None:
    related = {
        (path, relation, row[relation]["field"], row[relation]["item"])
        for path, row in ROWS.items()
        for relation in {*ITEM_RELATIONS} & set(row)
    }
    opposite = dict(zip(ITEM_RELATIONS, reversed(ITEM_RELATIONS), strict=True))
    flag, capabilities = "security.allowPrivilegeEscalation", "security.capabilities"

    assert {(flag, "notWithItem", capabilities, "CAP_SYS_ADMIN")} < related
    assert related == {(other, opposite[name], path, item) for path, name, other, item in related}
    assert (ROWS[flag]["type"], ROWS[capabilities]["type"]) == ("boolean", "strings")


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


def test_a_spelling_is_lower_case_and_leads_to_a_field_or_attribute() -> None:
    attributes = {f"{path}.{key}" for path in ITEMIZED for key in ROWS[path]["attributes"]}
    spellings = native_spellings()

    assert spellings
    assert [(s, name) for s, name in spellings.items() if not s == s.lower() != name.lower()] == []
    assert [(s, name) for s, name in spellings.items() if name not in {*ROWS, *attributes}] == []


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


def test_every_text_of_an_enum_is_a_legal_default() -> None:
    texts = [
        (workload_type, path, text)
        for path in ROWS
        if "enum" in ROWS[path]
        for workload_type in ROWS[path]["workloads"]
        for text in native_rows_of(workload_type)[path]["enum"]
    ]
    refused = [
        (row, problems)
        for row in texts
        if (problems := problems_of(row[0], defaults=tree(row[1], row[2])))
    ]

    assert texts
    assert refused == []


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
    assert inference["security.capabilities"].item_not_without is None
    assert training["security.capabilities"].item_not_without is not None
