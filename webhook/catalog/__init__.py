"""
Built-in documents, as data: field groups, mappings, system policies, native fields.

They are in the format of the documents that users register and are compiled by the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from webhook.model.documents import Document, parse_document
from webhook.model.manifests import load_documents


def _load(name: str) -> list[tuple[str, Any]]:
    """The documents of one file of this package, with where each stands."""
    text = files(__package__).joinpath(name).read_bytes()
    return [(manifest.name, manifest.value) for manifest in load_documents(text, f"builtin/{name}")]


@cache
def builtin_documents() -> tuple[Document, ...]:
    """Every built-in document: field groups first, then mappings, then policies."""
    names = ["field_groups.yaml"]
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
    """The fields of the native workload types, by path: `type`, `workloads`, ..."""
    rows: Mapping[str, Mapping[str, Any]] = _native()["fields"]
    return rows


def native_spellings() -> Mapping[str, str]:
    """Spellings that policies may use for a native field, in lower case, and its name."""
    spellings: Mapping[str, str] = _native()["spellings"]
    return spellings
