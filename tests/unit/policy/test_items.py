"""Itemized fields: default items, attributes, locked, canAdd, exclude."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest

from tests.builders import (
    make_request,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.admission.review import review
from webhook.model.decision import NOT_SHOWN
from webhook.model.request import Phase
from webhook.policy.items.enforcing import EXCLUDED
from webhook.store.snapshot import Snapshot

RESOURCES = "/spec/compute/extendedResources"


def compile_ok(*documents: Any) -> Snapshot:
    snapshot = make_snapshot(*documents)
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []
    return snapshot


def worked_example() -> Snapshot:
    """Two default items, a default of an attribute, one item locked."""
    return compile_ok(
        make_workload_policy(
            defaults={
                "compute": {
                    "extendedResources": {
                        "instances": [
                            {"resource": "default/cpu", "quantity": 5},
                            {"resource": "default/memory", "quantity": "4M"},
                        ],
                        "attributes": {"quantity": 3},
                    }
                }
            },
            rules={
                "compute": {
                    "extendedResources": {
                        "instances": {"locked": ["default/cpu"]},
                        "attributes": {"quantity": {"required": True}},
                    }
                }
            },
        )
    )


def training(*items: dict[str, Any]) -> dict[str, Any]:
    return make_training(image="ubuntu", compute={"extendedResources": list(items)})


def test_the_worked_example_to_the_letter() -> None:
    answer = submit(
        worked_example(),
        training(
            {"resource": "default/memory", "exclude": True},
            {"resource": "added/cpu"},
            {"resource": "added/memory", "quantity": "5M"},
        ),
    )

    assert answer.allowed
    assert answer.at(RESOURCES) == [
        {"resource": "added/cpu", "quantity": "3"},
        {"resource": "added/memory", "quantity": "5M"},
        {"resource": "default/cpu", "quantity": "5"},
    ]
    remembered = json.loads(answer.document["metadata"]["annotations"][EXCLUDED])
    assert remembered == {"compute.extendedResources": ["default/memory"]}


def test_a_locked_item_cannot_be_excluded() -> None:
    answer = submit(worked_example(), training({"resource": "default/cpu", "exclude": True}))

    assert [rule for _, rule in answer.broken] == ["locked"]
    assert answer.violation.item == "default/cpu"


@pytest.mark.parametrize(
    ("quantity", "broken"),
    [
        pytest.param(5, [], id="restated"),
        pytest.param("5000m", [], id="restated-in-another-spelling"),
        pytest.param(None, [], id="left-to-the-default"),
        pytest.param(6, [f"{RESOURCES}/0/quantity"], id="changed"),
    ],
)
def test_a_locked_item_cannot_be_changed(quantity: Any, broken: list[str]) -> None:
    answer = submit(worked_example(), training({"resource": "default/cpu", "quantity": quantity}))

    assert [path for path, _ in answer.broken] == broken
    if broken:
        assert answer.violation.accepted == "only 5"


@pytest.mark.parametrize("items", [None, []], ids=["null", "empty"])
def test_default_items_are_added_to_what_is_there(items: Any) -> None:
    document = make_training(image="ubuntu", compute={"extendedResources": items})

    answer = submit(worked_example(), document)

    assert [item["resource"] for item in answer.at(RESOURCES)] == ["default/cpu", "default/memory"]


def test_nothing_submitted_gets_the_whole_list() -> None:
    answer = submit(worked_example(), make_training(image="ubuntu"))

    assert len(answer.at(RESOURCES)) == 2


def variables(*items: dict[str, Any], **rules: Any) -> Snapshot:
    return compile_ok(
        make_workload_policy(
            defaults={"environmentVariables": {"instances": list(items)}},
            rules={"environmentVariables": {"instances": rules}} if rules else None,
        )
    )


def test_an_item_of_the_same_key_overrides_attribute_by_attribute() -> None:
    snapshot = variables({"name": "A", "value": "policy", "description": "why"})
    document = make_training(environmentVariables=[{"name": "A", "value": "mine"}])

    answer = submit(snapshot, document)

    assert answer.at("/spec/environmentVariables") == [
        {"name": "A", "value": "mine", "description": "why"}
    ]


def test_a_variable_keeps_its_one_source() -> None:
    """A default value beside a submitted secret would be two sources."""
    snapshot = variables({"name": "A", "value": "policy"})
    mine = {"name": "A", "secret": {"name": "s", "key": "k"}}

    answer = submit(snapshot, make_training(environmentVariables=[mine]))

    assert answer.at("/spec/environmentVariables") == [mine]


def test_items_may_be_closed_to_additions() -> None:
    snapshot = variables({"name": "A", "value": "x"}, canAdd=False)
    extra = {"name": "B", "value": "hunter2"}

    answer = submit(snapshot, make_training(environmentVariables=[extra]))

    assert [rule for _, rule in answer.broken] == ["canAdd"]
    assert answer.violation.value == "B"
    assert answer.violation.accepted == "only A"
    assert submit(
        snapshot, make_training(environmentVariables=[{"name": "A", "value": "y"}])
    ).allowed


def test_values_of_variables_are_not_shown() -> None:
    snapshot = variables({"name": "A", "value": "hunter2"}, locked=["A"])

    answer = submit(
        snapshot, make_training(environmentVariables=[{"name": "A", "value": "hunter3"}])
    )

    assert "hunter" not in str(answer.decision.violations)
    assert answer.violation.value == NOT_SHOWN
    assert answer.violation.accepted == "leave the item out"


def test_items_of_several_scopes_merge_by_key_and_the_narrowest_attribute_counts() -> None:
    def policy(scope: str, unit: str, quantity: Any, *more: Any) -> Any:
        items = [{"resource": "a/b", "quantity": quantity}, *more]
        return make_workload_policy(
            defaults={"compute": {"extendedResources": {"instances": items}}},
            name=f"of-{scope}",
            scope=scope,
            unit=unit,
        )

    snapshot = compile_ok(
        policy("tenant", "", 1, {"resource": "wide/only", "quantity": 7}),
        policy("project", "team-a", 2),
    )

    items = {i["resource"]: i["quantity"] for i in submit(snapshot, make_training()).at(RESOURCES)}
    assert items == {"a/b": "2", "wide/only": "7"}


def test_an_item_without_a_key_gets_one() -> None:
    volumes = {"nfs": {"instances": [{"server": "s", "path": "/p", "mountPath": "/m"}]}}
    claims = {"pvc": {"instances": [{"claimName": "home", "path": "/h", "existingPvc": True}]}}
    snapshot = compile_ok(make_workload_policy(defaults={"storage": {**volumes, **claims}}))

    answer = submit(snapshot, make_training())

    (nfs,) = answer.at("/spec/storage/nfs")
    (claim,) = answer.at("/spec/storage/pvc")
    assert nfs["name"].startswith("policy-")
    assert claim["name"] == "home"


def test_attributes_may_stand_in_a_list_of_maps() -> None:
    """As one sample of the policy reference writes them."""
    host_path = {
        "instances": [{"path": "a", "mountPath": "b"}],
        "attributes": [{"readOnly": True}],
    }
    snapshot = compile_ok(make_workload_policy(defaults={"storage": {"hostPath": host_path}}))

    (item,) = submit(snapshot, make_training()).at("/spec/storage/hostPath")

    assert item["readOnly"] is True


@pytest.mark.parametrize(
    ("url", "broken"),
    [("https://s3.example.com", []), ("https://other.example.com", ["options"]), (None, [])],
)
def test_rules_of_attributes_hold_in_every_item(url: Any, broken: list[str]) -> None:
    rules = {"storage": {"s3": {"attributes": {"url": {"options": ["https://s3.example.com"]}}}}}
    snapshot = compile_ok(make_workload_policy(rules=rules))
    item = {"name": "data", "bucket": "b", "path": "/p"} | ({"url": url} if url else {})

    answer = submit(snapshot, make_training(storage={"s3": [item]}))

    assert [rule for _, rule in answer.broken] == broken
    if broken:
        assert answer.violation.field == "storage.s3.url"
        assert answer.violation.item == "data"


def test_required_attributes_are_missed_in_every_item() -> None:
    rules = {"storage": {"git": {"attributes": {"branch": {"required": True}}}}}
    snapshot = compile_ok(make_workload_policy(rules=rules))
    items = [{"name": "a", "repository": "r", "path": "/p"}, {"name": "b", "branch": "main"}]

    answer = submit(snapshot, make_training(storage={"git": items}))

    assert ("/spec/storage/git/0/branch", "required") in answer.broken


class TestUpdate:
    """What an update did not touch is neither completed nor judged."""

    def test_an_untouched_list_stays(self) -> None:
        old = training({"resource": "mine/x", "quantity": 1})
        new = copy.deepcopy(old)
        new["spec"]["image"] = "other"

        answer = submit(worked_example(), new, old=old)

        assert answer.allowed
        assert answer.at(RESOURCES) == [{"resource": "mine/x", "quantity": 1}]

    def test_an_item_of_before_may_stay_where_none_may_be_added(self) -> None:
        snapshot = variables({"name": "A", "value": "x"}, canAdd=False)
        before = {"name": "B", "value": "x"}
        old = make_training(environmentVariables=[before])

        kept = submit(snapshot, make_training(environmentVariables=[before], image="i"), old=old)
        other = submit(
            snapshot, make_training(environmentVariables=[{**before, "value": "y"}]), old=old
        )
        added = submit(
            snapshot,
            make_training(environmentVariables=[before, {"name": "C", "value": "x"}]),
            old=old,
        )

        assert kept.allowed
        # With another value it is none that was there before.
        assert [path for path, _ in other.broken] == ["/spec/environmentVariables/0"]
        assert [path for path, _ in added.broken] == ["/spec/environmentVariables/1"]

    def test_taking_a_locked_item_out_is_refused(self) -> None:
        first = submit(worked_example(), training())
        new = copy.deepcopy(first.document)
        new["spec"]["compute"]["extendedResources"] = [{"resource": "default/cpu", "quantity": 6}]

        answer = submit(worked_example(), new, old=first.document)

        assert [rule for _, rule in answer.broken] == ["locked"]


@pytest.mark.slow
@pytest.mark.parametrize("annotation", ["", "{", "[]", '{"a": 1}', '{"environmentVariables": [1]}'])
def test_an_annotation_that_says_nothing_is_no_trouble(annotation: str) -> None:
    document = make_training()
    document["metadata"]["annotations"] = {EXCLUDED: annotation}

    answer = submit(variables({"name": "A", "value": "x"}), document)

    assert answer.at("/spec/environmentVariables") == [{"name": "A", "value": "x"}]


def test_roles_have_items_of_their_own() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type="distributed",
            defaults={
                "master": {"environmentVariables": {"instances": [{"name": "A", "value": "m"}]}}
            },
        )
    )
    document = {
        "apiVersion": "workload.gatewright.io/v1alpha1",
        "kind": "DistributedTraining",
        "metadata": {},
        "spec": {"image": "x", "numWorkers": 1, "distributedFramework": "PyTorch"},
        "masterSpec": {"image": "x"},
    }

    answer = submit(snapshot, document)

    assert answer.at("/masterSpec/environmentVariables") == [{"name": "A", "value": "m"}]
    assert "environmentVariables" not in answer.document["spec"]


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        pytest.param({"instances": {}}, "must be a list of items", id="instances"),
        pytest.param({"instance": []}, 'did you mean "instances"', id="misspelt-section"),
        pytest.param([], "must be {instances, attributes}", id="list"),
        pytest.param({"instances": ["a"]}, "must be an object, got text", id="item"),
        pytest.param(
            {"instances": [{"resourc": "a"}]}, 'did you mean "resource"', id="misspelt-attribute"
        ),
        pytest.param(
            {"instances": [{"resource": "a", "quantity": "x"}]}, "must be a quantity", id="type"
        ),
        pytest.param(
            {"instances": [{"resource": "a"}, {"resource": "a"}]}, "stands at", id="one-key-twice"
        ),
        pytest.param(
            {"attributes": {"resource": "x"}}, "no default or rule can be given", id="unruled"
        ),
        pytest.param({"attributes": [{"quantity": 1, "x": 2}]}, "object of attributes", id="maps"),
    ],
)
def test_wrong_defaults_of_items_are_named(section: Any, wanted: str) -> None:
    policy = make_workload_policy(defaults={"compute": {"extendedResources": section}})

    assert wanted in make_snapshot(policy).problems[0].problem


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        pytest.param({"instances": {"canAdd": 1}}, "must be true or false", id="canAdd"),
        pytest.param({"instances": {"locked": "a"}}, "must be a list of keys", id="locked"),
        pytest.param({"instances": {"lock": []}}, 'did you mean "locked"', id="misspelt"),
        pytest.param({"instances": []}, "must be {canAdd, locked}", id="list"),
        pytest.param({"attributes": {"quantity": {"step": 1}}}, "has no rule step", id="rule"),
    ],
)
def test_wrong_rules_of_items_are_named(section: Any, wanted: str) -> None:
    policy = make_workload_policy(rules={"compute": {"extendedResources": section}})

    assert wanted in make_snapshot(policy).problems[0].problem


def test_key_words_are_read_in_any_case_and_canadd_true_asks_nothing() -> None:
    policy = make_workload_policy(
        defaults={"labels": {"Instances": [{"name": "a", "value": "b"}]}},
        rules={"labels": {"Instances": {"canAdd": True, "Locked": ["a"]}}},
    )

    answer = submit(compile_ok(policy), make_training(labels=[{"name": "a", "value": "c"}]))

    assert [rule for _, rule in answer.broken] == ["locked"]


def make_data_source(name: str = "home", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "DataSource",
        "metadata": {"name": name},
        "spec": spec or {"pvc": {"claimName": "home", "path": "/home", "existingPvc": True}},
    }


class TestImposedAssets:
    """Data sources on every workload of a scope."""

    ID = "f12c965b-44e9-4ff6-8b43-01d8f9e630cc"

    @pytest.mark.parametrize("reference", ["home", "HOME", ID])
    def test_they_are_added_by_name_or_id(self, reference: str) -> None:
        source = make_data_source(
            id=self.ID, pvc={"claimName": "home", "path": "/home", "existingPvc": True}
        )
        policy = make_workload_policy(imposedAssets=[reference])

        answer = submit(compile_ok(policy, source), make_training())

        (item,) = answer.at("/spec/storage/pvc")
        assert item == {"name": "home", "claimName": "home", "path": "/home", "existingPvc": True}
        assert "imposedAssets" in [change.rule for change in answer.decision.changes]

    def test_they_are_not_added_twice_and_cannot_be_changed(self) -> None:
        snapshot = compile_ok(make_workload_policy(imposedAssets=["home"]), make_data_source())
        mine = {"name": "home", "claimName": "other", "path": "/home", "existingPvc": True}

        changed = submit(snapshot, make_training(storage={"pvc": [mine]}))
        excluded = submit(
            snapshot, make_training(storage={"pvc": [{"name": "home", "exclude": True}]})
        )

        assert [rule for _, rule in changed.broken] == ["locked"]
        assert [rule for _, rule in excluded.broken] == ["locked"]

    def test_two_references_to_one_are_one(self) -> None:
        policy = make_workload_policy(imposedAssets=["home", "HOME"])

        answer = submit(compile_ok(policy, make_data_source()), make_training())

        assert len(answer.at("/spec/storage/pvc")) == 1

    def test_those_of_several_scopes_are_united(self) -> None:
        nfs = {"server": "s", "path": "/p", "mountPath": "/m"}
        snapshot = compile_ok(
            make_data_source(),
            make_data_source("share", nfs=nfs),
            make_workload_policy(imposedAssets=["home", "share"], name="wide"),
            make_workload_policy(
                imposedAssets=["home"], name="narrow", scope="project", unit="team-a"
            ),
        )

        storage = submit(snapshot, make_training()).at("/spec/storage")

        assert [item["name"] for item in storage["pvc"]] == ["home"]
        assert [item["name"] for item in storage["nfs"]] == ["share"]

    def test_roles_may_have_their_own(self) -> None:
        snapshot = compile_ok(
            make_data_source(),
            make_workload_policy(
                workload_type="distributed", imposedAssets={"master": ["home"], "worker": None}
            ),
        )
        document = {
            "apiVersion": "workload.gatewright.io/v1alpha1",
            "kind": "DistributedTraining",
            "metadata": {},
            "spec": {"image": "x", "numWorkers": 1, "distributedFramework": "PyTorch"},
            "masterSpec": {"image": "x"},
        }

        answer = submit(snapshot, document)

        assert len(answer.at("/masterSpec/storage/pvc")) == 1
        assert "storage" not in answer.document["spec"]

    @pytest.mark.parametrize(
        "spec",
        [
            {"s3": {"bucket": "b", "path": "/p", "accessKeySecret": "s"}},
            {"git": {"repository": "r", "path": "/p", "passwordSecret": "s"}},
        ],
        ids=["s3", "git"],
    )
    def test_what_references_a_credential_cannot_be_imposed(self, spec: Any) -> None:
        snapshot = make_snapshot(
            make_data_source(**spec), make_workload_policy(imposedAssets=["home"])
        )

        (problem,) = snapshot.problems
        assert "references a credential" in problem.problem

    def test_one_that_is_not_there_yet_is_waited_for(self) -> None:
        policy = make_workload_policy(imposedAssets=["home"])

        (problem,) = make_snapshot(policy).problems
        assert problem.warning
        assert make_snapshot(policy, make_data_source()).problems == ()

    @pytest.mark.parametrize(
        ("spec", "wanted"),
        [
            ({"pvc": {}, "nfs": {}}, "and only one"),
            ({"id": "x"}, "is needed, and only one"),
            ({"pcv": {}}, 'did you mean "pvc"'),
        ],
    )
    def test_a_wrong_data_source_is_named(self, spec: Any, wanted: str) -> None:
        assert wanted in make_snapshot(make_data_source(**spec)).problems[0].problem


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"compute": "x"}, id="text-for-a-section"),
        pytest.param({"compute": 0}, id="zero-for-a-section"),
        pytest.param({"compute": {"extendedResources": {}}}, id="object-for-the-list"),
        pytest.param({"compute": {"extendedResources": ""}}, id="text-for-the-list"),
        pytest.param({"compute": {"extendedResources": [None, 3]}}, id="no-objects-in-it"),
    ],
)
def test_a_wrong_type_around_items_is_a_violation(spec: dict[str, Any]) -> None:
    """Never an error of ours, and never replaced by the default items."""
    answer = submit(worked_example(), make_training(image="ubuntu", **spec))

    assert "type" in [rule for _, rule in answer.broken]


@pytest.mark.parametrize("metadata", ["x", {"annotations": "x"}, {"annotations": []}])
def test_an_exclusion_that_cannot_be_remembered_is_no_crash(metadata: Any) -> None:
    document = training({"resource": "default/memory", "exclude": True})
    document["metadata"] = metadata

    review(make_request(document), Phase.REVIEW, worked_example())


@pytest.mark.slow
def test_judging_many_items_of_an_update_takes_linear_time() -> None:
    snapshot = variables({"name": "A", "value": "x"}, canAdd=False)
    items = [{"name": f"V{index}", "value": "x"} for index in range(5000)]
    changed = items[::-1]

    before = time.process_time()
    answer = submit(
        snapshot,
        make_training(environmentVariables=changed),
        old=make_training(environmentVariables=items),
    )

    assert answer.allowed
    assert time.process_time() - before < 5


def test_a_credential_in_any_spelling_keeps_an_asset_from_being_imposed() -> None:
    source = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "DataSource",
        "metadata": {"name": "b"},
        "spec": {"s3": {"bucket": "b", "path": "/p", "AccessKeySecret": "cred"}},
    }

    (problem,) = make_snapshot(source, make_workload_policy(imposedAssets=["b"])).problems

    assert "references a credential" in problem.problem


def test_an_empty_key_is_none() -> None:
    answer = submit(variables({"name": "", "value": "x"}), make_training())

    (item,) = answer.at("/spec/environmentVariables")
    assert item["name"].startswith("policy-")


def test_the_narrower_source_of_a_variable_takes_the_place_of_the_wider() -> None:
    def policy(scope: str, unit: str, **item: Any) -> Any:
        items = {"environmentVariables": {"instances": [{"name": "A", **item}]}}
        return make_workload_policy(defaults=items, name=f"of-{scope}", scope=scope, unit=unit)

    snapshot = compile_ok(
        policy("tenant", "", value="x"),
        policy("project", "team-a", secret={"name": "s", "key": "k"}),
    )

    (item,) = submit(snapshot, make_training()).at("/spec/environmentVariables")
    assert item == {"name": "A", "secret": {"name": "s", "key": "k"}}


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        pytest.param(
            {"instances": [{"name": "A", "value": "x", "secret": {"name": "s", "key": "k"}}]},
            "only one of value, secret",
            id="two-sources",
        ),
    ],
)
def test_a_default_variable_has_one_source(section: Any, wanted: str) -> None:
    policy = make_workload_policy(defaults={"environmentVariables": section})

    assert wanted in make_snapshot(policy).problems[0].problem


def test_the_key_of_items_has_no_default() -> None:
    policy = make_workload_policy(defaults={"storage": {"hostPath": {"attributes": {"name": "x"}}}})

    assert "tells the items apart" in make_snapshot(policy).problems[0].problem


def test_a_locked_item_that_is_still_marked_as_excluded_is_refused_by_the_second_door() -> None:
    """Where the first one was not asked (its failurePolicy is Ignore)."""
    snapshot = variables({"name": "A", "value": "x"}, locked=["A"])
    document = make_training(environmentVariables=[{"name": "A", "value": "x", "exclude": True}])

    decision = review(make_request(document), Phase.VALIDATE, snapshot)

    assert "locked" in [violation.rule for violation in decision.violations]


def test_items_that_an_update_leaves_alone_are_not_completed() -> None:
    old = training({"resource": "a/b"}, {"resource": "c/d", "quantity": 1})
    new = training({"resource": "a/b"}, {"resource": "c/d", "quantity": 2})

    answer = submit(worked_example(), new, old=old)

    assert answer.at(RESOURCES)[0] == {"resource": "a/b"}


def test_items_of_several_fields_are_excluded_at_once() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            defaults={
                "environmentVariables": {"instances": [{"name": "Q", "value": "v"}]},
                "labels": {"instances": [{"name": "l", "value": "x"}, {"name": "m", "value": "x"}]},
            }
        )
    )
    document = make_training(
        environmentVariables=[{"name": "Q", "exclude": True}],
        labels=[{"name": "l", "exclude": True}],
    )

    first = submit(snapshot, document)

    assert first.document["spec"]["environmentVariables"] == []
    assert [item["name"] for item in first.document["spec"]["labels"]] == ["m"]
    assert json.loads(first.document["metadata"]["annotations"][EXCLUDED]) == {
        "environmentVariables": ["Q"],
        "labels": ["l"],
    }
    # One more in a later update, beside what is remembered.
    changed = copy.deepcopy(first.document)
    changed["spec"]["labels"] = [{"name": "m", "exclude": True}]
    second = submit(snapshot, changed, old=first.document)
    assert second.document["spec"]["labels"] == []
    assert submit(snapshot, second.document).decision.patch == []


@pytest.mark.parametrize("text", ["junk", "[]", '{"labels": "l"}', 7])
def test_an_annotation_that_says_nothing_is_replaced(text: Any) -> None:
    snapshot = compile_ok(
        make_workload_policy(defaults={"labels": {"instances": [{"name": "l", "value": "x"}]}})
    )
    document = make_training(labels=[{"name": "l", "exclude": True}])
    document["metadata"]["annotations"] = {EXCLUDED: text}

    answer = submit(snapshot, document)

    assert answer.document["spec"]["labels"] == []
    assert answer.document["metadata"]["annotations"][EXCLUDED] == '{"labels":["l"]}'


def test_an_excluded_item_that_is_there_as_well_is_a_double() -> None:
    snapshot = compile_ok(
        make_workload_policy(defaults={"labels": {"instances": [{"name": "l", "value": "x"}]}})
    )
    document = make_training(labels=[{"name": "l", "exclude": True}, {"name": "l", "value": "y"}])

    answer = submit(snapshot, document)

    assert EXCLUDED not in answer.document["metadata"].get("annotations", {})
    assert answer.document["spec"]["labels"] == [{"name": "l", "value": "y"}]


def test_what_is_excluded_goes_where_no_policy_speaks_of_the_field() -> None:
    document = make_training(
        relatedUrls=[{"name": "a", "exclude": True}, {"name": "b", "url": "u"}]
    )

    answer = submit(
        compile_ok(make_workload_policy(rules={"image": {"required": False}})), document
    )

    assert answer.document["spec"]["relatedUrls"] == [{"name": "b", "url": "u"}]


def test_an_item_without_a_key_has_no_past_of_another_item() -> None:
    """An update can't slip an item in at the position of one that was there."""
    snapshot = compile_ok(
        make_workload_policy(
            defaults={
                "storage": {
                    "hostPath": {"instances": [{"name": "data", "path": "/d", "mountPath": "/d"}]}
                }
            },
            rules={"storage": {"hostPath": {"instances": {"canAdd": False}}}},
        )
    )
    old = submit(snapshot, make_training()).document
    new = copy.deepcopy(old)
    new["spec"]["storage"]["hostPath"].insert(0, {"path": "/", "mountPath": "/host"})

    assert [rule for _, rule in submit(snapshot, new, old=old).broken] == ["canAdd"]


