"""Every name that the policy reference spells otherwise than the workload API: read, and told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import make_snapshot, make_workload_policy
from tests.unit.catalog.policies import tree
from webhook.model.kinds import NATIVE_KINDS


def item(field: str, **attributes: Any) -> dict[str, Any]:
    """A default item of the itemized *field*."""
    return tree(field, {"instances": [{"name": "a", **attributes}]})


def attribute(path: str, name: str) -> dict[str, Any]:
    """A rule on one attribute of the itemized field *path*."""
    return tree(path, {"attributes": tree(name, {"required": True})})


def rule(path: str) -> dict[str, Any]:
    return tree(path, {"required": True})


ROWS = [
    # section, what is written, the path of the warning, what it is read as, workload type
    ("rules", rule("compute.gpuDeviceRequest"), "compute.gpuDeviceRequest", "compute.gpuDevicesRequest", "training"),
    ("defaults", tree("compute.gpuDeviceRequest", 1), "compute.gpuDeviceRequest", "compute.gpuDevicesRequest", "training"),
    ("rules", rule("terminateAfterPreemtpion"), "terminateAfterPreemtpion", "terminateAfterPreemption", "workspace"),
    ("rules", rule("security.runasGid"), "security.runasGid", "security.runAsGid", "training"),
    ("rules", rule("PodAffinitySchedulingRule"), "PodAffinitySchedulingRule", "podAffinity.type", "training"),
    ("rules", rule("podAffinityTopology"), "podAffinityTopology", "podAffinity.key", "training"),
    ("rules", tree("storage.configMapVolumes", {"instances": {"canAdd": False}}), "storage.configMapVolumes", "storage.configMapVolume", "training"),
    ("rules", tree("storage.emptyDir", {"instances": {"canAdd": False}}), "storage.emptyDir", "storage.emptyDirVolume", "training"),
    ("rules", tree("exposeUrls", {"instances": {"canAdd": False}}), "exposeUrls", "exposedUrls", "training"),
    ("rules", rule("servingPort.port"), "servingPort.port", "servingPort.container", "inference"),
    ("rules", rule("servingPort.container"), "servingPort.container", "servingPort.port", "nimService"),
    # Attributes.
    ("rules", attribute("storage.nfs", "nfsServer"), "storage.nfs.attributes.nfsServer", "server", "training"),
    ("defaults", item("storage.nfs", nfsServer="s", path="/p", mountPath="/m"), "storage.nfs.instances[0].nfsServer", "server", "training"),
    ("defaults", item("storage.hostPath", readonly=True, path="/p", mountPath="/m"), "storage.hostPath.instances[0].readonly", "readOnly", "training"),
    ("rules", attribute("storage.pvc", "readonly"), "storage.pvc.attributes.readonly", "readOnly", "training"),
    ("rules", attribute("storage.pvc", "ReadwriteOnce"), "storage.pvc.attributes.ReadwriteOnce", "claimInfo.accessModes.readWriteOnce", "training"),
    ("rules", attribute("storage.pvc", "readOnlyMany"), "storage.pvc.attributes.readOnlyMany", "claimInfo.accessModes.readOnlyMany", "training"),
    ("rules", attribute("storage.pvc", "readWriteMany"), "storage.pvc.attributes.readWriteMany", "claimInfo.accessModes.readWriteMany", "training"),
    ("rules", attribute("storage.pvc", "size"), "storage.pvc.attributes.size", "claimInfo.size", "training"),
    ("rules", attribute("storage.pvc", "storageClass"), "storage.pvc.attributes.storageClass", "claimInfo.storageClass", "training"),
    ("defaults", item("storage.pvc", claimName="c", path="/p", size="1Gi"), "storage.pvc.instances[0].size", "claimInfo.size", "training"),
    ("rules", attribute("storage.s3", "Bucket"), "storage.s3.attributes.Bucket", "bucket", "training"),
    ("rules", attribute("storage.git", "Repository"), "storage.git.attributes.Repository", "repository", "training"),
    ("defaults", item("storage.git", secretName="s", repository="r", path="/p"), "storage.git.instances[0].secretName", "passwordSecret", "training"),
    ("defaults", item("storage.git", passwordSecret="s", username="k", repository="r", path="/p"), "storage.git.instances[0].username", "secretKeyOfUser", "training"),
    ("rules", attribute("storage.git", "secretName"), "storage.git.attributes.secretName", "passwordSecret", "training"),
    ("rules", attribute("storage.git", "username"), "storage.git.attributes.username", "secretKeyOfUser", "training"),
    ("rules", attribute("imagePullSecrets", "userCredentials"), "imagePullSecrets.attributes.userCredentials", "userCredential", "training"),
    # Key words.
    ("rules", tree("compute.cpuCoreRequest", {"min": 1, "max": 7, "Step": 2}), "compute.cpuCoreRequest.Step", "step", "training"),
    ("rules", tree("storage.hostPath", {"Instances": {"canAdd": False}}), "storage.hostPath.Instances", "instances", "training"),
    ("rules", tree("storage.hostPath", {"instances": {"Locked": ["a"]}}), "storage.hostPath.instances.Locked", "locked", "training"),
    ("rules", tree("storage.hostPath", {"Attributes": {"path": {"required": True}}}), "storage.hostPath.Attributes", "attributes", "training"),
    ("rules", tree("IMAGE", {"required": True}), "IMAGE", "image", "training"),
    ("rules", tree("Compute", {"cpuCoreLimit": {"required": True}}), "Compute", "compute", "training"),
    ("rules", {"Worker": rule("image")}, "Worker", "worker", "distributed"),
    ("rules", tree("compute.gpuPortionRequest", {"defaultFrom": {"field": "gpuDeviceRequest"}}), "compute.gpuPortionRequest.defaultFrom.field", "compute.gpuDevicesRequest", "training"),
    ("rules", tree("compute.cpuCoreRequest", {"defaultFrom": {"field": "compute.cpucorelimit"}}), "compute.cpuCoreRequest.defaultFrom.field", "compute.cpuCoreLimit", "training"),
    # Values.
    ("defaults", tree("security.uidGidSource", "idpToken"), "security.uidGidSource", "fromIdpToken", "training"),
    ("rules", tree("security.uidGidSource", {"options": ["idpToken", "custom"]}), "security.uidGidSource.options[0]", "fromIdpToken", "training"),
    ("rules", tree("security.uidGidSource", {"options": [{"value": "idpToken"}]}), "security.uidGidSource.options[0]", "fromIdpToken", "training"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("section", "content", "path", "name", "workload_type"),
    [pytest.param(*row, id=f"{row[0]}-{row[2]}-{row[4]}") for row in ROWS],
)
def test_a_spelling_is_accepted_with_one_warning(
    section: str, content: dict[str, Any], path: str, name: str, workload_type: str
) -> None:
    spec: dict[str, Any] = {section: content}
    policy = make_workload_policy(workload_type=workload_type, **spec)

    snapshot = make_snapshot(policy)

    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []
    (problem,) = [problem for problem in snapshot.problems if " is read as " in problem.problem]
    assert problem.path == f"spec.{section}.{path}"
    assert problem.problem.endswith(f" is read as {name}")
    kind = NATIVE_KINDS[workload_type]
    assert [p for p in snapshot.policies.policies_of(kind) if not p.document.builtin] != []


def test_a_list_of_kinds_is_told_of_a_spelling_once() -> None:
    policy = make_workload_policy(
        workload_type=["training", "workspace"], rules=rule("security.runasGid")
    )

    (problem,) = make_snapshot(policy).problems

    assert problem.problem == "runasGid is read as security.runAsGid"


@pytest.mark.parametrize(
    ("section", "content", "path", "problem"),
    [
        pytest.param(
            "defaults",
            item("storage.nfs", server="a", nfsServer="b", path="/p", mountPath="/m"),
            "storage.nfs.instances[0].nfsServer",
            "the same attribute stands at spec.defaults.storage.nfs.instances[0].server",
            id="item",
        ),
        pytest.param(
            "defaults",
            item("storage.pvc", size="1Gi", claimInfo={"size": "2Gi"}),
            "storage.pvc.instances[0].claimInfo.size",
            "the same attribute stands at spec.defaults.storage.pvc.instances[0].size",
            id="attribute-of-a-section",
        ),
        pytest.param(
            "defaults",
            item("storage.pvc", claimInfo={"size": "1Gi"}, ClaimInfo={"storageClass": "a"}),
            "storage.pvc.instances[0].ClaimInfo",
            "the same attribute stands at spec.defaults.storage.pvc.instances[0].claimInfo",
            id="section",
        ),
        pytest.param(
            "defaults",
            tree("storage.s3", {"attributes": {"bucket": "a", "Bucket": "b"}}),
            "storage.s3.attributes.Bucket",
            "the same attribute stands at spec.defaults.storage.s3.attributes.bucket",
            id="default-of-all-items",
        ),
        pytest.param(
            "defaults",
            tree("storage.s3", {"attributes": [{"bucket": "a"}, {"Bucket": "b"}]}),
            "storage.s3.attributes.Bucket",
            "the same attribute stands at spec.defaults.storage.s3.attributes.bucket",
            id="list-of-maps",
        ),
        pytest.param(
            "defaults",
            tree("storage.s3", {"attributes": [{"bucket": "a"}, {"bucket": "b"}]}),
            "storage.s3.attributes",
            "attribute 'bucket' is there twice",
            id="list-of-maps-in-one-spelling",
        ),
        pytest.param(
            "rules",
            tree("storage.s3", {"attributes": {"url": {"required": True}}, "Attributes": {}}),
            "storage.s3.Attributes",
            "the same section stands at spec.rules.storage.s3.attributes",
            id="attributes-twice",
        ),
        pytest.param(
            "rules",
            tree("image", {"required": True, "Required": True}),
            "image.Required",
            "the same rule stands at required",
            id="rule",
        ),
        pytest.param(
            "rules",
            {"image": {"required": True}, "Image": {"options": ["a"]}},
            "Image",
            "the same field stands at spec.rules.image",
            id="field",
        ),
    ],
)
def test_two_spellings_of_one_name_are_an_error(
    section: str, content: dict[str, Any], path: str, problem: str
) -> None:
    spec: dict[str, Any] = {section: content}

    snapshot = make_snapshot(make_workload_policy(**spec))

    told = [(p.path, p.problem) for p in snapshot.problems if not p.warning]
    assert told == [(f"spec.{section}.{path}", problem)]


def test_a_type_of_gpu_request_that_is_gone_is_refused_with_those_there_are() -> None:
    policy = make_workload_policy(defaults={"compute": {"gpuRequestType": "migProfile"}})

    (problem,) = make_snapshot(policy).problems

    assert not problem.warning
    assert "portion" in problem.problem
    assert "memory" in problem.problem
