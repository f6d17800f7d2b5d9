"""
Where a field of the workload API is at home in a pod template.

Most are simply at a path of their container or pod spec. A home says what else there is to it;
the table is in product terms (catalog/field_groups.yaml, nativePod and nativeContainer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from webhook.model.values import FieldType

# Homes that take more than a path: see policy/gpu_share.py.
Special = Literal["", "gpuDevices", "gpuRequestType", "gpuShare"]
# How the items of an itemized field stand there.
ItemHome = Literal["", "map", "volumes"]


@dataclass(frozen=True, slots=True)
class Home:
    """
    How a native field stands in a pod template.

    *rules_as* is the type whose rules policies may give, where Kubernetes writes another one.
    The field is *above* so many levels from the selected place: 1 for the metadata beside a pod
    spec. With *main_only*, only the main container is given defaults and asked for a value. A
    container without a value *inherits* the pod spec's. *codec* says how the value is written.
    """

    rules_as: FieldType | None = None
    above: int = 0
    main_only: bool = False
    inherits: tuple[str, ...] = ()
    codec: str = ""
    special: Special = ""
    # Written as well where it is there already, since Kubernetes wants both equal.
    mirror: tuple[str, ...] = ()
    # Of an itemized field.
    items: ItemHome = ""
    volume: str = ""
    # Which keys of a map are its items: all, or extended resources.
    keys: Literal["", "extendedResources"] = ""
    # Of an attribute: it stands in the mounts of the volume.
    on_mounts: bool = False

    def has_key(self, key: str) -> bool:
        """Whether the entry *key* of a map is an item of the field."""
        return not self.keys or ("/" in key and key != GPU_RESOURCE)


GPU_RESOURCE = "nvidia.com/gpu"
NO_HOME = Home()
