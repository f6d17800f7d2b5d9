"""
A real control plane for tests and the playground, from Go modules.

`ControlPlane` starts etcd, kube-apiserver and kube-controller-manager on this machine;
`python -m tests.controlplane` does it from the command line.
"""

from tests.controlplane.cluster import Answer
from tests.controlplane.documents import Registration, Rule, User, default_rules
from tests.controlplane.errors import (
    BuildError,
    CommandError,
    ControlPlaneError,
    ProcessError,
    WaitTimeoutError,
)
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until

__all__ = [
    "Answer",
    "BuildError",
    "CommandError",
    "ControlPlane",
    "ControlPlaneError",
    "ProcessError",
    "Registration",
    "Rule",
    "User",
    "WaitTimeoutError",
    "default_rules",
    "wait_until",
]
