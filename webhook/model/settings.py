"""What the engine needs to know of its surroundings. Set once, at start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """
    Settings that decisions depend on.

    The project of a namespace is the first of *project_labels* that it carries, else its own
    name. *trusted_controllers* are user names with `*` as wildcard: objects that they make for
    an owner that was judged are not judged a second time. *own_namespace* is where this server
    itself runs and may be probed.
    """

    cluster_name: str = ""
    project_labels: tuple[str, ...] = ("runai/queue", "kai.scheduler/queue")
    department_label: str = "gatewright.io/department"
    refuse_early: bool = True
    own_namespace: str = ""
    trusted_controllers: tuple[str, ...] = (
        "system:serviceaccount:kube-system:*",
        "system:kube-controller-manager",
    )
