"""
The chart holds the CRDs that the program prints, and an API server can take them.

`python -m tests.chart.test_crds` writes the files; look at the diff afterwards.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from webhook.catalog.crds import build_crds
from webhook.model.manifests import dump_yaml, load_file
from webhook.model.rightsizing import specs

CHART = Path(__file__).parents[2] / "charts" / "gatewright"
CRDS = build_crds()
IDS = [crd["metadata"]["name"] for crd in CRDS]
BY_NAME = dict(zip(IDS, CRDS, strict=True))
WORKLOAD_CRDS = [name for name in IDS if name.endswith(".workload.gatewright.io")]
RIGHTSIZING_CRDS = [name for name in IDS if name.endswith(".rightsizing.kubex.ai")]
RECOMMENDATIONS = "gpurecommendations.policy.gatewright.io"
# What people write in our own language, and misspell.
WRITTEN_CRDS = [name for name in IDS if name not in (*RIGHTSIZING_CRDS, RECOMMENDATIONS)]
# The second holds kinds of others, which may be there already. Not in `crds`, the directory that
# Helm knows: what is there is installed once and never upgraded.
DIRECTORIES = ("files/crds", "files/rightsizing-crds")

TYPES = {"object", "array", "string", "boolean", "integer", "number"}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

# What `apiextensions.k8s.io/v1` knows of JSON schema and we have a use for. `$ref`,
# `definitions`, `patternProperties` and the like are refused there.
KEYWORDS = {
    "type",
    "description",
    "properties",
    "items",
    "required",
    "additionalProperties",
    "enum",
    "nullable",
    "format",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    PRESERVE,
    INT_OR_STRING,
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
}


def file_of(crd: dict[str, Any]) -> Path:
    name = crd["metadata"]["name"]
    return CHART / DIRECTORIES[name in RIGHTSIZING_CRDS] / f"{name}.yaml"


def schema_of(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = crd["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def nodes_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in *schema*, itself first, with the path of what it describes."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes_of(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from nodes_of(schema[keyword], f"{path}[]")


@pytest.mark.slow
@pytest.mark.parametrize("crd", CRDS, ids=IDS)
def test_the_chart_has_the_crd_as_the_program_prints_it(crd: dict[str, Any]) -> None:
    assert file_of(crd).read_text() == dump_yaml([crd]), "run python -m tests.chart.test_crds"


def test_the_chart_has_no_other_crd() -> None:
    found = {path for directory in DIRECTORIES for path in (CHART / directory).iterdir()}

    assert found == {file_of(crd) for crd in CRDS}


def test_the_kinds_of_others_can_be_left_out() -> None:
    left_out = [crd["metadata"]["name"] for crd in build_crds(rightsizing=False)]

    assert left_out == [name for name in IDS if name not in RIGHTSIZING_CRDS]
    assert len(RIGHTSIZING_CRDS) == 6


@pytest.mark.parametrize("crd", CRDS, ids=IDS)
def test_names_of_a_crd_fit_together(crd: dict[str, Any]) -> None:
    spec = crd["spec"]
    names = spec["names"]

    assert crd["metadata"]["name"] == f"{names['plural']}.{spec['group']}"
    assert names["singular"] == names["kind"].lower()
    assert names["listKind"] == f"{names['kind']}List"
    assert spec["scope"] in ("Namespaced", "Cluster")
    short = [names["plural"], names["singular"], *names.get("shortNames", [])]
    assert all(re.fullmatch(r"[a-z][a-z0-9]*", name) for name in short)


def test_no_two_crds_of_a_group_share_a_name() -> None:
    taken = [
        (crd["spec"]["group"], name)
        for crd in CRDS
        for name in (
            crd["spec"]["names"]["plural"],
            crd["spec"]["names"]["singular"],
            *crd["spec"]["names"].get("shortNames", []),
        )
    ]

    assert len(taken) == len(set(taken))


@pytest.mark.parametrize("crd", CRDS, ids=IDS)
def test_one_version_is_served_and_stored(crd: dict[str, Any]) -> None:
    stored = [version["name"] for version in crd["spec"]["versions"] if version["storage"]]
    served = [version["name"] for version in crd["spec"]["versions"] if version["served"]]

    assert stored == served == ["v1alpha1"]


@pytest.mark.parametrize("crd", CRDS, ids=IDS)
def test_every_schema_is_structural(crd: dict[str, Any]) -> None:
    """
    The rules of "structural schema" in the Kubernetes documentation of CRDs: each node has a
    type, unless it keeps unknown fields or is an integer or text; an object has properties or
    additionalProperties, not both; no keyword that CRDs don't know.
    """
    wrong = []
    for path, node in nodes_of(schema_of(crd)):
        free = node.get(PRESERVE) is True or node.get(INT_OR_STRING) is True
        if "type" not in node and not free:
            wrong.append(f"{path}: no type")
        if "type" in node and node["type"] not in TYPES:
            wrong.append(f"{path}: type {node['type']}")
        if "properties" in node and "additionalProperties" in node:
            wrong.append(f"{path}: properties and additionalProperties")
        if "properties" in node and node.get("type") != "object":
            wrong.append(f"{path}: properties without type object")
        if node.get("type") == "array" and "items" not in node:
            wrong.append(f"{path}: an array without items")
        wrong += [f"{path}: keyword {keyword}" for keyword in set(node) - KEYWORDS]

    assert wrong == []


@pytest.mark.parametrize("crd", CRDS, ids=IDS)
def test_the_root_of_a_schema_is_an_object_whose_metadata_is_left_to_kubernetes(
    crd: dict[str, Any],
) -> None:
    schema = schema_of(crd)

    assert schema["type"] == "object"
    assert schema["properties"]["apiVersion"] == {"type": "string"}
    assert schema["properties"]["kind"] == {"type": "string"}
    assert schema["properties"]["metadata"] == {"type": "object"}


@pytest.mark.parametrize("crd", WRITTEN_CRDS, ids=str)
def test_misspelt_fields_reach_us_and_are_not_pruned(crd: str) -> None:
    envelope = ("apiVersion", "kind", "metadata", "status")
    parts = {
        name: schema
        for name, schema in schema_of(BY_NAME[crd])["properties"].items()
        if name not in envelope
    }

    pruned = [
        path
        for name, schema in parts.items()
        for path, node in nodes_of(schema, f".{name}")
        if node.get("type", "object") == "object"
        and not node.get(PRESERVE)
        # A map: any name is one of its own.
        and "additionalProperties" not in node
    ]
    assert "spec" in parts
    assert pruned == []


@pytest.mark.parametrize("crd", WORKLOAD_CRDS, ids=str)
def test_null_is_let_through_where_a_field_has_a_type(crd: str) -> None:
    """To a policy it is absent; the API server would refuse it after the policy was applied."""
    schema = schema_of(BY_NAME[crd])

    refused = [
        path
        for name, part in schema["properties"].items()
        if name not in ("apiVersion", "kind", "metadata", "status")
        for path, node in nodes_of(part, f".{name}")
        if "type" in node and not node.get("nullable")
    ]
    assert refused == []


@pytest.mark.parametrize("crd", WORKLOAD_CRDS, ids=str)
def test_only_text_and_booleans_have_a_type(crd: str) -> None:
    """`0.5`, `"0.5"` and `500m` are all numbers; a structural type takes one spelling."""
    kinds = {
        node["type"]
        for path, node in nodes_of(schema_of(BY_NAME[crd]))
        if "type" in node and path.startswith((".spec.", ".masterSpec."))
    }

    assert kinds <= {"object", "string", "boolean"}


def test_a_distributed_training_describes_its_master_beside_its_spec() -> None:
    properties = schema_of(BY_NAME["distributedtrainings.workload.gatewright.io"])["properties"]

    assert "numWorkers" in properties["spec"]["properties"]
    assert "numWorkers" not in properties["masterSpec"]["properties"]
    assert "image" in properties["masterSpec"]["properties"]
    assert properties["masterSpecSameAsWorker"]["type"] == "boolean"


def test_a_distributed_inference_describes_its_roles_in_its_spec() -> None:
    properties = schema_of(BY_NAME["distributedinferences.workload.gatewright.io"])["properties"]
    spec = properties["spec"]["properties"]

    assert "image" not in spec
    assert "image" in spec["leader"]["properties"]
    assert "image" in spec["worker"]["properties"]


@pytest.mark.parametrize("crd", WORKLOAD_CRDS, ids=str)
def test_columns_show_fields_that_the_type_has(crd: str) -> None:
    (version,) = BY_NAME[crd]["spec"]["versions"]
    known = {path for path, _ in nodes_of(schema_of(BY_NAME[crd]))}
    shown = [column["jsonPath"] for column in version["additionalPrinterColumns"]]

    assert [path for path in shown if not path.startswith(".metadata.") and path not in known] == []


@pytest.mark.parametrize("crd", CRDS, ids=IDS)
def test_columns_have_simple_paths(crd: dict[str, Any]) -> None:
    (version,) = crd["spec"]["versions"]
    columns = version["additionalPrinterColumns"]

    assert len({column["name"] for column in columns}) == len(columns)
    assert all(re.match(r"\.(metadata|spec|status)[.[]", column["jsonPath"]) for column in columns)
    assert {column["type"] for column in columns} <= {"string", "integer", "boolean", "date"}


@pytest.mark.parametrize("crd", [*RIGHTSIZING_CRDS, RECOMMENDATIONS], ids=str)
def test_every_field_of_these_kinds_is_described(crd: str) -> None:
    """`kubectl explain` is where people look first."""
    bare = [
        path
        for path, node in nodes_of(schema_of(BY_NAME[crd]))
        if not node.get("description") and path not in ("", ".apiVersion", ".kind", ".metadata")
    ]

    assert bare == []


@pytest.mark.parametrize("crd", [*RIGHTSIZING_CRDS, RECOMMENDATIONS], ids=str)
def test_columns_of_these_kinds_show_fields_that_they_have(crd: str) -> None:
    (version,) = BY_NAME[crd]["spec"]["versions"]
    known = {path for path, _ in nodes_of(schema_of(BY_NAME[crd]))}
    # A map has any key; conditions are picked by their type.
    shown = [
        path.removesuffix(".status")
        for path in [column["jsonPath"] for column in version["additionalPrinterColumns"]]
        if not path.startswith((".metadata.", ".status.summary.", ".status.conditions["))
    ]

    assert [path for path in shown if path not in known] == []


def at(crd: str, path: str) -> dict[str, Any]:
    """The schema of one field of a spec."""
    node = schema_of(BY_NAME[crd])["properties"]["spec"]
    for part in filter(None, path.split(".")):
        node = node["properties"][part]
    return dict(node)


@pytest.mark.parametrize(
    ("kind", "reader"),
    [
        pytest.param("gpureactivepolicies", specs.ReactivePolicySpec, id="policy"),
        pytest.param("clustergpureactivepolicies", specs.ClusterReactivePolicySpec, id="cluster"),
        pytest.param("automationstrategies", specs.StrategySpec, id="strategy"),
        pytest.param("clusterautomationstrategies", specs.StrategySpec, id="cluster-strategy"),
        pytest.param("globalconfigurations", specs.GlobalConfigurationSpec, id="settings"),
        pytest.param("policyevaluations", specs.PolicyEvaluationSpec, id="precedence"),
    ],
)
def test_the_program_reads_the_fields_that_the_schema_has(
    kind: str, reader: type[BaseModel]
) -> None:
    """What one knows and the other doesn't would be pruned, or refused in a file."""
    schema = at(f"{kind}.rightsizing.kubex.ai", "")

    assert unlike(schema, reader) == []


