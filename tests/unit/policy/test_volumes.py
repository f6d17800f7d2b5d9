"""Storage of policies in pod templates: the mounts that a policy adds, and those of the submitter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POD,
    POLICY_API,
    JsonObject,
    make_container,
    make_pod,
    make_snapshot,
    make_workload_policy,
    submit,
)

READ_ONLY = {"attributes": {"readOnly": True}}
NFS = {"server": "nas", "path": "/x", "mountPath": "/d"}
NFS_VOLUME = {"name": "home", "nfs": {"server": "nas", "path": "/x"}}
HOME = {
    "apiVersion": POLICY_API,
    "kind": "DataSource",
    "metadata": {"name": "home"},
    "spec": {"nfs": NFS},
}
HOST_PATH = {"name": "d", "path": "/data", "mountPath": "/d", "readOnly": True}


def on_pods(**spec: Any) -> JsonObject:
    return make_workload_policy(workload_type=POD, **spec)


def mounting(*mounts: JsonObject, **pod: Any) -> JsonObject:
    return make_pod(containers=[make_container(volumeMounts=list(mounts))], **pod)


def make_deployment(*containers: JsonObject, **pod: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm", "namespace": "team-a"},
        "spec": {"template": {"spec": {"containers": list(containers), **pod}}},
    }


# --- what policies give to all items, and the mounts that they add --------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(
            {"defaults": {"storage": {"nfs": READ_ONLY}}, "imposedAssets": ["home"]}, id="asset"
        ),
        pytest.param(
            {
                "defaults": {
                    "storage": {"nfs": {"instances": [{"name": "home", **NFS}], **READ_ONLY}}
                }
            },
            id="default-item",
        ),
        pytest.param(
            {
                "defaults": {
                    "storage": {"nfs": {"instances": [{"name": "home", **NFS}], **READ_ONLY}}
                },
                "rules": {"storage": {"nfs": {"instances": {"locked": ["home"]}}}},
            },
            id="locked-item",
        ),
        pytest.param(
            {
                "defaults": {
                    "storage": {
                        "nfs": {
                            "instances": [{"name": "home", "server": "nas", "path": "/x"}],
                            "attributes": {"mountPath": "/d", "readOnly": True},
                        }
                    }
                }
            },
            id="path-of-all-items",
        ),
    ],
)
@pytest.mark.parametrize("volumes", [[], [NFS_VOLUME]], ids=["added", "submitted"])
def test_a_mount_that_a_policy_adds_has_what_it_gives_to_all(
    policy: JsonObject, volumes: list[JsonObject]
) -> None:
    answer = submit(make_snapshot(HOME, on_pods(**policy)), make_pod(volumes=list(volumes)))

    assert answer.broken == []
    assert answer.at("/spec/volumes") == [NFS_VOLUME]
    assert answer.at("/spec/containers/0/volumeMounts") == [
        {"name": "home", "mountPath": "/d", "readOnly": True}
    ]


def test_an_item_of_its_own_mind_keeps_it_among_those_of_all() -> None:
    own = {"name": "home", **NFS, "readOnly": False}
    policy = on_pods(defaults={"storage": {"nfs": {"instances": [own], **READ_ONLY}}})

    answer = submit(make_snapshot(policy), make_pod())

    assert answer.at("/spec/containers/0/volumeMounts/0/readOnly") is False


def test_what_is_accepted_of_a_locked_mount_is_what_the_policy_makes_of_it() -> None:
    policy = on_pods(defaults={"storage": {"nfs": READ_ONLY}}, imposedAssets=["home"])
    mount = {"name": "home", "mountPath": "/d", "readOnly": False}

    answer = submit(make_snapshot(HOME, policy), mounting(mount, volumes=[NFS_VOLUME]))

    assert answer.broken == [("/spec/containers/0/volumeMounts/0/readOnly", "locked")]
    assert answer.violation.accepted == "only true"


# --- mounts of the submitter ----------------------------------------------------------------------


@pytest.mark.parametrize("locked", [[], ["d"]], ids=["open", "locked"])
@pytest.mark.parametrize(
    "volumes",
    [[], [{"name": "d", "hostPath": {"path": "/data"}}]],
    ids=["without-the-volume", "with-it"],
)
def test_a_mount_of_the_submitter_is_completed_and_told(
    locked: list[str], volumes: list[JsonObject]
) -> None:
    policy = on_pods(
        defaults={"storage": {"hostPath": {"instances": [HOST_PATH]}}},
        rules={"storage": {"hostPath": {"instances": {"locked": locked}}}},
    )

    answer = submit(
        make_snapshot(policy), mounting({"name": "d", "mountPath": "/d"}, volumes=list(volumes))
    )

    assert answer.broken == []
    assert answer.at("/spec/volumes") == [{"name": "d", "hostPath": {"path": "/data"}}]
    assert answer.at("/spec/containers/0/volumeMounts") == [
        {"name": "d", "mountPath": "/d", "readOnly": True}
    ]
    fields = [change.field for change in answer.decision.changes]
    assert "storage.hostPath.readOnly" in fields


def test_a_new_container_that_mounts_a_volume_is_completed_on_an_update() -> None:
    policy = make_workload_policy(
        workload_type=DEPLOYMENT,
        defaults={"storage": {"hostPath": {"instances": [HOST_PATH]}}},
        rules={"storage": {"hostPath": {"instances": {"locked": ["d"]}}}},
    )
    volumes = [{"name": "d", "hostPath": {"path": "/data"}}]
    full = {"name": "d", "mountPath": "/d", "readOnly": True}
    main = make_container(volumeMounts=[full])
    sidecar = make_container("side", volumeMounts=[{"name": "d", "mountPath": "/d"}])

    answer = submit(
        make_snapshot(policy),
        make_deployment(main, sidecar, volumes=volumes),
        old=make_deployment(main, volumes=volumes),
    )

    assert answer.broken == []
    assert answer.paths == ["/spec/template/spec/containers/1/volumeMounts/0/readOnly"]


@pytest.mark.parametrize("path", ["//d", "d", "/d/", "/q/../d"])
def test_a_locked_volume_is_not_hidden_by_another_spelling_of_its_path(path: str) -> None:
    volumes = [NFS_VOLUME, {"name": "e", "emptyDir": {}}]
    mounts = [{"name": "home", "mountPath": "/d"}, {"name": "e", "mountPath": path}]

    answer = submit(
        make_snapshot(HOME, on_pods(imposedAssets=["home"])), mounting(*mounts, volumes=volumes)
    )

    assert answer.broken == [("/spec/containers/0/volumeMounts/1/mountPath", "locked")]


@pytest.mark.parametrize(
    ("more", "broken"),
    [
        ({"mountPath": "/d/"}, []),
        ({"mountPath": "//d"}, []),
        ({"mountPath": "d"}, []),
        ({"readOnly": False}, []),
        ({"mountPath": "/e"}, [("/spec/containers/0/volumeMounts/0/mountPath", "locked")]),
        ({"readOnly": True}, [("/spec/containers/0/volumeMounts/0/readOnly", "locked")]),
    ],
)
def test_a_locked_mount_may_be_spelt_another_way(
    more: JsonObject, broken: list[tuple[str, str]]
) -> None:
    """In a pod an absent `readOnly` is false, whatever the workload API takes it for."""
    mount = {"name": "home", "mountPath": "/d", **more}

    answer = submit(
        make_snapshot(HOME, on_pods(imposedAssets=["home"])), mounting(mount, volumes=[NFS_VOLUME])
    )

    assert answer.broken == broken


def test_two_volumes_with_one_name_are_left_to_kubernetes() -> None:
    policy = on_pods(defaults={"storage": {"nfs": READ_ONLY}})

    answer = submit(
        make_snapshot(policy),
        mounting({"name": "home", "mountPath": "/d"}, volumes=[NFS_VOLUME, NFS_VOLUME]),
    )

    assert answer.paths == ["/spec/containers/0/volumeMounts/0/readOnly"]


# --- items without a name -------------------------------------------------------------------------

ANY = {"key": "gpu", "operator": "Exists"}


@pytest.mark.parametrize(
    "tolerations",
    [
        pytest.param({"instances": [{"name": "a", **ANY}, {"name": "b", **ANY}]}, id="equal"),
        pytest.param(
            {
                "instances": [{"name": "a", **ANY}, {"name": "b", **ANY, "effect": "NoExecute"}],
                "attributes": {"effect": "NoExecute"},
            },
            id="equal-when-completed",
        ),
    ],
)
@pytest.mark.parametrize("locked", ["a", "b"])
def test_two_default_items_that_nothing_tells_apart_are_one(
    tolerations: JsonObject, locked: str
) -> None:
    policy = on_pods(
        defaults={"tolerations": tolerations},
        rules={"tolerations": {"instances": {"locked": [locked]}}},
    )

    answer = submit(make_snapshot(policy), make_pod())

    assert answer.broken == []
    assert len(answer.at("/spec/tolerations")) == 1
