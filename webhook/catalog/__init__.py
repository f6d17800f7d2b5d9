"""
Built-in documents, as data: formatters, field groups, mappings, system policies, native fields.

They are in the format of the documents that users register and are compiled by the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from webhook.model.documents import Document, parse_document
from webhook.model.kinds import NATIVE_KINDS
from webhook.model.manifests import load_documents


def _load(name: str) -> list[tuple[str, Any]]:
    """The documents of one file of this package, with where each stands."""
    text = files(__package__).joinpath(name).read_bytes()
    return [(manifest.name, manifest.value) for manifest in load_documents(text, f"builtin/{name}")]


@cache
def builtin_documents() -> tuple[Document, ...]:
    """Every built-in document: formatters, field groups, then mappings, then policies."""
    names = ["formatters.yaml", "field_groups.yaml"]
    mappings = files(__package__).joinpath("mappings")
    names += sorted(f"mappings/{entry.name}" for entry in mappings.iterdir())
    names.append("system_policies.yaml")
    return tuple(
        [
            parse_document(value, source, builtin=True)
            for name in names
            for source, value in _load(name)
        ]
    )


@cache
def _native() -> dict[str, Any]:
    ((_, value),) = _load("native_fields.yaml")
    return dict(value)


def native_rows() -> Mapping[str, Mapping[str, Any]]:
    """The fields of the native workload types, by path; native_fields.yaml says what a row has."""
    rows: Mapping[str, Mapping[str, Any]] = _native()["fields"]
    return rows


@cache
def native_rows_of(workload_type: str) -> Mapping[str, Mapping[str, Any]]:
    """The rows of the fields that *workload_type* has, as they are for it."""
    return {
        path: {**row, **row.get("differs", {}).get(workload_type, {})}
        for path, row in native_rows().items()
        if workload_type in row["workloads"]
    }


@cache
def native_places(workload_type: str) -> Mapping[str, tuple[str, ...]]:
    """Where the fields of *workload_type* stand in its object: a path for each selector."""
    (selectors,) = [
        document.spec.spec_selectors
        for document in builtin_documents()
        if document.kind == "SpecMapping"
        and document.spec.workload_type == NATIVE_KINDS[workload_type]
    ]
    # The queries of these mappings name keys and nothing else.
    return {
        name: tuple(selector.query.removeprefix(".").split("."))
        for name, selector in selectors.items()
        if name != "metadata"
    }


def native_spellings() -> Mapping[str, str]:
    """
    Spellings that policies may use, in lower case, and the name that each stands for.

    Those of attributes have the path of their field in front: `storage.nfs.nfsserver`.
    """
    spellings: Mapping[str, str] = _native()["spellings"]
    return spellings


def native_presences() -> Mapping[str, Mapping[str, Any]]:
    """
    Names by which rules ask whether an attribute is there; native_fields.yaml says what a row has.

    They have the path of their field in front.
    """
    presences: Mapping[str, Mapping[str, Any]] = _native()["presences"]
    return presences


def native_value_spellings() -> Mapping[str, Mapping[str, str]]:
    """By field: values in lower case that policies may spell otherwise, and what each means."""
    spellings: Mapping[str, Mapping[str, str]] = _native()["valueSpellings"]
    return spellings
