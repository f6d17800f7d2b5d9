"""
What items cost: twice the items under twice the policies may take twice the work, not four times.

Counted are the calls of functions, Python's and others, which say the same on a busy machine.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import (
    POD,
    POLICY_API,
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_request,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
)
from webhook.admission.review import review
from webhook.model.request import Phase

TRAINING = {"group": "workload.gatewright.io", "version": "v1alpha1", "kind": "Training"}
NFS = {"server": "nas", "path": "/x"}

# Of *given* items by policies and *sent* ones: documents, the object, and what it was.
Sent = tuple[list[JsonObject], JsonObject, JsonObject | None]
Case = Callable[[int, int], Sent]


def calls(work: Callable[[], Any]) -> int:
    """How many calls *work* takes."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def cost(case: Case, given: int, sent: int) -> int:
    """The calls that one object takes through both doors."""
    documents, document, old = case(given, sent)
    snapshot = make_snapshot(*documents)
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []

    def run() -> None:
        for phase in (Phase.MUTATE, Phase.VALIDATE):
            request = make_request(copy.deepcopy(document), old=copy.deepcopy(old))
            review(request, phase, snapshot)

    run()  # The plan is built at its first use.
    return calls(run)


def assets(given: int) -> list[JsonObject]:
    return [
        {
            "apiVersion": POLICY_API,
            "kind": "DataSource",
            "metadata": {"name": f"a{index}"},
            "spec": {"nfs": {**NFS, "mountPath": f"/a{index}"}},
        }
        for index in range(given)
    ]


def imposing(given: int, **more: Any) -> JsonObject:
    return make_workload_policy(imposedAssets=[f"a{index}" for index in range(given)], **more)


def own_items(sent: int, **more: Any) -> list[JsonObject]:
    return [{**more, **NFS, "mountPath": f"/m{index}"} for index in range(sent)]


def named(items: list[JsonObject]) -> list[JsonObject]:
    return [{"name": f"n{index}", **item} for index, item in enumerate(items)]


def of_storage(given: int, sent: int) -> Sent:
    storage = {"nfs": named(own_items(sent))}
    return [*assets(given), imposing(given)], make_training(storage=storage), None


def of_storage_that_is_there(given: int, sent: int) -> Sent:
    there = [asset["spec"]["nfs"] | {"name": f"own{i}"} for i, asset in enumerate(assets(given))]
    storage = {"nfs": [*named(own_items(sent)), *there]}
    return [*assets(given), imposing(given)], make_training(storage=storage), None


def of_storage_without_names(given: int, sent: int) -> Sent:
    rules = {"storage": {"nfs": {"attributes": {"server": {"options": ["nas"]}}}}}
    policy = imposing(
        given, rules=rules, defaults={"storage": {"nfs": {"attributes": {"readOnly": True}}}}
    )
    now = make_training(storage={"nfs": own_items(sent)})
    return [*assets(given), policy], now, make_training(storage={"nfs": own_items(sent)[1:]})


def of_storage_that_all_is_left_out(given: int, sent: int) -> Sent:
    instances = [{"name": f"d{index}", **NFS, "mountPath": f"/a{index}"} for index in range(given)]
    policy = make_workload_policy(
        defaults={"storage": {"nfs": {"instances": instances}}},
        rules={"storage": {"nfs": {"instances": {"locked": [f"d{i}" for i in range(given)]}}}},
    )
    left_out = [{"name": f"d{index}", "exclude": True} for index in range(given)]
    storage = {"nfs": [*left_out, *named(own_items(sent))]}
    return [policy], make_training(storage=storage), None


def of_volumes(given: int, sent: int) -> Sent:
    policy = imposing(
        given,
        workload_type=POD,
        defaults={"storage": {"nfs": {"attributes": {"readOnly": True}}}},
        rules={"storage": {"nfs": {"attributes": {"mountPath": {"pattern": ["/*"]}}}}},
    )
    names = [f"v{index}" for index in range(sent)]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    pod = make_pod(
        containers=[make_container(volumeMounts=mounts)],
        volumes=[{"name": name, "nfs": NFS} for name in names],
    )
    return [*assets(given), policy], pod, None


def of_volumes_with_one_name(given: int, sent: int) -> Sent:
    documents, pod, old = of_volumes(given, sent)
    for item in (*pod["spec"]["volumes"], *pod["spec"]["containers"][0]["volumeMounts"]):
        item["name"] = "v"
    return documents, pod, old


def of_mounts_of_one_volume(given: int, sent: int) -> Sent:
    policy = imposing(
        given,
        workload_type=POD,
        rules={"storage": {"nfs": {"attributes": {"mountPath": {"pattern": ["/a*"]}}}}},
    )

    def pod(prefix: str) -> JsonObject:
        mounts = [{"name": "v", "mountPath": f"/{prefix}{index}"} for index in range(sent)]
        container = make_container(volumeMounts=mounts)
        return make_pod(containers=[container], volumes=[{"name": "v", "nfs": NFS}])

    return [*assets(given), policy], pod("new"), pod("old")


def of_mounts_of_an_asset(given: int, sent: int) -> Sent:
    documents, now, old = of_mounts_of_one_volume(given, sent)
    for pod in (now, old or {}):
        for item in (*pod["spec"]["volumes"], *pod["spec"]["containers"][0]["volumeMounts"]):
            item["name"] = "a0"
    return documents, now, old


def of_variables(given: int, sent: int) -> Sent:
    sets = [{"set": {"key": f"S{index}", "value": "1"}} for index in range(given)]
    rules = [{"options": {"key": f"V{index}", "values": ["1"]}} for index in range(given)]
    policy = make_gvk_policy(
        make_rule("environmentVariables", "spec", *sets, *rules), kind=TRAINING
    )
    variables = [{"name": f"V{index}", "value": "1"} for index in range(sent)]
    return [policy], make_training(environmentVariables=variables), None


def of_tolerations(given: int, sent: int) -> Sent:
    instances = [
        {"name": f"t{index}", "key": f"a/t{index}", "operator": "Exists"} for index in range(given)
    ]
    policy = make_workload_policy(
        workload_type=POD, defaults={"tolerations": {"instances": instances}}
    )
    own = [{"key": f"a/v{index}", "operator": "Exists"} for index in range(sent)]
    return [policy], make_pod(tolerations=own), make_pod(tolerations=own[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        of_storage,
        of_storage_that_is_there,
        of_storage_without_names,
        of_storage_that_all_is_left_out,
        of_volumes,
        of_volumes_with_one_name,
        of_mounts_of_one_volume,
        of_mounts_of_an_asset,
        of_variables,
        of_tolerations,
    ],
)
def test_twice_the_items_take_twice_the_work(case: Case) -> None:
    few, many = cost(case, 10, 100), cost(case, 20, 200)

    assert many / few < 2.5
