"""The two objects as the API server has them, and what is written into them. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from webhook.registrations.wanted import Configuration, Filling

GROUP_VERSION = "admissionregistration.k8s.io/v1"
FIELD_MANAGER = "gatewright"

KINDS: Mapping[Configuration, str] = {
    Configuration.MUTATING: "MutatingWebhookConfiguration",
    Configuration.VALIDATING: "ValidatingWebhookConfiguration",
}
PLURALS: Mapping[Configuration, str] = {
    Configuration.MUTATING: "mutatingwebhookconfigurations",
    Configuration.VALIDATING: "validatingwebhookconfigurations",
}


def path_of(configuration: Configuration) -> str:
    return f"/apis/{GROUP_VERSION}/{PLURALS[configuration]}"


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """Of one entry what is filled in. *ca_bundle* is base64, ``""`` if there is none."""

    rules: Sequence[Any]
    conditions: Mapping[str, str]
    ca_bundle: str


@dataclass(frozen=True, slots=True)
class SeenConfiguration:
    """
    One of the objects, with its *entries* by name.

    *writers* are the field managers beside ours that have written something that is ours to fill
    in, as the API server notes them.
    """

    name: str
    resource_version: str
    uid: str
    entries: Mapping[str, SeenEntry]
    writers: Sequence[str] = ()

    @property
    def version(self) -> tuple[str, str]:
        """Equal for two readings of one state."""
        return self.uid, self.resource_version

    @property
    def change_key(self) -> object:
        return self.uid, self.entries


def differences(
    seen: SeenConfiguration, wanted: Mapping[str, Filling], ca_pem: bytes | None
) -> list[str]:
    """
    What of *seen* is not as *wanted*, as texts like `pods.gatewright.io: rules`.

    Entries that are not there are the chart's business, as conditions under other names are
    somebody else's. *ca_pem* None: whatever is named there stays.
    """
    bundle = _encoded(ca_pem)
    found = []
    for name, filling in sorted(wanted.items()):
        entry = seen.entries.get(name)
        if entry is None:
            continue
        if list(entry.rules) != list(filling.rules):
            found.append(f"{name}: rules")
        if any(entry.conditions.get(key) != text for key, text in filling.conditions.items()):
            found.append(f"{name}: matchConditions")
        if bundle is not None and entry.ca_bundle != bundle:
            found.append(f"{name}: caBundle")
    return found


def missing_entries(seen: SeenConfiguration, wanted: Mapping[str, Filling]) -> list[str]:
    """The entries that should be filled in and are not there."""
    return sorted(wanted.keys() - seen.entries.keys())


def as_seen(seen: SeenConfiguration, wanted: Mapping[str, Filling]) -> dict[str, Filling]:
    """Of the entries of *wanted* what is there already, which the API server has taken."""
    return {
        name: Filling(
            entry.rules,
            {key: text for key, text in entry.conditions.items() if key in wanted[name].conditions},
        )
        for name, entry in seen.entries.items()
        if name in wanted
    }


def apply_body(
    configuration: Configuration,
    seen: SeenConfiguration,
    wanted: Mapping[str, Filling],
    ca_pem: bytes | None,
) -> dict[str, Any]:
    """
    What server-side apply is given to make *seen* as *wanted*.

    The uid keeps it from being made anew by somebody who does not know yet that it was deleted;
    with the version no entry comes back that somebody has just taken out.
    """
    bundle = _encoded(ca_pem)
    webhooks = []
    for name, filling in sorted(wanted.items()):
        if name not in seen.entries:
            continue
        webhook: dict[str, Any] = {
            "name": name,
            # An empty list as well: without it, rules that somebody else has written would stay.
            "rules": list(filling.rules),
            "matchConditions": [
                {"name": key, "expression": text} for key, text in filling.conditions.items()
            ],
        }
        if bundle is not None:
            webhook["clientConfig"] = {"caBundle": bundle}
        webhooks.append(webhook)
    return {
        "apiVersion": GROUP_VERSION,
        "kind": KINDS[configuration],
        "metadata": {
            "name": seen.name,
            "uid": seen.uid,
            "resourceVersion": seen.resource_version,
        },
        "webhooks": webhooks,
    }


def _encoded(pem: bytes | None) -> str | None:
    return None if pem is None else base64.b64encode(pem).decode()


# --- reading objects ---


class _ManagedFields(msgspec.Struct):
    manager: str = ""
    fields: dict[str, Any] = msgspec.field(default_factory=dict, name="fieldsV1")


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    managed_fields: list[_ManagedFields] = msgspec.field(default_factory=list, name="managedFields")


class _Condition(msgspec.Struct):
    name: str
    expression: str = ""


class _ClientConfig(msgspec.Struct):
    ca_bundle: str | None = msgspec.field(default=None, name="caBundle")


class _Webhook(msgspec.Struct):
    name: str
    rules: list[Any] | None = None
    conditions: list[_Condition] | None = msgspec.field(default=None, name="matchConditions")
    client_config: _ClientConfig = msgspec.field(default_factory=_ClientConfig, name="clientConfig")


class _Object(msgspec.Struct):
    metadata: _Metadata
    webhooks: list[_Webhook] | None = None


_OBJECTS = msgspec.json.Decoder(_Object)


def decode_configuration(raw: bytes) -> SeenConfiguration:
    """
    Raises:
        msgspec.DecodeError: *raw* is no such object.
    """
    read = _OBJECTS.decode(raw)
    metadata = read.metadata
    return SeenConfiguration(
        metadata.name,
        metadata.resource_version,
        metadata.uid,
        {
            webhook.name: SeenEntry(
                webhook.rules or [],
                {condition.name: condition.expression for condition in webhook.conditions or ()},
                webhook.client_config.ca_bundle or "",
            )
            for webhook in read.webhooks or ()
        },
        sorted(
            {
                written.manager
                for written in metadata.managed_fields
                if written.manager != FIELD_MANAGER and _writes_ours(written.fields)
            }
        ),
    )


def _writes_ours(fields: Mapping[str, Any]) -> bool:
    """Whether *fields*, as the API server notes them, has something that is ours to fill in."""
    return any(
        "f:rules" in entry
        or "f:matchConditions" in entry
        or "f:caBundle" in _map(entry.get("f:clientConfig"))
        for entry in _entries(fields)
    )


def _entries(fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from [_map(part) for part in _map(fields.get("f:webhooks")).values()]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
