"""DataSource documents: what is wrong with one is said of itself, not of the policy that imposes it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POLICY_API,
    JsonObject,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)


def data_source(name: str = "home", **spec: Any) -> JsonObject:
    return {
        "apiVersion": POLICY_API,
        "kind": "DataSource",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param(
            {"hostPath": {"path": "/a", "montPath": "/b"}},
            'spec.hostPath.montPath: unknown attribute; did you mean "mountPath"?',
            id="unknown-attribute",
        ),
        pytest.param(
            {"nfs": {"server": "nas", "path": "/x", "readOnly": "yes"}},
            "spec.nfs.readOnly: must be true or false, got text",
            id="wrong-type",
        ),
        pytest.param(
            {"hostPath": {"path": "/a", "mountPropagation": "Both"}},
            "spec.hostPath.mountPropagation: not an allowed value; one of None, HostToContainer",
            id="outside-an-enum",
        ),
        pytest.param(
            {"hostPath": {}}, "spec.hostPath: is empty: it says of no storage", id="empty"
        ),
        pytest.param(
            {"pvc": {"claimInfo": "10Gi", "claimName": "c"}},
            "spec.pvc.claimInfo: must be an object, got text",
            id="text-for-a-section",
        ),
    ],
)
@pytest.mark.parametrize("imposed", [True, False], ids=["imposed", "not-imposed"])
def test_a_wrong_data_source_is_an_error_of_its_own(
    spec: JsonObject, wanted: str, imposed: bool
) -> None:
    policies = [make_workload_policy(imposedAssets=["home"])] * imposed

    problems = make_snapshot(data_source(**spec), *policies).problems

    (error,) = [str(item) for item in problems if not item.warning]
    assert error.startswith(f"test.yaml#0: {wanted}")


def test_an_empty_directory_needs_nothing_but_a_place() -> None:
    assert make_snapshot(data_source(emptyDirVolume={"path": "/tmp"})).problems == ()


@pytest.mark.parametrize(
    ("spec", "attribute"),
    [
        ({"git": {"repository": "r", "path": "/p", "secretName": "s"}}, "passwordSecret"),
        ({"git": {"repository": "r", "path": "/p", "UserName": "s"}}, "secretKeyOfUser"),
        ({"git": {"repository": "r", "path": "/p", "secretRef": {"name": "s"}}}, "secretRef.name"),
        ({"git": {"repository": "https://u:t@example.com/r", "path": "/p"}}, "repository"),
        ({"s3": {"bucket": "b", "path": "/p", "ACCESSKEYSECRET": "s"}}, "accessKeySecret"),
    ],
)
def test_a_credential_in_any_spelling_is_not_imposed(spec: JsonObject, attribute: str) -> None:
    policy = make_workload_policy(imposedAssets=["home"])

    (problem,) = make_snapshot(data_source(**spec), policy).problems

    assert str(problem).startswith("test.yaml#1: spec.imposedAssets[0]: ")
    assert f"home references a credential ({attribute}), so it can't be imposed" in problem.problem


def test_an_asset_is_imposed_under_canonical_names() -> None:
    source = data_source(pvc={"ClaimName": "c", "path": "/home", "size": "10Gi"})
    snapshot = make_snapshot(source, make_workload_policy(imposedAssets=["home"]))

    (item,) = submit(snapshot, make_training()).at("/spec/storage/pvc")

    assert item == {
        "name": "home",
        "claimName": "c",
        "path": "/home",
        "claimInfo": {"size": "10Gi"},
    }


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"server": "nas", "path": "/e", "mountPath": "/m"}, id="without-a-name"),
        pytest.param(
            {"name": "home", "server": "nas", "path": "/e", "mountPath": "/m"}, id="by-its-name"
        ),
    ],
)
def test_an_asset_that_the_submitter_gave_himself_is_not_there_twice(own: JsonObject) -> None:
    asset = {"server": "nas", "path": "/e", "mountPath": "/m"}
    snapshot = make_snapshot(data_source(nfs=asset), make_workload_policy(imposedAssets=["home"]))

    answer = submit(snapshot, make_training(storage={"nfs": [own]}))

    assert answer.broken == []
    assert answer.at("/spec/storage/nfs") == [{**asset, "name": "home"}]


NFS = {"server": "nas", "path": "/e", "mountPath": "/m"}
CLAIM = {"claimName": "c", "existingPvc": True, "path": "/m"}


def imposing(*names: str, **more: Any) -> JsonObject:
    return make_workload_policy(imposedAssets=list(names), **more)


def test_another_item_beside_an_asset_stays_another() -> None:
    snapshot = make_snapshot(data_source(nfs=NFS), imposing("home"))

    answer = submit(snapshot, make_training(storage={"nfs": [{**NFS, "mountPath": "/n"}]}))

    assert len(answer.at("/spec/storage/nfs")) == 2


# --- two that policies give, at one path ----------------------------------------------------------

HOME, OTHER = data_source(nfs=NFS), data_source("other", pvc={**CLAIM, "path": "/m/"})
P: JsonObject = {"name": "narrow", "scope": "project", "unit": "p"}
DEFAULT_CLAIM = {"storage": {"pvc": {"instances": [{"name": "d", **CLAIM}]}}}
JOB = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        pytest.param(
            [imposing("home", "other")],
            "the imposed asset home and the imposed asset other are both mounted at /m",
            id="one-policy",
        ),
        pytest.param(
            [imposing("home"), imposing("other", **P)],
            "the imposed asset home and the imposed asset other are both mounted at /m;"
            " policy guardrails, tenant, against policy narrow, project p",
            id="two-scopes",
        ),
        pytest.param(
            [imposing("home", defaults=DEFAULT_CLAIM)],
            "the imposed asset home and the item d of storage.pvc are both mounted at /m",
            id="beside-a-default-item",
        ),
        pytest.param(
            [
                imposing("home", workload_type=dict(DEPLOYMENT)),
                imposing("other", workload_type=dict(DEPLOYMENT), **P),
            ],
            "the imposed asset home and the imposed asset other are both mounted at /m",
            id="another-kind",
        ),
        pytest.param(
            [
                imposing("home", workload_type=JOB),
                make_workload_policy(imposedAssets={"master": ["other"]}, workload_type=JOB, **P),
            ],
            "the imposed asset home and the imposed asset other are both mounted at /m",
            id="where-selectors-meet",
        ),
    ],
)
def test_two_mounts_at_one_path_are_refused_where_they_meet(
    documents: list[JsonObject], problem: str
) -> None:
    problems = make_snapshot(HOME, OTHER, *documents).problems

    (error,) = [str(item) for item in problems if not item.warning]
    assert error.startswith(f"test.yaml#{1 + len(documents)}: spec.imposedAssets")
    assert problem in error


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([imposing("home"), imposing("home", **P)], id="one-asset-twice"),
        pytest.param(
            [imposing("home", scope="project", unit="q"), imposing("other", **P)],
            id="they-never-meet",
        ),
        pytest.param(
            [
                make_workload_policy(
                    imposedAssets={"master": ["home"], "worker": ["other"]},
                    workload_type="distributed",
                )
            ],
            id="two-roles",
        ),
    ],
)
def test_mounts_that_never_meet_stand_side_by_side(documents: list[JsonObject]) -> None:
    assert make_snapshot(HOME, OTHER, *documents).problems == ()


@pytest.mark.parametrize("path", ["//m", "m", "/m/", "/q/../m"])
def test_two_spellings_of_one_path_are_refused_as_well(path: str) -> None:
    other = data_source("other", pvc={**CLAIM, "path": path})

    (problem,) = make_snapshot(HOME, other, imposing("home", "other")).problems

    assert "the imposed asset home and the imposed asset other are both mounted at /m" in str(
        problem
    )


# --- what a submitter has at its path -------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"readOnly": True}], ids=["as-given", "as-completed"])
def test_an_asset_under_another_name_is_the_asset(more: JsonObject) -> None:
    own = {"name": "mine", **NFS, **more}
    snapshot = make_snapshot(
        HOME,
        imposing(
            "home",
            defaults={"storage": {"nfs": {"attributes": {"readOnly": True}}}},
            rules={"storage": {"nfs": {"instances": {"canAdd": False}}}},
        ),
    )

    answer = submit(snapshot, make_training(storage={"nfs": [own]}))

    assert answer.broken == []
    assert answer.at("/spec/storage/nfs") == [{"name": "mine", **NFS, "readOnly": True}]


@pytest.mark.parametrize(
    ("kind", "asset", "more"),
    [
        pytest.param("nfs", NFS, {"mountPath": "/m/"}, id="slash-behind"),
        pytest.param("nfs", NFS, {"mountPath": "//m"}, id="two-slashes-before"),
        pytest.param("nfs", NFS, {"mountPath": "m"}, id="relative"),
        pytest.param("nfs", NFS, {"readOnly": True}, id="read-only-as-nfs-is"),
        pytest.param("pvc", CLAIM, {"readOnly": False}, id="writable-as-a-claim-is"),
        pytest.param("pvc", CLAIM, {"ephemeral": False}, id="stays-as-a-claim-does"),
        pytest.param(
            "pvc", {**CLAIM, "readOnly": False}, {"readOnly": None}, id="said-by-the-asset"
        ),
    ],
)
@pytest.mark.parametrize("name", ["mine", "home"])
def test_an_asset_that_is_spelt_another_way_is_the_asset(
    kind: str, asset: JsonObject, more: JsonObject, name: str
) -> None:
    snapshot = make_snapshot(data_source("home", **{kind: asset}), imposing("home"))

    answer = submit(snapshot, make_training(storage={kind: [{"name": name, **asset, **more}]}))

    assert answer.broken == []
    (item,) = answer.at(f"/spec/storage/{kind}")
    assert item == {"name": name, **asset, **{k: v for k, v in more.items() if v is not None}}


def test_a_default_for_all_items_takes_the_place_of_what_an_absent_value_means() -> None:
    """Or a default could be left by saying what it replaces."""
    defaults = {"storage": {"pvc": {"attributes": {"readOnly": True}}}}
    snapshot = make_snapshot(data_source(pvc=CLAIM), imposing("home", defaults=defaults))
    own = {"name": "home", **CLAIM, "readOnly": False}

    answer = submit(snapshot, make_training(storage={"pvc": [own]}))

    assert answer.broken == [("/spec/storage/pvc/0/readOnly", "locked")]
    assert answer.violation.accepted == "only true"


def test_a_mount_path_that_nobody_may_edit_can_be_spelt_another_way() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            defaults={"storage": {"nfs": {"instances": [{"name": "data", **NFS}]}}},
            rules={"storage": {"nfs": {"attributes": {"mountPath": {"canEdit": False}}}}},
        )
    )

    answers = [
        submit(snapshot, make_training(storage={"nfs": [{"name": "data", "mountPath": path}]}))
        for path in ("/m/", "/n")
    ]

    assert [answer.broken for answer in answers] == [
        [],
        [("/spec/storage/nfs/0/mountPath", "canEdit")],
    ]


def test_an_asset_under_another_name_is_locked() -> None:
    snapshot = make_snapshot(HOME, imposing("home"))
    before = make_training(storage={"nfs": [{"name": "mine", **NFS}]})
    after = make_training(storage={"nfs": [{"name": "mine", **NFS, "path": "/f"}]})

    answer = submit(snapshot, after, old=before)

    assert answer.broken == [("/spec/storage/nfs/0/mountPath", "locked")]


def test_an_item_that_is_excluded_is_no_asset() -> None:
    snapshot = make_snapshot(HOME, imposing("home"))

    answer = submit(
        snapshot, make_training(storage={"nfs": [{"name": "mine", **NFS, "exclude": True}]})
    )

    assert answer.at("/spec/storage/nfs") == [{"name": "home", **NFS}]


@pytest.mark.parametrize(
    ("kind", "item", "at"),
    [
        pytest.param("nfs", {**NFS, "path": "/f"}, "mountPath", id="same-kind"),
        # The workload API mounts nfs read-only where nothing is said.
        pytest.param("nfs", {**NFS, "readOnly": False}, "mountPath", id="one-attribute-more"),
        pytest.param("pvc", CLAIM, "path", id="another-kind"),
        pytest.param("pvc", {**CLAIM, "path": "/m/"}, "path", id="spelt-another-way"),
        pytest.param("pvc", {**CLAIM, "path": "//m"}, "path", id="two-slashes-before"),
        pytest.param("pvc", {**CLAIM, "path": "m"}, "path", id="relative"),
        pytest.param("nfs", {**NFS, "mountPath": "/q/../m"}, "mountPath", id="up-and-down"),
    ],
)
def test_something_else_at_the_place_of_an_asset_is_a_violation_of_its_policy(
    kind: str, item: JsonObject, at: str
) -> None:
    snapshot = make_snapshot(HOME, imposing("home"))

    answer = submit(snapshot, make_training(storage={kind: [{"name": "mine", **item}]}))

    assert answer.broken == [(f"/spec/storage/{kind}/0/{at}", "locked")]
    assert (answer.violation.item, answer.violation.source.policy) == ("home", "guardrails")
    assert answer.violation.accepted == "another mount path"


def test_an_update_of_another_list_can_not_hide_an_asset() -> None:
    snapshot = make_snapshot(HOME, imposing("home"))
    asset = {"nfs": [{"name": "home", **NFS}]}
    hidden = {**asset, "pvc": [{"name": "mine", **CLAIM}]}

    answer = submit(snapshot, make_training(storage=hidden), old=make_training(storage=asset))

    assert ("/spec/storage/pvc/0/path", "locked") in answer.broken


def test_what_was_hidden_before_the_policy_may_stay() -> None:
    snapshot = make_snapshot(HOME, imposing("home"))
    storage = {"nfs": [{"name": "home", **NFS}], "pvc": [{"name": "mine", **CLAIM}]}

    answer = submit(
        snapshot,
        make_training(storage=storage, image="new"),
        old=make_training(storage=storage, image="old"),
    )

    assert answer.broken == []


@pytest.mark.parametrize(
    ("storage", "stored"),
    [
        pytest.param({"pvc": [{"name": "mine", **CLAIM}]}, None, id="taken"),
        pytest.param(
            {"pvc": [{"name": "mine", **CLAIM, "exclude": True}]},
            [{"name": "data", **NFS}],
            id="taken-by-one-that-is-excluded",
        ),
        pytest.param(
            {
                "pvc": [{"name": "mine", **CLAIM}],
                "nfs": [{"name": "data", **NFS, "mountPath": "/n"}],
            },
            [{"name": "data", **NFS, "mountPath": "/n"}],
            id="moved-by-the-submitter",
        ),
    ],
)
def test_a_default_item_leaves_its_place_to_the_submitter(storage: JsonObject, stored: Any) -> None:
    defaults = {"storage": {"nfs": {"instances": [{"name": "data", **NFS}]}}}
    snapshot = make_snapshot(make_workload_policy(defaults=defaults))

    answer = submit(snapshot, make_training(storage=storage))

    assert answer.broken == []
    assert answer.document["spec"]["storage"].get("nfs") == stored
    reasons = [item.reason for item in answer.decision.not_applied]
    taken = ["mine of storage.pvc is mounted at /m already"]
    assert reasons == (taken if stored is None else [])


# --- without any policy ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("storage", "broken"),
    [
        pytest.param(
            {"nfs": [{"name": "a", **NFS}, {"name": "b", **NFS}]},
            [("/spec/storage/nfs/1/mountPath", "schema")],
            id="one-kind",
        ),
        pytest.param(
            {"nfs": [{"name": "a", **NFS}], "pvc": [{"name": "b", **CLAIM, "path": "/m/"}]},
            [("/spec/storage/pvc/0/path", "schema")],
            id="two-kinds",
        ),
        pytest.param(
            {"nfs": [{"name": "a", **NFS}], "pvc": [{"name": "b", **CLAIM, "path": "m"}]},
            [("/spec/storage/pvc/0/path", "schema")],
            id="relative",
        ),
        pytest.param(
            {"emptyDirVolume": [{"path": "/m"}], "git": [{"repository": "r", "path": "/m"}]},
            [("/spec/storage/git/0/path", "schema")],
            id="without-names",
        ),
        pytest.param(
            {"nfs": [{"name": "a", **NFS}, {"name": "b", **NFS, "exclude": True}]},
            [],
            id="excluded",
        ),
        pytest.param(
            {"hostPath": [{"name": "a", "path": "/m", "mountPath": "/x"}], "pvc": [CLAIM]},
            [],
            id="a-directory-of-the-node-is-no-mount",
        ),
    ],
)
def test_two_items_of_a_submission_have_two_mount_paths(
    storage: JsonObject, broken: list[tuple[str, str]]
) -> None:
    answer = submit(make_snapshot(), make_training(storage=storage))

    assert answer.broken == broken


def test_an_update_may_keep_two_mounts_at_one_path() -> None:
    storage = {"nfs": [{"name": "a", **NFS}, {"name": "b", **NFS}]}

    answer = submit(
        make_snapshot(),
        make_training(storage=storage, image="new"),
        old=make_training(storage=storage, image="old"),
    )

    assert answer.broken == []
