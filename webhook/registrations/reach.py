"""In which namespaces the API server asks us about workloads, by what is registered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from webhook.errors import KubeError
from webhook.model.rightsizing.policies import LabelRequirement
from webhook.registrations.objects import path_of
from webhook.registrations.wanted import PODS, WORKLOADS, Configuration

# Where the chart's registrations ask nobody, whatever its values say.
ALWAYS_LEFT_OUT = ("kube-system",)

# The API server gives it to each namespace.
_NAME_LABEL = "kubernetes.io/metadata.name"


class Calls(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(self, method: str, path: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Reach:
    """
    The namespaces that one of *selectors* selects: those of the entries that judge workloads.

    A selector is what it asks of a namespace's labels.
    """

    selectors: tuple[tuple[LabelRequirement, ...], ...]

    @classmethod
    def without(cls, namespaces: Iterable[str]) -> Reach:
        """All but *namespaces*."""
        return cls(((LabelRequirement(_NAME_LABEL, "NotIn", tuple(namespaces)),),))

    def includes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """
        Whether objects in *namespace*, which has *labels*, are judged. Selectors say nothing about
        objects in no namespace (``""``).
        """
        known = {_NAME_LABEL: namespace, **labels}
        return not namespace or any(
            all(requirement.is_met(known) for requirement in selector)
            for selector in self.selectors
        )


class _Expression(msgspec.Struct):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class _Selector(msgspec.Struct):
    labels: dict[str, str] | None = msgspec.field(default=None, name="matchLabels")
    expressions: list[_Expression] | None = msgspec.field(default=None, name="matchExpressions")


class _Webhook(msgspec.Struct):
    name: str
    selector: _Selector | None = msgspec.field(default=None, name="namespaceSelector")


class _Object(msgspec.Struct):
    webhooks: list[_Webhook] | None = None


class _List(msgspec.Struct):
    items: list[_Object] | None = None


_LISTS = msgspec.json.Decoder(_List)


async def fetch_reach(client: Calls) -> Reach | None:
    """
    What the cluster's ValidatingWebhookConfigurations say; None where none has our entries.

    Raises:
        KubeError: they can't be read.
    """
    body = await client.request("GET", path_of(Configuration.VALIDATING))
    try:
        items = _LISTS.decode(body).items or ()
    except msgspec.DecodeError as error:
        raise KubeError(0, "Unreadable", f"no answer of an API server: {error}") from error
    selectors = [
        _requirements(webhook.selector or _Selector())
        for item in items
        for webhook in item.webhooks or ()
        if webhook.name in (WORKLOADS, PODS)
    ]
    return Reach(tuple(selectors)) if selectors else None


def _requirements(selector: _Selector) -> tuple[LabelRequirement, ...]:
    return (
        *[LabelRequirement(key, "In", (text,)) for key, text in (selector.labels or {}).items()],
        *[
            LabelRequirement(each.key, each.operator, each.values or ())
            for each in selector.expressions or ()
        ],
    )
