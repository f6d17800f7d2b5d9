"""One document after the other, compiled unless it was before."""

from __future__ import annotations

from collections.abc import Mapping

from webhook.mapping.compiled import CompiledMapping, compile_mapping
from webhook.mapping.fields import CompiledGroup, compile_group, extend_group
from webhook.mapping.formatters import CompiledFormatter, compile_formatter
from webhook.model.documents import Document
from webhook.model.kinds import GroupVersionKind
from webhook.policy.compile.assets import Asset, compile_asset
from webhook.policy.compile.compiler import compile_policy
from webhook.policy.rules.enforcement import CompiledPolicy
from webhook.store.memo import Memo


class Parts:
    """
    What single documents compile to; *memo* knows what it was last time.

    Each method raises what the function raises that compiles its document.
    """

    def __init__(self, memo: Memo) -> None:
        self._memo = memo

    def formatter(self, document: Document) -> CompiledFormatter:
        return self._memo.recall(
            ("formatter", _identity(document)), (), lambda: compile_formatter(document)
        )

    def group(
        self,
        document: Document,
        formatters: Mapping[str, CompiledFormatter],
        base: CompiledGroup | None,
    ) -> CompiledGroup:
        named = {
            field.formatter.lower(): None
            for field in document.spec.fields.values()
            if field.formatter is not None
        }
        return self._memo.recall(
            ("group", _identity(document)),
            (base, *[formatters.get(name) for name in named]),
            lambda: compile_group(document, formatters, base),
        )

    def extend(self, groups: dict[str, CompiledGroup], added: CompiledGroup) -> None:
        """Add the fields of *added* to the group of *groups* that has its name."""
        name = added.name.lower()
        base = groups.get(name)
        # The same parts are the same group: mappings are compiled by the identity of theirs.
        groups[name] = self._memo.recall(
            ("extended", name, len(base.fields) if base is not None else 0),
            (base, added),
            lambda: extend_group(base, added),
        )

    def mapping(self, document: Document, groups: Mapping[str, CompiledGroup]) -> CompiledMapping:
        named = {
            name.lower(): None
            for selector in document.spec.spec_selectors.values()
            for name in selector.field_groups
        }
        return self._memo.recall(
            ("mapping", _identity(document)),
            tuple([groups.get(name) for name in named]),
            lambda: compile_mapping(document, groups),
        )

    def asset(self, document: Document, group: CompiledGroup) -> Asset:
        return self._memo.recall(
            ("asset", _identity(document)),
            (group,),
            lambda: compile_asset(document, group.fields),
        )

    def policy(
        self,
        document: Document,
        mappings: Mapping[GroupVersionKind, CompiledMapping],
        assets: Mapping[str, Asset],
    ) -> list[CompiledPolicy]:
        spec = document.spec
        kinds = spec.workload_type if isinstance(spec.workload_type, tuple) else ()
        used = [mappings.get(kind) for kind in kinds or (spec.workload_type,)]
        if None in used:
            # What is said about a missing one depends on all that there are.
            return compile_policy(document, mappings, assets)
        imposes = getattr(spec, "imposed_assets", None)
        return self._memo.recall(
            ("policy", _identity(document)),
            (*used, *(assets.values() if imposes else ())),
            lambda: compile_policy(document, mappings, assets),
        )


def _identity(document: Document) -> tuple[object, ...]:
    """Equal for two documents that compile to the same, if what they depend on is the same."""
    return (
        document.kind,
        document.name,
        document.revision,
        document.source,
        document.created,
        document.builtin,
    )