def test_a_double_is_held_against_the_lock_whichever_stands_first() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            defaults={"labels": {"instances": [{"name": "l", "value": "x"}]}},
            rules={"labels": {"instances": {"locked": ["l"]}}},
        )
    )
    good, bad = {"name": "l", "value": "x"}, {"name": "l", "value": "y"}
    old = make_training(labels=[good])

    for labels in ([bad, good], [good, bad]):
        broken = submit(snapshot, make_training(labels=labels), old=old).broken
        assert "locked" in [rule for _, rule in broken]


def test_the_bad_elements_of_an_attribute_cannot_be_traded() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            rules={"exposedUrls": {"attributes": {"authorizedUsers": {"options": ["alice"]}}}}
        )
    )

    def with_users(*users: str) -> dict[str, Any]:
        return make_training(exposedUrls=[{"name": "u", "authorizedUsers": list(users)}])

    old = with_users("bob", "carol")
    assert submit(snapshot, with_users("bob"), old=old).broken == []
    assert [rule for _, rule in submit(snapshot, with_users("mallory"), old=old).broken] == [
        "options"
    ]


def test_an_update_may_spell_an_attribute_anew() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            rules={"compute": {"extendedResources": {"attributes": {"quantity": {"max": 5}}}}}
        )
    )

    def with_quantity(quantity: Any) -> dict[str, Any]:
        return training({"resource": "a/b", "quantity": quantity})

    assert submit(snapshot, with_quantity(10), old=with_quantity("10")).broken == []
    assert submit(snapshot, with_quantity(11), old=with_quantity("10")).broken != []


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param({"name": "p", "container": 80}, 80, id="from-the-same-item"),
        pytest.param({"name": "p", "container": 80, "external": 8080}, 8080, id="given"),
        pytest.param({"name": "p"}, None, id="no-source"),
    ],
)
def test_an_attribute_may_be_computed_from_another(item: dict[str, Any], want: Any) -> None:
    snapshot = compile_ok(
        make_workload_policy(
            rules={"ports": {"attributes": {"external": {"defaultFrom": {"field": "container"}}}}}
        )
    )

    answer = submit(snapshot, make_training(ports=[item]))

    assert answer.document["spec"]["ports"][0].get("external") == want
    assert submit(snapshot, answer.document).decision.patch == []


