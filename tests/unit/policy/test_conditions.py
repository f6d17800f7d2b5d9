"""Each condition between fields of a native workload: what keeps it and what breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.catalog import native_rows
from webhook.model.kinds import NATIVE_KINDS
from webhook.model.pointer import lookup, to_pointer
from webhook.policy.native.conditions import AGREEMENTS, CONDITIONS, Agreement, Condition
from webhook.policy.native.schema import SchemaProblem, judge_native

JsonObject = dict[str, Any]


def compute(**fields: Any) -> JsonObject:
    return {"compute": fields}


def autoscaling(**fields: Any) -> JsonObject:
    return {"autoscaling": fields}


def serving_port(**fields: Any) -> JsonObject:
    return {"servingPort": {"container": 8000, **fields}}


def url(**fields: Any) -> JsonObject:
    return {"exposedUrls": [{"name": "ui", "container": 8888, **fields}]}


def variable(**fields: Any) -> JsonObject:
    return {"environmentVariables": [{"name": "HOME", **fields}]}


def claim(**fields: Any) -> JsonObject:
    return {"storage": {"pvc": [{"name": "home", "path": "/home", **fields}]}}


def toleration(**fields: Any) -> JsonObject:
    return {"tolerations": [{"name": "gpu", **fields}]}


def host_paths(*propagations: str | None) -> JsonObject:
    items = [
        {"name": f"path-{index}", "path": "/data", "mountPropagation": propagation}
        for index, propagation in enumerate(propagations)
    ]
    return {"storage": {"hostPath": items}}


def without(item: JsonObject, attribute: str) -> JsonObject:
    """*item* without the attribute of that dotted name."""
    name, dot, rest = attribute.partition(".")
    if not dot:
        return {key: value for key, value in item.items() if key != name}
    return {**item, name: without(item[name], rest)}


# name, itemized field, an item that keeps it, the attribute that no such item can lack
NEEDED: list[tuple[str, str, JsonObject, str]] = [
    (
        "environmentVariables-name-needed",
        "environmentVariables",
        {"name": "A", "value": ""},
        "name",
    ),
    ("annotations-name-needed", "annotations", {"name": "a", "value": "b"}, "name"),
    ("labels-name-needed", "labels", {"name": "a", "value": "b"}, "name"),
    (
        "imagePullSecrets-name-needed",
        "imagePullSecrets",
        {"name": "a", "userCredential": True},
        "name",
    ),
    ("exposedUrls-container-needed", "exposedUrls", {"name": "ui", "container": 80}, "container"),
    ("relatedUrls-url-needed", "relatedUrls", {"url": "https://a.example.com", "type": "t"}, "url"),
    ("ports-container-needed", "ports", {"name": "web", "container": 80}, "container"),
    (
        "extendedResources-resource-needed",
        "compute.extendedResources",
        {"resource": "a/b", "quantity": 1},
        "resource",
    ),
    (
        "extendedResources-quantity-needed",
        "compute.extendedResources",
        {"resource": "a/b", "quantity": 1},
        "quantity",
    ),
    ("dataVolume-id-needed", "storage.dataVolume", {"id": "a", "mountPath": "/a"}, "id"),
    ("hostPath-path-needed", "storage.hostPath", {"path": "/a", "mountPath": "/b"}, "path"),
    ("git-repository-needed", "storage.git", {"repository": "r", "branch": "b"}, "repository"),
    ("nfs-server-needed", "storage.nfs", {"server": "s", "path": "/a"}, "server"),
    ("nfs-path-needed", "storage.nfs", {"server": "s", "path": "/a"}, "path"),
    ("s3-bucket-needed", "storage.s3", {"bucket": "b", "path": "/a"}, "bucket"),
    (
        "configMapVolume-configMap-needed",
        "storage.configMapVolume",
        {"configMap": "c", "mountPath": "/c"},
        "configMap",
    ),
    ("secretVolume-secret-needed", "storage.secretVolume", {"secret": "s", "name": "s"}, "secret"),
    *[
        (
            f"variable-{source}-{key}",
            "environmentVariables",
            {"name": "A", source: {"name": "n", "key": "k"}},
            f"{source}.{key}",
        )
        for source in ("secret", "configMap", "userCredential")
        for key in ("name", "key")
    ],
]


def of_item(field: str, item: JsonObject) -> JsonObject:
    """A spec with one item of the itemized *field*."""
    spec: Any = [item]
    for part in reversed(field.split(".")):
        spec = {part: spec}
    assert isinstance(spec, dict)
    return spec


# name, workload type, a spec that keeps it, one that breaks it, where that is reported
CASES: list[tuple[str, str, JsonObject, JsonObject, str]] = [
    (
        "gpu-type",
        "training",
        compute(gpuDevicesRequest=1, gpuRequestType="portion", gpuPortionRequest=0.5),
        compute(gpuDevicesRequest=2, gpuRequestType="portion", gpuPortionRequest=0.5),
        "/spec/compute/gpuRequestType",
    ),
    (
        "gpu-portion",
        "workspace",
        compute(gpuRequestType="portion", gpuPortionRequest="0.5"),
        compute(gpuRequestType="portion"),
        "/spec/compute/gpuPortionRequest",
    ),
    (
        "gpu-memory",
        "inference",
        compute(gpuRequestType="memory", gpuMemoryRequest="8Gi"),
        compute(gpuRequestType="memory"),
        "/spec/compute/gpuMemoryRequest",
    ),
    (
        "gpu-portion-type",
        "training",
        compute(gpuRequestType="memory", gpuMemoryRequest="8Gi"),
        compute(gpuRequestType="memory", gpuMemoryRequest="8Gi", gpuPortionRequest=0.5),
        "/spec/compute/gpuPortionRequest",
    ),
    (
        "gpu-memory-type",
        "nimService",
        compute(gpuRequestType="portion", gpuPortionRequest=0.5),
        compute(gpuRequestType="portion", gpuPortionRequest=0.5, gpuMemoryRequest="8Gi"),
        "/spec/compute/gpuMemoryRequest",
    ),
    (
        "gpu-portion-and-memory",
        "training",
        compute(gpuMemoryRequest="8Gi"),
        compute(gpuPortionRequest=0.5, gpuMemoryRequest="8Gi"),
        "/spec/compute/gpuMemoryRequest",
    ),
    (
        "gpu-portion-range",
        "training",
        compute(gpuDevicesRequest=1, gpuPortionRequest=1),
        compute(gpuDevicesRequest=1, gpuPortionRequest="1.001"),
        "/spec/compute/gpuPortionRequest",
    ),
    (
        "cpu-core-limit",
        "training",
        compute(cpuCoreRequest="1000m", cpuCoreLimit=1),
        compute(cpuCoreRequest=1, cpuCoreLimit="999m"),
        "/spec/compute/cpuCoreLimit",
    ),
    (
        "cpu-memory-limit",
        "workspace",
        compute(cpuMemoryRequest="1024Mi", cpuMemoryLimit="1Gi"),
        compute(cpuMemoryRequest="1Gi", cpuMemoryLimit="1G"),
        "/spec/compute/cpuMemoryLimit",
    ),
    (
        "gpu-portion-limit",
        "inference",
        compute(gpuPortionRequest=0.5, gpuPortionLimit=0.5),
        compute(gpuPortionRequest=0.5, gpuPortionLimit=0.4),
        "/spec/compute/gpuPortionLimit",
    ),
    (
        "gpu-memory-limit",
        "training",
        compute(gpuMemoryRequest="8Gi", gpuMemoryLimit="16Gi"),
        compute(gpuMemoryRequest="8Gi", gpuMemoryLimit="4Gi"),
        "/spec/compute/gpuMemoryLimit",
    ),
    (
        "positive-cpuMemoryRequest",
        "training",
        compute(cpuMemoryRequest=1),
        compute(cpuMemoryRequest="0Gi"),
        "/spec/compute/cpuMemoryRequest",
    ),
    (
        "positive-cpuMemoryLimit",
        "training",
        compute(cpuMemoryLimit="1Gi"),
        compute(cpuMemoryLimit=0),
        "/spec/compute/cpuMemoryLimit",
    ),
    (
        "positive-gpuMemoryRequest",
        "training",
        compute(gpuMemoryRequest="1Gi"),
        compute(gpuMemoryRequest="-1Gi"),
        "/spec/compute/gpuMemoryRequest",
    ),
    (
        "positive-gpuMemoryLimit",
        "training",
        compute(gpuMemoryLimit="1Gi"),
        compute(gpuMemoryLimit="0"),
        "/spec/compute/gpuMemoryLimit",
    ),
    ("tty", "training", {"tty": True, "stdin": True}, {"tty": True}, "/spec/tty"),
    (
        "elastic-range",
        "distributed",
        {"minReplicas": 2, "maxReplicas": 2},
        {"minReplicas": 2, "maxReplicas": 1},
        "/spec/maxReplicas",
    ),
    (
        "mpi-sshAuthMountPath",
        "distributed",
        {"distributedFramework": "MPI", "sshAuthMountPath": "/root/.ssh"},
        {"distributedFramework": "PyTorch", "sshAuthMountPath": "/root/.ssh"},
        "/spec/sshAuthMountPath",
    ),
    (
        "mpi-mpiLauncherCreationPolicy",
        "distributed",
        {"distributedFramework": "MPI", "mpiLauncherCreationPolicy": "AtStartup"},
        {"distributedFramework": "JAX", "mpiLauncherCreationPolicy": "AtStartup"},
        "/spec/mpiLauncherCreationPolicy",
    ),
    (
        "mpi-slotsPerWorker",
        "distributed",
        {"distributedFramework": "MPI", "slotsPerWorker": 8},
        {"distributedFramework": "TF", "slotsPerWorker": 8},
        "/spec/slotsPerWorker",
    ),
    (
        "pytorch-minReplicas",
        "distributed",
        {"distributedFramework": "PyTorch", "minReplicas": 1},
        {"distributedFramework": "MPI", "minReplicas": 1},
        "/spec/minReplicas",
    ),
    (
        "pytorch-maxReplicas",
        "distributed",
        {"distributedFramework": "PyTorch", "maxReplicas": 4},
        {"distributedFramework": "XGBoost", "maxReplicas": 4},
        "/spec/maxReplicas",
    ),
    (
        "autoscaling-range",
        "nimService",
        autoscaling(minReplicas=2, maxReplicas=2),
        autoscaling(minReplicas=2, maxReplicas=1),
        "/spec/autoscaling/maxReplicas",
    ),
    (
        "metric",
        "inference",
        autoscaling(minReplicas=0, maxReplicas=1),
        autoscaling(minReplicas=0, maxReplicas=2),
        "/spec/autoscaling/metric",
    ),
    (
        "metric-threshold",
        "inference",
        autoscaling(metric="latency", metricThreshold=100),
        autoscaling(metric="latency"),
        "/spec/autoscaling/metricThreshold",
    ),
    (
        "metric-to-zero",
        "inference",
        autoscaling(minReplicas=0, maxReplicas=3, metric="throughput", metricThreshold=5),
        autoscaling(minReplicas=0, maxReplicas=3, metric="latency", metricThreshold=5),
        "/spec/autoscaling/metric",
    ),
    (
        "metric-percentage",
        "inference",
        autoscaling(metric="concurrency", metricThreshold=5, metricThresholdPercentage=70),
        autoscaling(metric="latency", metricThreshold=5, metricThresholdPercentage=70),
        "/spec/autoscaling/metricThresholdPercentage",
    ),
    (
        "retention",
        "inference",
        autoscaling(minReplicas=0, scaleToZeroRetentionSeconds=60),
        autoscaling(minReplicas=1, scaleToZeroRetentionSeconds=60),
        "/spec/autoscaling/scaleToZeroRetentionSeconds",
    ),
    (
        "servingPort-users-or-groups",
        "inference",
        serving_port(authorizedUsers=["ann"], authorizedGroups=[]),
        serving_port(authorizedUsers=["ann"], authorizedGroups=["ops"]),
        "/spec/servingPort/authorizedGroups",
    ),
    (
        "servingPort-users",
        "inference",
        serving_port(authorizationType="authorizedUsers", authorizedUsers=["ann"]),
        serving_port(authorizationType="authorizedUsers"),
        "/spec/servingPort/authorizedUsers",
    ),
    (
        "servingPort-groups",
        "inference",
        serving_port(authorizationType="authorizedGroups", authorizedGroups=["ops"]),
        serving_port(authorizationType="authorizedGroups", authorizedGroups=[]),
        "/spec/servingPort/authorizedGroups",
    ),
    (
        "servingPort-users-ignored",
        "inference",
        serving_port(authorizationType="authorizedUsersOrGroups", authorizedUsers=["ann"]),
        serving_port(authorizationType="public", authorizedUsers=["ann"]),
        "/spec/servingPort/authorizedUsers",
    ),
    (
        "servingPort-groups-ignored",
        "inference",
        serving_port(authorizationType="authorizedUsersOrGroups", authorizedGroups=["ops"]),
        serving_port(authorizationType="authenticatedUsers", authorizedGroups=["ops"]),
        "/spec/servingPort/authorizedGroups",
    ),
    (
        "servingPort-someone",
        "inference",
        serving_port(authorizationType="authorizedUsersOrGroups", authorizedGroups=["ops"]),
        serving_port(authorizationType="authorizedUsersOrGroups"),
        "/spec/servingPort/authorizedUsers",
    ),
    (
        "exposedUrls-users-or-groups",
        "workspace",
        url(authorizedGroups=["ops"]),
        url(authorizedUsers=["ann"], authorizedGroups=["ops"]),
        "/spec/exposedUrls/0/authorizedGroups",
    ),
    (
        "exposedUrls-users",
        "workspace",
        url(authorizationType="authorizedUsers", authorizedUsers=["ann"]),
        url(authorizationType="authorizedUsers"),
        "/spec/exposedUrls/0/authorizedUsers",
    ),
    (
        "exposedUrls-groups",
        "workspace",
        url(authorizationType="authorizedGroups", authorizedGroups=["ops"]),
        url(authorizationType="authorizedGroups"),
        "/spec/exposedUrls/0/authorizedGroups",
    ),
    (
        "exposedUrls-users-ignored",
        "workspace",
        url(authorizationType="authenticatedUsers"),
        url(authorizationType="authenticatedUsers", authorizedUsers=["ann"]),
        "/spec/exposedUrls/0/authorizedUsers",
    ),
    (
        "exposedUrls-groups-ignored",
        "workspace",
        url(authorizationType="authenticatedUsers"),
        url(authorizationType="authenticatedUsers", authorizedGroups=["ops"]),
        "/spec/exposedUrls/0/authorizedGroups",
    ),
    ("leader", "distributedInference", {"leader": {}}, {"workers": 0}, "/spec/leader"),
    (
        "worker",
        "distributedInference",
        {"leader": {}, "workers": 0},
        {"leader": {}, "workers": 1},
        "/spec/worker",
    ),
    (
        "variable-source",
        "training",
        variable(secret={"name": "s", "key": "k"}),
        variable(value="hush", secret={"name": "s", "key": "k"}),
        "/spec/environmentVariables/0/secret",
    ),
    (
        "claim-name",
        "training",
        claim(claimName="home", existingPvc=True),
        claim(existingPvc=True),
        "/spec/storage/pvc/0/claimName",
    ),
    (
        "claim-size",
        "training",
        claim(claimName="home", claimInfo={"size": "10Gi"}),
        claim(claimName="home", existingPvc=False),
        "/spec/storage/pvc/0/claimInfo/size",
    ),
    (
        "model-claim-size",
        "nimService",
        {"modelStore": {"pvc": {"claimName": "models", "claimInfo": {"size": "10Gi"}}}},
        {"modelStore": {"pvc": {"claimName": "models"}}},
        "/spec/modelStore/pvc/claimInfo/size",
    ),
    (
        "toleration-value",
        "training",
        toleration(key="gpu", operator="Equal", value="yes"),
        toleration(key="gpu", operator="Exists", value="yes"),
        "/spec/tolerations/0/value",
    ),
    (
        "toleration-key",
        "training",
        toleration(operator="Exists"),
        toleration(effect="NoSchedule"),
        "/spec/tolerations/0/key",
    ),
    (
        "toleration-seconds",
        "training",
        toleration(key="gpu", effect="NoExecute", seconds=60),
        toleration(key="gpu", effect="NoSchedule", seconds=60),
        "/spec/tolerations/0/seconds",
    ),
    (
        "mount-propagation",
        "training",
        host_paths("HostToContainer", None, "HostToContainer"),
        host_paths("HostToContainer", "None"),
        "/spec/storage/hostPath/1/mountPropagation",
    ),
    (
        "variable-name",
        "training",
        variable(value="x"),
        of_item("environmentVariables", {"name": "A=B", "value": "x"}),
        "/spec/environmentVariables/0/name",
    ),
    (
        "label-key",
        "training",
        of_item("labels", {"name": "example.com/team", "value": "x"}),
        of_item("labels", {"name": "a b", "value": "x"}),
        "/spec/labels/0/name",
    ),
    (
        "label-value",
        "training",
        of_item("labels", {"name": "team", "value": "x.y"}),
        of_item("labels", {"name": "team", "value": "x y"}),
        "/spec/labels/0/value",
    ),
    (
        "annotation-key",
        "training",
        of_item("annotations", {"name": "team", "value": "any text"}),
        of_item("annotations", {"name": "/team", "value": "any text"}),
        "/spec/annotations/0/name",
    ),
    *[
        (
            name,
            "training",
            of_item(field, item),
            of_item(field, without(item, attribute)),
            f"/spec/{f'{field}.0.{attribute}'.replace('.', '/')}",
        )
        for name, field, item, attribute in NEEDED
    ],
]


def judge(workload_type: str, spec: JsonObject, **more: Any) -> list[SchemaProblem]:
    kind = NATIVE_KINDS[workload_type]
    document = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "w", "namespace": "team-a"},
        "spec": spec,
        **more,
    }
    return judge_native(workload_type, document, native_rows())


@pytest.mark.parametrize(
    ("workload_type", "spec"), [pytest.param(case[1], case[2], id=case[0]) for case in CASES]
)
def test_what_keeps_a_condition_is_not_refused(workload_type: str, spec: JsonObject) -> None:
    assert judge(workload_type, spec) == []


@pytest.mark.parametrize(
    ("name", "workload_type", "spec", "pointer"),
    [pytest.param(name, kind, breaks, at, id=name) for name, kind, _, breaks, at in CASES],
)
def test_what_breaks_a_condition_is_one_problem_at_its_field(
    name: str, workload_type: str, spec: JsonObject, pointer: str
) -> None:
    (problem,) = judge(workload_type, spec)

    assert (problem.check, problem.kind) == (name, "schema")
    assert to_pointer(problem.path) == pointer
    assert problem.problem
    assert problem.accepted
    assert problem.is_missing == (lookup({"spec": spec}, problem.path) in (None, []))


def test_every_condition_has_a_case_and_a_reason() -> None:
    conditions: list[Condition | Agreement] = [*CONDITIONS, *AGREEMENTS]

    # The only one that is not about a spec has a test of its own, below.
    assert {case[0] for case in CASES} | {"one-master"} == {item.name for item in conditions}
    assert len({item.name for item in conditions}) == len(conditions)
    assert all(item.reason for item in conditions)


def test_a_master_that_is_like_the_workers_has_no_spec_of_its_own() -> None:
    assert judge("distributed", {}, masterSpec={}, masterSpecSameAsWorker=False) == []

    (problem,) = judge("distributed", {}, masterSpec={}, masterSpecSameAsWorker=True)

    assert (problem.path, problem.check) == (("masterSpec",), "one-master")


@pytest.mark.parametrize(
    ("workload_type", "spec", "checks"),
    [
        pytest.param("training", compute(gpuRequestType="portion"), ["gpu-portion"], id="type"),
        pytest.param(
            "training",
            compute(gpuDevicesRequest=0, gpuRequestType="memory", gpuMemoryRequest="1Gi"),
            ["gpu-type"],
            id="no-device-is-not-one-device",
        ),
        pytest.param(
            "training",
            compute(gpuDevicesRequest="1", gpuRequestType="memory", gpuMemoryRequest="1Gi"),
            [],
            id="numeric-text-is-its-number",
        ),
        pytest.param("training", compute(gpuDevicesRequest=8), [], id="devices-without-a-type"),
        pytest.param("training", compute(gpuPortionRequest=0.25), [], id="portion-without-a-type"),
        pytest.param("training", compute(gpuPortionRequest=2), [], id="portion-counts-devices"),
        pytest.param(
            "training",
            compute(gpuDevicesRequest=2, gpuPortionRequest=2),
            [],
            id="portion-counts-the-same-devices",
        ),
        pytest.param(
            "training", compute(gpuPortionRequest=1.5), ["gpu-portion-range"], id="no-whole-devices"
        ),
        pytest.param(
            "training",
            compute(gpuRequestType="portion", gpuPortionRequest=2),
            ["gpu-portion-range"],
            id="a-stated-portion-is-of-one-device",
        ),
        pytest.param("inference", autoscaling(maxReplicas=2), ["metric"], id="min-is-1-if-absent"),
        pytest.param("inference", autoscaling(minReplicas=3), [], id="max-is-min-if-absent"),
        pytest.param("inference", autoscaling(minReplicas=0), [], id="max-is-1-if-min-is-0"),
        pytest.param("inference", autoscaling(minReplicas=2, maxReplicas=2), [], id="no-scaling"),
        pytest.param(
            "inference",
            autoscaling(scaleToZeroRetentionSeconds=60),
            ["retention"],
            id="no-scaling-to-zero-if-min-is-absent",
        ),
        pytest.param(
            "inference",
            autoscaling(metricThresholdPercentage=70),
            [],
            id="percentage-before-a-metric",
        ),
        pytest.param(
            "nimService",
            autoscaling(minReplicas=1, maxReplicas=4),
            [],
            id="metric-is-mandatory-for-inference-only",
        ),
        pytest.param("distributed", {"slotsPerWorker": 2}, [], id="no-framework-contradicts-none"),
        pytest.param("training", {"tty": True, "stdin": False}, ["tty"], id="stdin-false"),
        pytest.param("training", {"tty": False}, [], id="tty-false-needs-nothing"),
        pytest.param(
            "distributedInference",
            {"leader": {}, "worker": {}, "workers": 0},
            [],
            id="a-worker-that-is-not-needed-may-stand",
        ),
        pytest.param(
            "distributedInference", {"workers": "2"}, ["leader", "worker"], id="no-role-at-all"
        ),
        pytest.param(
            "training",
            variable(
                secret={"name": "s", "key": "k"},
                configMap={"name": "c", "key": "k"},
                podFieldRef={"path": "p"},
            ),
            ["variable-source"],
            id="three-sources-are-one-problem",
        ),
        pytest.param("training", variable(), ["source"], id="no-source"),
        pytest.param("training", variable(secret={}), ["source"], id="a-source-that-says-nothing"),
        pytest.param("training", variable(value=""), [], id="an-empty-text-is-a-source"),
        pytest.param(
            "training", variable(value="", secret={"name": "s", "key": "k"}), [], id="empty-value"
        ),
        pytest.param(
            "training",
            {"labels": [{"name": "n" * 64, "value": "x"}]},
            ["maxLength"],
            id="a-key-that-is-too-long-is-one-problem",
        ),
        pytest.param(
            "training", {"labels": [{"name": "a.b/c", "value": ""}]}, [], id="a-label-without-value"
        ),
        pytest.param(
            "training",
            claim(claimName="", claimInfo={"size": "1Gi"}),
            ["claim-name"],
            id="an-empty-name-is-none",
        ),
        pytest.param(
            "training",
            claim(
                claimName="home",
                existingPvc=True,
                claimInfo={"accessModes": {"readWriteMany": True}},
            ),
            [],
            id="claim-info-beside-an-existing-claim",
        ),
        pytest.param("training", claim(exclude=True), [], id="an-excluded-item-only-names-itself"),
        pytest.param(
            "training", toleration(key="gpu", seconds=60), [], id="seconds-without-an-effect"
        ),
        pytest.param(
            "training", toleration(key="gpu", effect="Any", seconds=60), [], id="any-effect-evicts"
        ),
        pytest.param("training", toleration(exclude=True), [], id="an-excluded-toleration"),
        pytest.param(
            "inference",
            serving_port(authorizedUsers=["ann"]),
            [],
            id="users-before-an-authorization-type",
        ),
    ],
)
def test_absent_fields_count_as_the_reference_says(
    workload_type: str, spec: JsonObject, checks: list[str]
) -> None:
    assert [problem.check for problem in judge(workload_type, spec)] == checks


@pytest.mark.parametrize(
    ("workload_type", "spec", "checks"),
    [
        pytest.param(
            "training",
            compute(gpuRequestType="portion", gpuPortionRequest="half"),
            ["type"],
            id="needed-value",
        ),
        pytest.param(
            "training", compute(cpuCoreRequest="lots", cpuCoreLimit=1), ["type"], id="bound"
        ),
        pytest.param(
            "inference", autoscaling(maxReplicas=2, metric=5), ["type"], id="mandatory-value"
        ),
        pytest.param("training", claim(claimName="home", claimInfo="10Gi"), ["type"], id="section"),
        pytest.param("distributedInference", {"leader": [], "workers": 0}, ["type"], id="role"),
    ],
)
def test_a_value_of_the_wrong_type_is_not_reported_a_second_time(
    workload_type: str, spec: JsonObject, checks: list[str]
) -> None:
    assert [problem.check for problem in judge(workload_type, spec)] == checks


def test_each_role_keeps_its_own_conditions() -> None:
    """A limit of the worker is compared with the worker's request, not with the master's."""
    spec = compute(cpuCoreLimit=1)

    assert judge("distributed", spec, masterSpec=compute(cpuCoreRequest=2)) == []
    problems = judge(
        "distributedInference",
        {"leader": compute(cpuCoreRequest=2, cpuCoreLimit=1), "worker": compute(cpuCoreRequest=2)},
    )

    assert [(item.selector, item.check) for item in problems] == [("leader", "cpu-core-limit")]


def test_the_sentence_says_what_was_found_and_what_is_accepted() -> None:
    (problem,) = judge("training", compute(cpuCoreRequest=2, cpuCoreLimit="500m"))

    assert (problem.field, problem.selector, problem.item) == ("compute.cpuCoreLimit", "spec", "")
    assert problem.problem == "below compute.cpuCoreRequest"
    assert (problem.value, problem.accepted) == ("500m", "≥ 2")


def test_a_condition_on_a_variable_shows_none_of_its_values() -> None:
    (problem,) = judge(
        "training", variable(value="hush", secret={"name": "hidden-too", "key": "k"})
    )

    assert problem.item == "HOME"
    assert "hush" not in repr(problem)
    assert "hidden-too" not in repr(problem)
