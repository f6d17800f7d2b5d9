"""Reading and writing native fields where they are at home in a pod template."""

from __future__ import annotations

from typing import Any, NamedTuple

from webhook.mapping.codecs import CODECS
from webhook.mapping.fields import Field, read_ref
from webhook.model.pointer import Path, lookup
from webhook.patch import Editor
from webhook.policy.gpu import gpu_share


class Found(NamedTuple):
    """Where a value stands (or would), and the value; None if there is none."""

    path: Path
    value: Any


def find_at_home(document: Any, place: Path, field: Field) -> Found:
    """
    The value of *field* at *place*, in the terms of policies.

    Raises:
        RefMismatchError: something on the way is neither absent nor an object.
    """
    home = field.home
    path = place + field.ref
    if home.special == "gpuRequestType":
        return Found(path, gpu_share.request_type(document, place, home.pod))
    if home.special == "gpuDevices" and gpu_share.is_sharing(document, place, home.pod):
        template = gpu_share.template_of(place, home.pod)
        # An annotation that only KAI reads must not hide what every other scheduler hands out.
        if (
            template is not None
            and gpu_share.has_share(document, place, home.pod)
            and gpu_share.whole_gpus(document, place, field.ref) is None
        ):
            path = gpu_share.annotation(template, gpu_share.DEVICES, home.pod)
            return Found(path, lookup(document, path))
    value = read_ref(lookup(document, place), field.ref)
    if value is None and home.inherits:
        # Of a container, the list that it is in stands in a pod spec.
        inherited = home.inherits if home.inherits_from_object else place[:-2] + home.inherits
        value = lookup(document, inherited)
        if value is not None:
            path = inherited
    if value is not None and home.codec:
        value = CODECS[home.codec].from_home(value)
    return Found(path, value)


def counted_at_home(document: Any, place: Path, field: Field) -> Any:
    """What an absent value of *field* counts as to rules: a share is one of one device."""
    if (
        field.home.special == "gpuDevices"
        and gpu_share.is_sharing(document, place, field.home.pod)
        and gpu_share.has_share(document, place, field.home.pod)
    ):
        return 1
    return None


def obstacle_at_home(document: Any, place: Path, field: Field, amount: Any) -> str:
    """Why *field* can't be given a default of this *amount* at *place*; ``""`` if it can."""
    pod = field.home.pod
    match field.home.special:
        case "gpuShare":
            return gpu_share.obstacle(document, place, str(field.ref[-1]), pod)
        case "gpuDevices" if gpu_share.has_share(document, place, pod):
            if not gpu_share.is_sharing(document, place, pod) and amount > 0:
                return "another container of the pod has a share of a GPU"
            return ""
        case _:
            return ""


def write_at_home(
    editor: Editor, place: Path, field: Field, value: Any, *, main: str = ""
) -> Path | None:
    """
    Write *value* for *field* at *place*. Returns where; None if there was nothing to write.

    *main* is the name of the container that a share of a GPU is for, if it isn't the first one.
    """
    home = field.home
    path = place + field.ref
    if home.special == "gpuRequestType":
        return None  # The annotation that holds the amount says it.
    if home.special == "gpuDevices" and gpu_share.has_share(editor.document, place, home.pod):
        template = gpu_share.template_of(place, home.pod)
        if template is None or str(value) == "1":
            return None  # A share is one of one device.
        path = gpu_share.annotation(template, gpu_share.DEVICES, home.pod)
        editor.write(path, str(value))
        return path
    editor.write(path, CODECS[home.codec].to_home(value) if home.codec else value)
    if home.special == "gpuShare" and main:
        named = gpu_share.annotation(place, gpu_share.CONTAINER, home.pod)
        if lookup(editor.document, named) is None:
            editor.write(named, main)
    if home.mirror and lookup(editor.document, place + home.mirror) is not None:
        editor.write(place + home.mirror, value)
    return path
