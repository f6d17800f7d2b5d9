"""
What the API server looks at before it calls us, in CEL (`matchConditions`).

An expression that fails counts as the entry's failurePolicy says: with `Fail`, whoever wanted
something is refused. So nothing is taken for granted but what the API server itself puts there.
"""

from __future__ import annotations

from webhook.model.object_metadata import BOOKKEEPING
from webhook.policy.gpu.gpu_share import FRACTION, MEMORY

GPU_PREFIX = "nvidia.com/"


def _words(*names: str) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _differs(one: str, other: str, left_out: str) -> str:
    """Whether anything but what is *left_out* differs between two maps."""
    return (
        f"!{one}.all(k, k in [{left_out}] || (k in {other} && {one}[k] == {other}[k])) ||"
        f" !{other}.all(k, k in [{left_out}] || k in {one})"
    )


# An update changes something beside bookkeeping and status. The engine lets the others pass as well
# (`admission.review`); but while no server answers, nobody could take a finalizer off. Of a
# subresource, what is sent is no whole object.
CHANGES = (
    "request.operation != 'UPDATE' || (has(request.subResource) && request.subResource != '') ||"
    f" {_differs('object', 'oldObject', _words('metadata', 'status'))} ||"
    f" {_differs('object.metadata', 'oldObject.metadata', _words(*BOOKKEEPING))}"
)


def _has_gpus(containers: str) -> str:
    spec = f"object.spec.{containers}"
    return (
        f"(has({spec}) && {spec} != null && {spec}.exists(c, has(c.resources) &&"
        " c.resources != null && has(c.resources.limits) && c.resources.limits != null &&"
        f" c.resources.limits.exists(k, k.startsWith('{GPU_PREFIX}'))))"
    )


# A Pod that a GPU recommendation can be for.
HAS_GPUS = (
    f"{_has_gpus('containers')} || {_has_gpus('initContainers')} ||"
    " (has(object.metadata.annotations) && object.metadata.annotations != null &&"
    f" object.metadata.annotations.exists(k, k in [{_words(FRACTION, MEMORY)}]))"
)

# In the place of another, where everything is to be sent. A condition that was there and is no
# more would stay if somebody else had written it too; one that is always there can be set.
ANY = "true"
