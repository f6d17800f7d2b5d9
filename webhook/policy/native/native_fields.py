"""Names of hierarchical policies, and where the fields that they mean are at home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webhook.catalog import native_rows, native_spellings
from webhook.mapping.compiled import CompiledMapping, CompiledSelector
from webhook.mapping.fields import Field
from webhook.model.kinds import NATIVE_TYPE_OF
from webhook.model.names import did_you_mean, nearest

# Roles that a hierarchical policy may name in front of a field.
ROLES = ("master", "worker", "leader")

# What Kubernetes, or the object itself, calls a field or section, and what policies do.
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "env": ("environmentVariables",),
    "masterspec": ("master",),
    "replicas": ("numWorkers",),
    "resources": ("compute",),
    "runasgroup": ("security.runAsGid",),
    "runasuser": ("security.runAsUid",),
    "securitycontext": ("security",),
    "volumes": ("storage",),
    "workers": ("numWorkers",),
}

# Of the places of pod specs and containers, those of all roles; the others repeat a part of them.
_WHOLE = {"PodSpec": "podSpec", "Containers": "allContainers"}


@dataclass(frozen=True, slots=True)
class Home:
    """One place of a field of a hierarchical policy; *role* is ``""`` if it is of no role."""

    selector: CompiledSelector
    field: Field
    role: str = ""

    @property
    def name(self) -> str:
        """As a policy names it there: `image`, `master.image`."""
        return f"{self.role}.{self.field.name}" if self.role else self.field.name

    @property
    def beside(self) -> Mapping[str, Field]:
        """The fields of the same place."""
        return {**self.selector.fields, **self.selector.native}


class NativeFields:
    """
    The fields that a hierarchical policy can name for one kind, by path in any case.

    Behind the name of a role (`master.image`) a field is that role's; without one (`image`) it
    is the field of the workload as a whole, or, where it only has that of roles, each of those.
    """

    def __init__(self, mapping: CompiledMapping) -> None:
        self._mapping = mapping
        self._homes: dict[str, list[Home]] = {}
        self._canonical: dict[str, str] = {}
        for selector in mapping.selectors.values():
            role = role_of(selector.name)
            named = {name: field for name, field in selector.fields.items() if field.native}
            named |= selector.native
            for field in named.values():
                if field.home.above and not selector.is_pod_template:
                    continue
                home = Home(selector, field, role)
                self._add(home.name, home)
                if role or not self._is_repeated(selector.name):
                    self._add(field.name, home)
        for name, homes in self._homes.items():
            whole = [home for home in homes if not home.role]
            if whole and len(whole) < len(homes):
                self._homes[name] = whole
        self._roles = [role for role in ROLES if role in self._canonical]
        for spelling, name in native_spellings().items():
            for role in ("", *[f"{role}." for role in self._roles]):
                if role + name in self._homes:
                    self._canonical.setdefault(role + spelling.lower(), role + name)

    def _is_repeated(self, selector: str) -> bool:
        """Whether another selector finds the places of this one, and more."""
        if selector == "mainContainer":
            return "allContainers" in self._mapping.selectors
        return any(
            selector.endswith(ending) and selector != whole and whole in self._mapping.selectors
            for ending, whole in _WHOLE.items()
        )

    def _add(self, name: str, home: Home) -> None:
        homes = self._homes.setdefault(name, [])
        if home not in homes:
            homes.append(home)
        while name and name.lower() not in self._canonical:
            self._canonical[name.lower()] = name
            name = name.rpartition(".")[0]

    def canonical(self, path: str) -> str | None:
        """The name of the field or section that *path* means."""
        return self._canonical.get(path.lower())

    def homes(self, name: str) -> Sequence[Home]:
        """Where the field *name* is at home; none if it is no field."""
        return self._homes.get(name, ())

    def problem(self, prefix: str, key: str) -> str:
        """What is wrong with the name *key* in the section *prefix*."""
        kind = self._mapping.kind
        role, _, rest = f"{prefix}{key}".partition(".")
        role = role.lower()
        if role in ROLES and not rest and role not in self._roles:
            roles = ", ".join(self._roles)
            has = f"its roles are {roles}" if roles else "it has no roles"
            return f"{kind.kind} has no role {role}; {has}"
        if kind not in NATIVE_TYPE_OF and self._is_known(f"{prefix}{key}"):
            return f"has no home in a {kind.kind}"
        return f"unknown field{self.hint(prefix, key)}"

    def _is_known(self, path: str) -> bool:
        """Whether *path* is a field or section of the workload API, be it of another kind."""
        role, _, rest = path.lower().partition(".")
        wanted = rest if role in ROLES and rest else path.lower()
        wanted = native_spellings().get(wanted, wanted).lower()
        return any(f"{name.lower()}.".startswith(f"{wanted}.") for name in native_rows())

    def hint(self, prefix: str, key: str) -> str:
        """The end of a message that *key* is unknown in the section *prefix*."""
        role, _, rest = f"{prefix}{key}".partition(".")
        elsewhere = self.homes(self.canonical(rest) or "") if role.lower() in ROLES else ()
        if elsewhere:
            return f'; did you mean "{elsewhere[0].name}"?'
        last = key.lower()
        called = [name for name in _OTHER_NAMES.get(last, ()) if name.lower() in self._canonical]
        if called and (not prefix or role.lower() in self._roles):
            return f'; did you mean "{called[0]}"?'
        depth = prefix.count(".")
        known = {name.split(".")[depth] for name in self._homes if name.startswith(prefix)}
        if not prefix and key.lower() not in map(str.lower, known):
            # A field without the section that it is in.
            by_last = {name.rpartition(".")[2].lower(): name for name in reversed(self._homes)}
            near = last if last in by_last else None
            if near is None and nearest(key, known) is None:
                near = nearest(last, by_last)
            if near is not None:
                return f'; did you mean "{by_last[near]}"?'
        return did_you_mean(key, known)


def role_of(selector: str) -> str:
    """The role that *selector* is of: `worker` and `workerPodSpec` are the worker's."""
    for role in ROLES:
        if selector == role or (selector.startswith(role) and selector[len(role)].isupper()):
            return role
    return ""
