"""Rights, as docs/operators.md prints them."""

from __future__ import annotations

import yaml

from tests.builders import JsonObject
from tests.controlplane.run import ControlPlane
from tests.e2e.gate import PROJECT

_RBAC = "rbac.authorization.k8s.io"


def roles_of_the_manual() -> dict[tuple[str, str], JsonObject]:
    """By kind and name."""
    text = (PROJECT / "docs" / "operators.md").read_text()
    blocks = [block.partition("```")[0] for block in text.split("```yaml\n")[1:]]
    found = {}
    for block in blocks:
        if "Role" not in block:
            continue
        for document in yaml.safe_load_all(block):
            if isinstance(document, dict) and document.get("kind") in ("ClusterRole", "Role"):
                found[document["kind"], document["metadata"]["name"]] = document
    return found


def bind(cluster: ControlPlane, role: JsonObject, user: str) -> None:
    """Give *user* what *role* allows."""
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "subjects": [{"kind": "User", "name": user, "apiGroup": _RBAC}],
        "roleRef": {"kind": role["kind"], "name": role["metadata"]["name"], "apiGroup": _RBAC},
    }
    cluster.apply({"apiVersion": f"{_RBAC}/v1", **role}, binding)
