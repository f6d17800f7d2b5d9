"""What all that is seen of a namespaced kind has, where its every version matters."""

from __future__ import annotations


class Keyed:
    """The rest of an informer's `Seen`, for a struct whose *name* is its key, `namespace/name`."""

    __slots__ = ()

    name: str
    resource_version: str

    @property
    def change_key(self) -> object:
        return self.resource_version

    @property
    def namespace(self) -> str:
        return self.name.partition("/")[0]