def test_each_attribute_of_a_merged_item_names_its_own_policy() -> None:
    wide = {"name": "A", "path": "/tenant", "mountPath": "/m", "readOnly": True}
    snapshot = compile_ok(
        make_workload_policy(
            name="wide", defaults={"storage": {"hostPath": {"instances": [wide]}}}
        ),
        make_workload_policy(
            name="narrow",
            scope="project",
            unit="team-a",
            defaults={"storage": {"hostPath": {"instances": [{"name": "A", "path": "/project"}]}}},
        ),
    )

    answer = submit(snapshot, make_training(storage={"hostPath": [{"name": "A"}]}))

    assert {change.field: change.source.policy for change in answer.decision.changes} | {
        "terminationGracePeriodSeconds": "",
        "security.privileged": "",
    } == {
        "storage.hostPath.path": "narrow",
        "storage.hostPath.mountPath": "wide",
        "storage.hostPath.readOnly": "wide",
        "terminationGracePeriodSeconds": "",
        "security.privileged": "",
    }


def test_a_default_attribute_that_does_not_go_with_an_item_is_left_out() -> None:
    """Seconds are for NoExecute taints only."""
    snapshot = compile_ok(
        make_workload_policy(defaults={"tolerations": {"attributes": {"seconds": 30}}})
    )
    taint = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}

    answer = submit(snapshot, make_training(tolerations=[taint]))

    assert answer.broken == []
    assert answer.document["spec"]["tolerations"] == [taint]
    (left_out,) = answer.decision.not_applied
    assert left_out.field == "tolerations.seconds"
    evicting = {**taint, "effect": "NoExecute"}
    filled = submit(snapshot, make_training(tolerations=[evicting])).document
    assert filled["spec"]["tolerations"] == [{**evicting, "seconds": 30}]


def test_what_is_given_again_is_no_longer_remembered_as_excluded() -> None:
    snapshot = compile_ok(
        make_workload_policy(defaults={"labels": {"instances": [{"name": "l", "value": "x"}]}})
    )
    old = submit(snapshot, make_training(labels=[{"name": "l", "exclude": True}])).document
    new = copy.deepcopy(old)
    new["spec"]["labels"] = [{"name": "l", "value": "y"}]

    answer = submit(snapshot, new, old=old)

    assert EXCLUDED not in answer.document["metadata"]["annotations"]
    assert answer.document["spec"]["labels"] == [{"name": "l", "value": "y"}]
