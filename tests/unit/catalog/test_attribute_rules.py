"""Every attribute that the workload API lets policies rule can be ruled, by its type's rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.catalog.policies import problems_of, tree

CLAIM = [
    *("claimInfo.size", "claimInfo.storageClass", "claimInfo.accessModes.readWriteOnce"),
    *("claimInfo.accessModes.readOnlyMany", "claimInfo.accessModes.readWriteMany"),
]
RULED = {
    "imagePullSecrets": ["name", "userCredentials"],
    "compute.extendedResources": ["quantity"],
    "tolerations": ["operator", "key", "value", "effect", "seconds", "exclude"],
    "exposedUrls": [
        *("container", "customUrl", "url", "authorizedUsers", "authorizedGroups"),
        *("toolType", "toolName"),
    ],
    "ports": [
        *("container", "serviceType", "customExternalPort", "external", "toolType", "toolName"),
    ],
    "relatedUrls": ["url", "type", "name"],
    "storage.hostPath": ["path", "readOnly", "mountPath", "mountPropagation"],
    "storage.git": ["repository", "branch", "revision", "path"],
    "storage.pvc": ["claimName", "path", "readOnly", *CLAIM],
    "storage.nfs": ["path", "readOnly", "server", "mountPath"],
    "storage.s3": ["bucket", "path", "url"],
    "storage.configMapVolume": ["configMap", "mountPath", "subPath", "defaultMode"],
    "storage.secretVolume": ["secret", "mountPath", "defaultMode"],
    "storage.emptyDirVolume": ["path", "medium", "sizeLimit"],
    "storage.dataVolume": ["id", "mountPath"],
}


def test_every_attribute_of_the_workload_api_can_be_ruled() -> None:
    refused = {
        (field, attribute): problems
        for field, attributes in RULED.items()
        for attribute in attributes
        if (problems := problems_of("training", rules=rule(field, attribute)))
    }

    assert refused == {}


def rule(field: str, attribute: str) -> dict[str, Any]:
    return tree(field, {"attributes": tree(attribute, {"canEdit": False})})


@pytest.mark.parametrize("field", ["environmentVariables", "labels", "annotations"])
def test_some_fields_are_ruled_by_item_only(field: str) -> None:
    rules = tree(field, {"attributes": {"value": {"required": True}}})

    ((path, problem),) = problems_of("training", rules=rules)

    assert path == f"spec.rules.{field}.attributes"
    assert "attributes" in problem
