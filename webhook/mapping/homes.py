"""
Where a field of the workload API is at home in a pod template.

Most are simply at a path of their container or pod spec. A home says what else there is to it;
the table is in product terms (catalog/field_groups.yaml, nativePod and nativeContainer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from webhook.model.values import FieldType

# Homes that take more than a path: see policy/gpu/gpu_share.py.
Special = Literal["", "gpuDevices", "gpuRequestType", "gpuShare"]
# How the items of an itemized field stand there.
ItemHome = Literal["", "map", "volumes"]


@dataclass(frozen=True, slots=True)
class PodHome:
    """
    Where the parts of a pod are, seen from one place: in a pod template, unless it is said.

    The pod has its *annotations* there, and its lists of containers below *spec*; those below
    *others* are of further pods with the same annotations. Besides, one container, which is called
    *main*, may stand at one of *main_at*: in front of the others, or behind if it *is_last*. It
    asks for whole GPUs at *devices* too.
    """

    annotations: tuple[str, ...] = ("metadata", "annotations")
    spec: tuple[str, ...] = ("spec",)
    others: tuple[tuple[str, ...], ...] = ()
    main: str = ""
    main_at: tuple[tuple[str, ...], ...] = ()
    main_is_last: bool = False
    devices: tuple[str, ...] = ()


POD_TEMPLATE = PodHome()


@dataclass(frozen=True, slots=True)
class Home:
    """
    How a native field stands in a pod template.

    *rules_as* is the type whose rules policies may give, where Kubernetes writes another one.
    The field is *above* so many levels from the selected place: 1 for the metadata beside a pod
    spec. With *main_only*, only the main container is given defaults and asked for a value. Where
    a place is only *judged*, none is: what is given there has to keep the rules. A container
    without a value *inherits* the pod spec's; with *inherits_from_object*, what is at that path of
    the object. *codec* says how the value is written.
    """

    rules_as: FieldType | None = None
    above: int = 0
    main_only: bool = False
    judged: bool = False
    inherits: tuple[str, ...] = ()
    inherits_from_object: bool = False
    codec: str = ""
    special: Special = ""
    # Of a special one.
    pod: PodHome = POD_TEMPLATE
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
