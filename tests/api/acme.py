"""Somebody's own workload type, as he registers and governs it: the bodies of his requests."""

from __future__ import annotations

from typing import Any

from tests.api.rest import ACME

FORMATTER = {
    "name": "podSpecVolumes",
    "description": "Volumes of a pod spec",
    "fields": {
        "configMapVolumes": {
            "getExpr": "[.volumes[]? | select(.configMap) | {name, configMapName: .configMap.name}]",
            "setExpr": "{volumes: [{name: $ARGS.named.name,"
            " configMap: {name: $ARGS.named.configMapName}}]}",
            "arrayKey": {"argName": "name"},
            "argsInfo": {"name": "string", "configMapName": "string"},
        }
    },
}
JOB_GROUP = {
    "name": "acmeJobSpec",
    "description": "What policies can say about an AcmeJob",
    "fields": {
        "parallelism": {
            "formatter": "KeyValue",
            "description": "Pods at the same time",
            "type": "integer",
        },
        "privileged": {"specRef": "securityContext.privileged", "type": "boolean"},
    },
}
VOLUME_GROUP = {
    "name": "acmeVolumes",
    "fields": {
        "configMapVolumes": {"formatter": "podSpecVolumes", "type": "object"},
    },
}
CONTAINERS = """\
(
  .spec.template.spec.containers[]?,
  .spec.template.spec.initContainers[]?
)
| select(.)"""
MAPPING = {
    "workloadType": ACME,
    "description": "The AcmeJob",
    "specSelectors": {
        "acmeJobSpec": {
            "description": "the job",
            "query": ".spec",
            "fieldGroups": ["acmeJobSpec"],
            "dependency": {"path": "spec"},
        },
        "acmePodSpec": {
            "description": "the pod spec",
            "query": ".spec.template.spec",
            "fieldGroups": ["podSpec", "podSpecAndContainer", "acmeVolumes"],
            "dependency": {"specSelector": "acmeJobSpec", "path": "template.spec"},
        },
        "allContainers": {
            "description": "all app and init containers",
            "query": CONTAINERS,
            "fieldGroups": ["podSpecContainer", "podSpecAndContainer"],
        },
    },
}
POLICY = {
    "workloadType": ACME,
    "scope": "tenant",
    "description": "What every AcmeJob must keep to",
    "rules": [
        {
            "field": "parallelism",
            "specSelector": "acmeJobSpec",
            "enforcements": [{"default": 1}, {"max": 8}],
        },
        {"field": "image", "specSelector": "allContainers", "enforcements": [{"required": True}]},
        {
            "field": "configMapVolumes",
            "specSelector": "acmePodSpec",
            "enforcements": [{"default": {"value": {"name": "ca", "configMapName": "ca-bundle"}}}],
        },
    ],
}


def make_job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "ghcr.io/example/job:1"}]}}
    return {
        "apiVersion": "acme.io/v1",
        "kind": "AcmeJob",
        "metadata": {"name": "sort", "namespace": "team-a"},
        "spec": {"template": template, **spec},
    }
