"""Names of hierarchical policies, and where the fields that they mean are at home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webhook.catalog import native_spellings
from webhook.mapping.compiled import CompiledMapping, CompiledSelector
from webhook.mapping.fields import Field
from webhook.model.names import did_you_mean

# Selectors that a hierarchical policy may name in front of a field.
ROLES = ("master", "worker", "leader")


@dataclass(frozen=True, slots=True)
class Home:
    """One place of a field of a hierarchical policy."""

    selector: CompiledSelector
    field: Field

    @property
    def name(self) -> str:
        """As a policy names it there: `image`, `master.image`."""
        is_role = self.selector.name in ROLES
        return f"{self.selector.name}.{self.field.name}" if is_role else self.field.name


class NativeFields:
    """
    The fields that a hierarchical policy can name for one kind, by path in any case.

    Behind the name of a role (`master.image`) a field is that role's; without one (`image`) it
    is the field at every selector that has it.
    """

    def __init__(self, mapping: CompiledMapping) -> None:
        self._homes: dict[str, list[Home]] = {}
        self._canonical: dict[str, str] = {}
        for selector in mapping.selectors.values():
            for field in selector.fields.values():
                if field.native:
                    home = Home(selector, field)
                    for name in dict.fromkeys([field.name, home.name]):
                        self._add(name, home)
        self._roles = [role for role in ROLES if role in self._canonical]
        for spelling, name in native_spellings().items():
            for role in ("", *[f"{role}." for role in self._roles]):
                if role + name in self._homes:
                    self._canonical.setdefault(role + spelling.lower(), role + name)

    def _add(self, name: str, home: Home) -> None:
        self._homes.setdefault(name, []).append(home)
        while name and name.lower() not in self._canonical:
            self._canonical[name.lower()] = name
            name = name.rpartition(".")[0]

    def canonical(self, path: str) -> str | None:
        """The name of the field or section that *path* means."""
        return self._canonical.get(path.lower())

    def homes(self, name: str) -> Sequence[Home]:
        """Where the field *name* is at home; none if it is no field."""
        return self._homes.get(name, ())

    def hint(self, prefix: str, key: str) -> str:
        """The end of a message that *key* is unknown in the section *prefix*."""
        role, _, rest = f"{prefix}{key}".partition(".")
        role = role.lower()
        if role in ROLES and not rest:
            roles = ", ".join(self._roles)
            return f"; its roles are {roles}" if roles else "; it has no roles"
        elsewhere = self.homes(self.canonical(rest) or "") if role in ROLES else ()
        if elsewhere:
            return f'; did you mean "{elsewhere[0].name}"?'
        depth = prefix.count(".")
        below = {name.split(".")[depth] for name in self._homes if name.startswith(prefix)}
        return did_you_mean(key, below)
