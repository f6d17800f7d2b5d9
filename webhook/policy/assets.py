"""Data sources: storage items that policies impose on every workload of their scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.errors import SpecError
from webhook.mapping.fields import Field
from webhook.model.documents import DataSourceSpec, Document

# Attributes that name a credential. An asset with one of them can't be imposed: everybody in the
# scope would get what somebody keeps secret.
_CREDENTIALS: Mapping[str, tuple[str, ...]] = {
    "s3": ("accessKeySecret", "secretKeyOfAccessKeyId", "secretKeyOfSecretKey"),
    "git": ("passwordSecret", "secretKeyOfUser", "secretKeyOfPassword", "secretRef"),
}


@dataclass(frozen=True, slots=True)
class Asset:
    """
    One DataSource: an item of the itemized field `storage.<kind>`.

    *credential* names the attribute that references one, ``""`` if none does.
    """

    name: str
    field: str
    item: Mapping[str, Any]
    credential: str = ""


def compile_asset(document: Document, fields: Mapping[str, Field]) -> Asset:
    """
    Read one DataSource. *fields* are those of a native type that has all kinds of storage.

    Raises:
        ExceptionGroup: of SpecError, where there is no such storage.
    """
    spec: DataSourceSpec = document.spec
    kind, item = spec.asset
    name = f"storage.{kind}"
    field = fields.get(name)
    if field is None:
        raise ExceptionGroup(
            "the data source is wrong", [SpecError(f"spec.{kind}", "is no storage")]
        )
    key = field.item_key
    # Attributes are read in any case, so they are looked for in any case.
    given = {word.lower() for word, value in item.items() if value}
    credential = next((w for w in _CREDENTIALS.get(kind, ()) if w.lower() in given), "")
    named = item if key.lower() in given else {key: document.name, **item}
    return Asset(document.name, name, named, credential)


def by_reference(
    assets: list[tuple[Document, Asset]],
) -> dict[str, Asset]:
    """The assets by what `imposedAssets` may call them: name or id, in lower case."""
    found: dict[str, Asset] = {}
    for document, asset in assets:
        for reference in (document.name, document.spec.id):
            if reference:
                found.setdefault(reference.lower(), asset)
    return found
