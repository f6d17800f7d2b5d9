"""
Kinds of workloads as `scope.workloadTypes` names them.

Nine kinds have short names, which manifests written for other engines use: `Deployment`. Every
other one is named with its group: `PyTorchJob.kubeflow.org`. So no name stands for two kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from webhook.model.rightsizing.policies import DEFAULT_WORKLOAD_TYPES

GROUP_OF_SHORT: Mapping[str, str] = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "CronJob": "batch",
    "Rollout": "argoproj.io",
    "Job": "batch",
    "AnalysisRun": "argoproj.io",
    "DaemonSet": "apps",
    "Model": "kubeai.org",
    "StrimziPodSet": "core.strimzi.io",
}
SHORT_TYPES = (*DEFAULT_WORKLOAD_TYPES, "StrimziPodSet")

_LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
# A kind, and the DNS subdomain that its group is.
LONG_TYPE = rf"[A-Z][A-Za-z0-9]{{0,62}}\.{_LABEL}(?:\.{_LABEL})*"
TYPE_MAX_CHARS = 63 + 1 + 253
_LONG_TYPE = re.compile(LONG_TYPE, re.ASCII)


def type_of(group: str, kind: str) -> str:
    """The name of *kind* in *group*, whose versions are all one."""
    return kind if GROUP_OF_SHORT.get(kind) == group else f"{kind}.{group}"


def is_short(name: str) -> bool:
    """Whether *name* is that of one of the nine kinds."""
    return name in GROUP_OF_SHORT


def read_type(name: str) -> str:
    """
    The one name of the kind that *name* means: `Deployment` for `Deployment.apps`.

    Raises:
        ValueError: *name* is none.
    """
    if is_short(name):
        return name
    if len(name) > TYPE_MAX_CHARS or not _LONG_TYPE.fullmatch(name):
        raise ValueError(
            f"must be one of {', '.join(SHORT_TYPES)}, or another kind with its group, such as"
            f" PyTorchJob.kubeflow.org; not {name[:80]!r}"
        )
    kind, _, group = name.partition(".")
    return type_of(group, kind)