# Kept as it is: the program doesn't look into it.
UNREAD = ("spec.webhookProbe",)


def unlike(schema: dict[str, Any], reader: type[BaseModel], path: str = "spec") -> list[str]:
    """Fields of *path* and below that only one of the two has, or needs."""
    read = {info.alias or name: info for name, info in reader.model_fields.items()}
    has = schema.get("properties", {})
    found = [f"{path}.{name}" for name in set(read) ^ set(has)]
    needed = {name for name, info in read.items() if info.is_required()}
    found += [f"{path}.{name} is needed" for name in needed ^ set(schema.get("required", ()))]
    for name, info in read.items():
        child = has.get(name, {})
        child = child.get("items") or child.get("additionalProperties") or child
        inner = model_in(info.annotation)
        if inner is not None:
            found += unlike(child, inner, f"{path}.{name}")
        elif child.get("properties") and f"{path}.{name}" not in UNREAD:
            found.append(f"{path}.{name} is an object")
    return found


def model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = [model_in(argument) for argument in getattr(annotation, "__args__", ())]
    return next((model for model in inner if model is not None), None)


def test_the_chart_names_this_version() -> None:
    (manifest,) = load_file(CHART / "Chart.yaml")
    pyproject = (CHART.parents[1] / "pyproject.toml").read_text()
    found = re.search(r'^version = "(\d+\.\d+\.\d+)"$', pyproject, re.MULTILINE)

    assert manifest.value["apiVersion"] == "v2"
    assert manifest.value["name"] == CHART.name
    assert found is not None
    assert manifest.value["version"] == manifest.value["appVersion"] == found[1]


def test_the_readme_lists_every_crd() -> None:
    text = (CHART / "README.md").read_text()

    assert [name for name in IDS if f"`{name}`" not in text] == []


if __name__ == "__main__":
    for old in [path for name in DIRECTORIES for path in (CHART / name).glob("*.yaml")]:
        old.unlink()
    for each in CRDS:
        file_of(each).write_text(dump_yaml([each]))
        sys.stdout.write(f"{file_of(each).name}\n")
