"""What an update may keep, and what it can't slip in."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POD,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.store.snapshot import Snapshot

JsonObject = dict[str, Any]


def policy_for(*rules: JsonObject, kind: JsonObject = DEPLOYMENT) -> Snapshot:
    snapshot = make_snapshot(make_gvk_policy(*rules, kind=kind))
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []
    return snapshot


def deployment(*containers: JsonObject, **pod: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"template": {"spec": {"containers": list(containers), **pod}}},
    }


GOOD = {"name": "a", "image": "nvcr.io/x"}
BAD = {"name": "b", "image": "example.org/y"}
FIRST = "/spec/template/spec/containers/0/image"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param([GOOD, BAD], [BAD, GOOD], id="another-comes-first"),
        pytest.param([GOOD, BAD], [BAD], id="the-first-is-dropped"),
    ],
)
def test_a_container_that_becomes_the_main_one_is_judged_as_that(
    old: list[JsonObject], new: list[JsonObject]
) -> None:
    """Nobody has judged it at that place before."""
    snapshot = policy_for(make_rule("image", "mainContainer", {"pattern": ["nvcr.io/*"]}))

    answer = submit(snapshot, deployment(*new), old=deployment(*old))

    assert answer.broken == [(FIRST, "pattern")]


def test_the_main_container_from_before_the_policy_may_stay() -> None:
    snapshot = policy_for(make_rule("image", "mainContainer", {"pattern": ["nvcr.io/*"]}))

    assert submit(snapshot, deployment(BAD, GOOD), old=deployment(BAD)).broken == []


@pytest.mark.parametrize(
    ("field", "selector", "old", "new", "broken"),
    [
        pytest.param(
            "hostPathVolumes",
            "podSpec",
            {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            True,
            id="another-volume",
        ),
        pytest.param(
            "hostPathVolumes",
            "podSpec",
            {"volumes": [{"name": n, "hostPath": {"path": f"/{n}"}} for n in "ab"]},
            {"volumes": [{"name": "a", "hostPath": {"path": "/a"}}]},
            False,
            id="fewer-volumes",
        ),
    ],
)
def test_blocked_elements_may_go_but_none_may_come(
    field: str, selector: str, old: JsonObject, new: JsonObject, broken: bool
) -> None:
    snapshot = policy_for(make_rule(field, selector, {"blocked": True}))

    answer = submit(snapshot, deployment(GOOD, **new), old=deployment(GOOD, **old))

    assert bool(answer.broken) is broken


def test_blocked_capabilities_cannot_be_traded() -> None:
    snapshot = policy_for(make_rule("capabilitiesAdd", "allContainers", {"blocked": True}))

    def with_capabilities(*names: str) -> JsonObject:
        context = {"capabilities": {"add": list(names)}}
        return deployment(make_container(securityContext=context))

    old = with_capabilities("NET_ADMIN", "CHOWN")
    assert submit(snapshot, with_capabilities("CHOWN"), old=old).broken == []
    assert submit(snapshot, with_capabilities("SYS_ADMIN"), old=old).broken != []


def make_distributed(**more: Any) -> JsonObject:
    return {
        "apiVersion": "workload.gatewright.io/v1alpha1",
        "kind": "DistributedTraining",
        "metadata": {"name": "t", "namespace": "team-a"},
        **more,
    }


def test_rules_of_the_master_judge_a_master_that_is_as_the_workers_are() -> None:
    """Its defaults don't: what a worker gets is for the worker's policy to say."""
    snapshot = make_snapshot(
        make_workload_policy(
            workload_type="distributed",
            defaults={"master": {"createHomeDir": True}},
            rules={"master": {"image": {"pattern": ["nvcr.io/*"]}}},
        )
    )
    spec = {"image": "example.org/y", "numWorkers": 2, "distributedFramework": "PyTorch"}

    same = submit(snapshot, make_distributed(spec=spec, masterSpecSameAsWorker=True))
    alone = submit(snapshot, make_distributed(spec=spec))

    assert [(where, rule) for where, rule in same.broken] == [("/spec/image", "pattern")]
    assert same.violation.selector == "master"
    assert alone.broken == []
    good = submit(
        snapshot, make_distributed(spec={**spec, "image": "nvcr.io/x"}, masterSpecSameAsWorker=True)
    )
    assert "createHomeDir" not in good.document["spec"]


def test_a_flat_rule_tells_of_both_roles_once() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            workload_type="distributed", rules={"image": {"pattern": ["nvcr.io/*"]}}
        )
    )

    answer = submit(
        snapshot,
        make_distributed(
            spec={"image": "example.org/y", "numWorkers": 2}, masterSpecSameAsWorker=True
        ),
    )

    assert answer.broken == [("/spec/image", "pattern")]


@pytest.mark.parametrize("value", ["1e310", "1e399", 1e300])
def test_an_enormous_value_is_judged_like_any_other(value: Any) -> None:
    snapshot = make_snapshot(
        make_workload_policy(rules={"compute": {"cpuCoreRequest": {"step": 0.3}}})
    )

    answer = submit(snapshot, make_training(compute={"cpuCoreRequest": value}))

    assert [rule for _, rule in answer.broken] in (["step"], ["type"])


def test_a_derived_default_that_no_field_can_hold_is_left_out() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            rules={
                "compute": {
                    "cpuMemoryLimit": {
                        "defaultFrom": {"field": "compute.cpuMemoryRequest", "factor": 2}
                    }
                }
            }
        )
    )

    answer = submit(snapshot, make_training(compute={"cpuMemoryRequest": "9e399"}))

    assert "cpuMemoryLimit" not in answer.document["spec"]["compute"]
    assert [item.field for item in answer.decision.not_applied] == ["compute.cpuMemoryLimit"]


@pytest.mark.parametrize(
    ("limit", "factor", "request_"),
    [
        pytest.param("8Gi", 1, "8Gi", id="binary"),
        pytest.param("8000Mi", 0.5, "4000Mi", id="binary-in-mebibytes"),
        pytest.param("1Gi", 0.3, "322122548", id="binary-with-a-part-rounds-up"),
        pytest.param("8G", 0.5, "4G", id="decimal"),
    ],
)
def test_a_derived_quantity_is_written_as_its_source_is(
    limit: str, factor: float, request_: str
) -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            rules={
                "compute": {
                    "cpuMemoryRequest": {
                        "defaultFrom": {"field": "compute.cpuMemoryLimit", "factor": factor}
                    }
                }
            }
        )
    )

    answer = submit(snapshot, make_training(compute={"cpuMemoryLimit": limit}))

    assert answer.at("/spec/compute/cpuMemoryRequest") == request_


def test_limits_of_another_type_do_not_stop_the_review() -> None:
    snapshot = policy_for(
        make_rule("resourceRequests", "allContainers", {"blocked": {"key": "cpu"}}), kind=POD
    )
    resources = {"requests": {"cpu": "1"}, "limits": "abc"}

    answer = submit(snapshot, make_pod(containers=[make_container(resources=resources)]))

    assert ("/spec/containers/0/resources/requests/cpu", "blocked") in answer.broken


@pytest.mark.parametrize(
    ("defaults", "rules", "problem"),
    [
        pytest.param({"imagePullPolicy": "always"}, {}, "one of Always, Never", id="enum"),
        pytest.param({"backoffLimit": -1}, {}, "below the minimum", id="bound"),
        pytest.param({}, {"restartPolicy": {"options": ["Alway"]}}, "one of Always", id="options"),
        pytest.param({}, {"autoDeletionTimeAfterCompletionSeconds": {"max": -5}}, "≥ 0", id="max"),
        pytest.param(
            {"ports": {"attributes": {"container": 70000}}}, {}, "≤ 65535", id="attribute"
        ),
        pytest.param(
            {"ports": {"instances": [{"name": "p", "serviceType": "Node"}]}},
            {},
            "one of LoadBalancer",
            id="item",
        ),
    ],
)
def test_what_the_field_itself_can_never_be_is_refused_when_it_is_written(
    defaults: JsonObject, rules: JsonObject, problem: str
) -> None:
    snapshot = make_snapshot(make_workload_policy(defaults=defaults, rules=rules))

    (found,) = [item for item in snapshot.problems if not item.warning]
    assert problem in found.problem


def test_what_stands_before_the_host_of_a_url_is_not_shown() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            rules={
                "storage": {
                    "git": {
                        "attributes": {
                            "repository": {"options": ["https://bot:s3cr3t@git.example.org/r"]}
                        }
                    }
                }
            }
        )
    )
    item = {"name": "g", "repository": "https://me:hunter2@git.example.org/x"}

    answer = submit(snapshot, make_training(storage={"git": [item]}))

    told = str(answer.decision.violations)
    assert "git.example.org/x" in told
    assert "hunter2" not in told
    assert "s3cr3t" not in told


def test_the_document_is_not_edited_where_it_is_only_judged() -> None:
    snapshot = policy_for(make_rule("image", "allContainers", {"pattern": ["nvcr.io/*"]}))
    document = deployment(BAD)
    before = copy.deepcopy(document)

    submit(snapshot, document)

    assert document == before
