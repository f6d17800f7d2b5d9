"""
The page of the reference on kinds of others: which native fields each has, and where.

Made from the catalogue, as the pages of the native types are; `python -m tests.reference` writes
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.unit.catalog.policies import builtin
from webhook.catalog import builtin_documents, native_rows
from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.homes import Home
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.policy.native.native_fields import ROLES, NativeFields

# The groups that nearly every kind with a pod template has, and what stands in front of a path.
POD_GROUPS = {"nativePod": "pod", "nativeContainer": "container"}

# What the code, and no path, says of a home.
SPECIAL = {
    "gpuDevices": "a request beside it is kept equal; where the pod has a share of a GPU, the"
    " annotation `gpu-fraction-num-devices` if it is more than 1",
    "gpuRequestType": "`portion` or `memory`, by which of the two annotations below is there",
    "gpuShare": "",
}
CODECS = {
    "mib": "MiB, rounded up",
    "fraction": "rounded up to two decimals",
    "groups": "as a list",
}


HEAD = """
# Kinds of others

A `WorkloadPolicy` is written for any kind whose mapping says where the fields of the workload API are. One policy may
be for several, native types among them; what a field has no home for is an error that names the kind.

```yaml
apiVersion: policy.gatewright.io/v1alpha1
kind: WorkloadPolicy
metadata: {name: gpu-guardrails}
spec:
  workloadType:
    - training
    - {group: kubeflow.org, version: v1, kind: PyTorchJob}
    - {group: apps, version: v1, kind: Deployment}
  scope: tenant
  rules:
    compute:
      gpuDevicesRequest: {max: 8}
```

Values, types and rules of the fields are those of the [native types](README.md), and they are compared after the
rounding that the notes below name. What the workload API asks of fields together is judged on native workloads only.

**Containers.** Rules hold for every app and init container. Where the notes say *main container*, a default is
written into the main container only, the first app container of a pod, and `required` is asked of it alone: a sidecar
gets no GPU. Where a role is given in front (`worker.image`), the pods of that role count; without one, those of every
role. Default and imposed volumes are mounted in every container.

**Shares of a GPU.** `gpuPortionRequest` and `gpuMemoryRequest` are the annotations that KAI reads. `gpuRequestType` is
not written: it is what the annotations say. A pod with a share has no `nvidia.com/gpu`: a default of
`gpuDevicesRequest` is then not written there, or, above 1, as `gpu-fraction-num-devices`; its rules judge one device.
A default share is left out where a container asks for whole GPUs. Where the main container isn't the first one,
`gpu-fraction-container-name` names it. In an InferenceService and an LLMInferenceService they are `annotations` of the
component or workload, in a DynamoGraphDeployment v1alpha1 `extraPodMetadata.annotations` of the service. The pods of
workers have the same ones.

**Kinds without a pod template.** What such a kind has of a pod or a container stands among fields of its own, and that
is where a field is found: the GPUs of a TrainJob in `trainer.resourcesPerNode`, the user of a NIM service in `userID`, the
memory of a SparkApplication as the JVM writes it (`2g` is 2Gi). An image that is written in parts is judged and written as
one: `image` of a NIM service is `repository:tag`, and a default without tag or digest is refused. What a kind says
for all its pods gets the default; what single steps, components or templates say beside it is held to the same rules. Of the
fields that the last table calls *only judged* a default is written nowhere: the GPUs of a virtual machine are devices,
which are counted.

**Items.** Variables, volumes and tolerations go by the keys of the native types: the name of a variable or volume; a
toleration has none, and counts as the one of a policy if it is the same. Kinds of others have no `exclude: true`: to
leave a default item out, [the submitter writes an annotation](../submitters.md#leaving-a-default-item-out).
"""


def homes_page() -> Iterator[str]:
    """The lines of the page."""
    yield from HEAD.strip().splitlines()
    yield ""
    yield "## Where the fields are"
    yield ""
    yield "| Field | Where | Notes |"
    yield "|---|---|---|"
    fields = {
        name: (POD_GROUPS[document.spec.name], field)
        for document in builtin_documents()
        if document.kind == "FieldGroup" and document.spec.name in POD_GROUPS
        for name, field in document.spec.fields.items()
    }
    for name in [name for name in native_rows() if name in fields]:
        part, field = fields[name]
        yield f"| `{name}` | {_where(part, name, field)} | {'; '.join(_notes(field))} |"
    yield ""
    yield "## Which kind has which"
    yield ""
    yield (
        "*All* is every field of the table above. Behind a role's name (`worker.image`) stand the"
        " fields of that role's pods. Further fields are about the workload as a whole."
    )
    yield ""
    yield "| Kind | Roles | Fields of the pods | Further fields |"
    yield "|---|---|---|---|"
    for kind, mapping in sorted(builtin().mappings.items()):
        if kind not in NATIVE_TYPE_OF:
            yield _kind_row(kind, mapping, frozenset(fields))


def _where(part: str, name: str, field: Any) -> str:
    ref = field.spec_ref or name
    home = field.home
    if home is not None and home.items == "volumes":
        return f"pod `volumes` with `{home.volume}`, and their `volumeMounts` in every container"
    if home is not None and home.keys:
        return f"{part} `{ref}`: keys with a `/`, but for `nvidia.com/gpu`"
    if home is not None and home.above:
        return f"pod template `{ref}`"
    return f"{part} `{ref}`"


def _notes(field: Any) -> Iterator[str]:
    home = field.home or Home()
    if home.main_only:
        yield "main container"
    if home.inherits:
        ref = home.inherits if isinstance(home.inherits, str) else ".".join(home.inherits)
        yield f"where a container has none, the pod's `{ref}` counts"
    if home.codec:
        yield CODECS[home.codec]
    if SPECIAL.get(home.special):
        yield SPECIAL[home.special]
    if field.removes:
        names = " and ".join([f"`{name}`" for name in field.removes])
        yield f"on a Pod, {names} go when it is written"


def _kind_row(kind: GroupVersionKind, mapping: CompiledMapping, pods: frozenset[str]) -> str:
    tree = NativeFields(mapping)
    names = {home.field.name for name in tree_names(tree) for home in tree.homes(name)}
    roles = [role for role in ROLES if tree.canonical(role) == role]
    own = names & pods
    if own == pods:
        shown = "all"
    elif len(own) > len(pods) / 2:
        shown = f"all but {_listed(pods - own)}"
    else:
        shown = _listed(own) or "none"
    judged = {name for name in own if _is_judged(tree, name)}
    if judged:
        shown += f"; only judged: {_listed(judged)}"
    return f"| `{kind}` | {', '.join(roles)} | {shown} | {_listed(names - pods)} |"


def _is_judged(tree: NativeFields, name: str) -> bool:
    """Whether the field *name* is only judged, wherever the kind of *tree* has it."""
    paths = [name, *[f"{role}.{name}" for role in ROLES]]
    return all(home.field.home.judged for path in paths for home in tree.homes(path))


def tree_names(tree: NativeFields) -> list[str]:
    """Every native path that a policy may write for the kind of *tree*, without a role or with."""
    rows = native_rows()
    paths = [*rows, *[f"{role}.{name}" for role in ROLES for name in rows]]
    return [path for path in paths if tree.homes(path)]


def _listed(names: Iterable[str]) -> str:
    order = list(native_rows())
    return ", ".join([f"`{name}`" for name in sorted(names, key=order.index)])
