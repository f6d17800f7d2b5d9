"""Itemized fields of native kinds in a GVKPolicy: items by key, and attributes of all items."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    JsonObject,
    make_gvk_policy,
    make_request,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.admission.review import review
from webhook.model.pointer import to_pointer
from webhook.model.request import Phase
from webhook.policy.explain import explain

NATIVE = {"group": "workload.gatewright.io", "version": "v1alpha1"}
TRAINING = {**NATIVE, "kind": "Training"}

CLAIM = {"claimName": "c", "existingPvc": True, "path": "/home"}
NFS = {"server": "nas", "path": "/export", "mountPath": "/data"}
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists"}


def flat(
    field: str, *enforcements: JsonObject, allow_override: bool = False, **more: Any
) -> JsonObject:
    """A GVKPolicy of trainings with one rule."""
    rule = make_rule(field, "spec", *enforcements)
    if allow_override:
        rule["allowOverride"] = True
    return make_gvk_policy(rule, kind=TRAINING, **more)


def nested(field: str, value: Any) -> JsonObject:
    """*value* at the dotted *field* of a spec, or of a section of a policy."""
    for part in reversed(field.split(".")):
        value = {part: value}
    return dict(value)


def errors_of(*documents: JsonObject) -> list[str]:
    return [str(problem) for problem in make_snapshot(*documents).problems if not problem.warning]


def warnings_of(*documents: JsonObject) -> list[str]:
    return [str(problem) for problem in make_snapshot(*documents).problems if problem.warning]


def items_after(answer: Any, field: str) -> Any:
    return answer.at(f"/spec/{field.replace('.', '/')}")


# --- default ------------------------------------------------------------------------------------

# Each family: the field, key and value of a default, and the item that it is.
FAMILIES = [
    pytest.param(
        "labels", "team", "vision", {"name": "team", "value": "vision"}, id="labels-by-value"
    ),
    pytest.param(
        "labels", "team", {"value": "vision"}, {"name": "team", "value": "vision"}, id="labels"
    ),
    pytest.param(
        "annotations", "a.b/c", "x", {"name": "a.b/c", "value": "x"}, id="annotations-by-value"
    ),
    pytest.param(
        "environmentVariables", "A", "x", {"name": "A", "value": "x"}, id="variable-by-value"
    ),
    pytest.param(
        "environmentVariables",
        "A",
        {"secret": {"name": "s", "key": "k"}},
        {"name": "A", "secret": {"name": "s", "key": "k"}},
        id="variable-of-a-secret",
    ),
    pytest.param(
        "compute.extendedResources",
        "x/a",
        1500,
        {"resource": "x/a", "quantity": "1500"},
        id="extended-resource",
    ),
    pytest.param("storage.pvc", "home", CLAIM, {"name": "home", **CLAIM}, id="claim"),
    pytest.param("storage.nfs", "data", NFS, {"name": "data", **NFS}, id="nfs"),
    pytest.param("tolerations", "gpu", GPU_TAINT, {"name": "gpu", **GPU_TAINT}, id="toleration"),
    pytest.param("ports", "web", {"container": 80}, {"name": "web", "container": 80}, id="port"),
    pytest.param(
        "relatedUrls", "wiki", {"url": "u"}, {"name": "wiki", "url": "u"}, id="related-url"
    ),
]


@pytest.mark.parametrize("rule", ["default", "set"])
@pytest.mark.parametrize(("field", "key", "value", "item"), FAMILIES)
def test_an_item_that_is_missing_is_added(
    field: str, key: str, value: Any, item: JsonObject, rule: str
) -> None:
    answer = submit(
        make_snapshot(flat(field, {rule: {"key": key, "value": value}})), make_training()
    )

    assert answer.allowed
    assert items_after(answer, field) == [item]


@pytest.mark.parametrize(("field", "key", "value", "item"), FAMILIES)
def test_both_kinds_of_policy_add_the_same(
    field: str, key: str, value: Any, item: JsonObject
) -> None:
    hierarchical = make_workload_policy(defaults=nested(field, {"instances": [item]}))

    one = submit(
        make_snapshot(flat(field, {"default": {"key": key, "value": value}})), make_training()
    )
    other = submit(make_snapshot(hierarchical), make_training())

    assert one.document == other.document


def test_a_key_alone_is_an_item_where_nothing_else_is_needed() -> None:
    snapshot = make_snapshot(flat("imagePullSecrets", {"default": {"key": "regcred"}}))

    assert submit(snapshot, make_training()).at("/spec/imagePullSecrets") == [{"name": "regcred"}]


def test_the_key_may_stand_in_the_value() -> None:
    value = {"name": "team", "value": "vision"}
    snapshot = make_snapshot(flat("labels", {"default": {"value": value}}))

    assert submit(snapshot, make_training()).at("/spec/labels") == [value]


@pytest.mark.parametrize(
    ("own", "stored"),
    [
        pytest.param({"value": "audio"}, [{"name": "team", "value": "audio"}], id="another-value"),
        pytest.param({}, [{"name": "team", "value": "vision"}], id="lacks-the-value"),
        pytest.param({"exclude": True}, [], id="excluded"),
    ],
)
def test_a_default_leaves_the_submitter_his_item(own: JsonObject, stored: Any) -> None:
    snapshot = make_snapshot(flat("labels", {"default": {"key": "team", "value": "vision"}}))

    answer = submit(snapshot, make_training(labels=[{"name": "team", **own}]))

    assert answer.at("/spec/labels") == stored


@pytest.mark.parametrize(
    ("own", "effect"),
    [({}, "NoSchedule"), ({"effect": "NoExecute"}, "NoExecute")],
    ids=["absent", "given"],
)
def test_a_default_of_an_attribute_fills_every_item(own: JsonObject, effect: str) -> None:
    snapshot = make_snapshot(flat("tolerations.effect", {"default": "NoSchedule"}))

    answer = submit(snapshot, make_training(tolerations=[{**GPU_TAINT, **own}]))

    assert answer.at("/spec/tolerations/0/effect") == effect


# --- set ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "key", "value", "own", "stored"),
    [
        pytest.param("labels", "team", "a", {"value": "b"}, {"value": "a"}, id="another-value"),
        pytest.param("labels", "team", "a", {"exclude": True}, {"value": "a"}, id="excluded"),
        pytest.param(
            "environmentVariables",
            "A",
            "x",
            {"value": "y", "description": "mine"},
            {"value": "x", "description": "mine"},
            id="the-rest-is-left-alone",
        ),
        pytest.param(
            "environmentVariables",
            "A",
            "x",
            {"secret": {"name": "s", "key": "k"}},
            {"value": "x"},
            id="another-source-goes",
        ),
        pytest.param(
            "environmentVariables",
            "A",
            {"secret": {"name": "s", "key": "k"}},
            {"secret": {"name": "mine", "key": "k"}},
            {"secret": {"name": "s", "key": "k"}},
            id="attribute-in-a-section",
        ),
        pytest.param(
            "storage.nfs",
            "data",
            {**NFS, "readOnly": True},
            {**NFS, "server": "elsewhere", "readOnly": False},
            {**NFS, "readOnly": True},
            id="several-attributes",
        ),
        pytest.param(
            "compute.extendedResources",
            "x/a",
            "1",
            {"quantity": "1000m"},
            {"quantity": "1000m"},
            id="the-same-amount",
        ),
    ],
)
def test_a_set_item_has_the_attributes_that_are_set(
    field: str, key: str, value: Any, own: JsonObject, stored: JsonObject
) -> None:
    name = "resource" if field == "compute.extendedResources" else "name"
    snapshot = make_snapshot(flat(field, {"set": {"key": key, "value": value}}))

    answer = submit(snapshot, make_training(**nested(field, [{name: key, **own}])))

    assert answer.allowed
    assert items_after(answer, field) == [{name: key, **stored}]


@pytest.mark.parametrize(
    ("labels", "before", "stored"),
    [
        pytest.param("b", "b", "b", id="untouched"),
        pytest.param("c", "b", "a", id="changed"),
    ],
)
def test_an_update_keeps_what_it_leaves_alone(labels: str, before: str, stored: str) -> None:
    snapshot = make_snapshot(flat("labels", {"set": {"key": "team", "value": "a"}}))

    def training(value: str, other: str) -> JsonObject:
        items = [{"name": "team", "value": value}, {"name": "other", "value": other}]
        return make_training(labels=items)

    answer = submit(snapshot, training(labels, "new"), old=training(before, "old"))

    assert answer.allowed
    assert answer.at("/spec/labels/0/value") == stored


@pytest.mark.parametrize(
    "own", [{}, {"readOnly": False}, {"readOnly": True}], ids=["absent", "false", "true"]
)
def test_an_attribute_is_set_in_every_item(own: JsonObject) -> None:
    item = {"name": "data", **NFS}
    snapshot = make_snapshot(
        flat("storage.nfs.readOnly", {"set": True}),
        make_workload_policy(
            defaults=nested("storage.nfs", {"instances": [{**NFS, "mountPath": "/b", "name": "b"}]})
        ),
    )

    answer = submit(snapshot, make_training(storage={"nfs": [{**item, **own}]}))

    assert [item["readOnly"] for item in answer.at("/spec/storage/nfs")] == [True, True]


@pytest.mark.parametrize(
    ("items", "broken"),
    [
        pytest.param([], [("/spec/environmentVariables", "set")], id="missing"),
        pytest.param(
            [{"name": "A", "value": "y"}],
            [("/spec/environmentVariables/0/value", "set")],
            id="another-value",
        ),
        pytest.param(
            [{"name": "A", "secret": {"name": "s", "key": "k"}}],
            [
                ("/spec/environmentVariables/0/secret/key", "set"),
                ("/spec/environmentVariables/0/secret/name", "set"),
                ("/spec/environmentVariables/0/value", "set"),
            ],
            id="another-source",
        ),
        pytest.param([{"name": "A", "value": "x"}], [], id="as-set"),
    ],
)
def test_what_is_set_is_judged_where_nobody_mutated(
    items: Any, broken: list[tuple[str, str]]
) -> None:
    snapshot = make_snapshot(
        flat("environmentVariables", {"set": {"key": "A", "value": "x"}}),
    )

    decision = review(
        make_request(make_training(environmentVariables=items)), Phase.VALIDATE, snapshot
    )

    found = [item for item in decision.violations if item.field.startswith("environment")]
    assert sorted((to_pointer(item.path), item.rule) for item in found) == broken


# --- rules that judge ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("field", "key", "value", "item"), FAMILIES)
def test_each_family_requires_and_blocks_an_item_by_its_key(
    field: str, key: str, value: Any, item: JsonObject
) -> None:
    del value  # Only the key is named.
    at = f"/spec/{field.replace('.', '/')}"
    required = make_snapshot(flat(field, {"required": {"key": key}}))
    blocked = make_snapshot(flat(field, {"blocked": {"key": key}}))
    having = make_training(**nested(field, [item]))

    assert submit(required, make_training()).broken == [(at, "required")]
    assert submit(required, having).broken == []
    assert submit(blocked, make_training()).broken == []
    assert submit(blocked, having).broken == [(f"{at}/0", "blocked")]


@pytest.mark.parametrize(
    ("field", "enforcement", "items", "broken"),
    [
        pytest.param(
            "labels",
            {"required": {"key": "team"}},
            [{"name": "other", "value": "x"}],
            [("", "required")],
            id="required",
        ),
        pytest.param(
            "labels",
            {"required": {"key": "team"}},
            [{"name": "team", "value": "x"}],
            [],
            id="required-and-there",
        ),
        pytest.param("labels", {"required": True}, [], [("", "required")], id="any-required"),
        pytest.param(
            "labels",
            {"blocked": {"key": "team"}},
            [{"name": "other", "value": "x"}, {"name": "team", "value": "x"}],
            [("/1", "blocked")],
            id="blocked",
        ),
        pytest.param(
            "storage.nfs", {"blocked": True}, [{"name": "a", **NFS}], [("/0", "blocked")], id="all"
        ),
        pytest.param(
            "compute.extendedResources",
            {"max": {"key": "x/a", "value": 2}},
            [{"resource": "x/a", "quantity": "2500m"}, {"resource": "x/b", "quantity": 9}],
            [("/0/quantity", "max")],
            id="max-of-one",
        ),
        pytest.param(
            "compute.extendedResources",
            {"max": 2},
            [{"resource": "x/a", "quantity": 3}, {"resource": "x/b", "quantity": 9}],
            [("/0/quantity", "max"), ("/1/quantity", "max")],
            id="max-of-all",
        ),
        pytest.param(
            "compute.extendedResources",
            {"step": {"key": "x/a", "value": 2}},
            [{"resource": "x/a", "quantity": 3}],
            [("/0/quantity", "step")],
            id="step",
        ),
        pytest.param(
            "labels",
            {"pattern": {"key": "team", "values": ["v*"]}},
            [{"name": "team", "value": "x"}, {"name": "other", "value": "x"}],
            [("/0/value", "pattern")],
            id="pattern-of-one",
        ),
        pytest.param(
            "environmentVariables",
            {"options": {"key": "MODE", "values": ["a", "b"]}},
            [{"name": "MODE", "value": "c"}],
            [("/0/value", "options")],
            id="options",
        ),
        pytest.param(
            "annotations",
            {"pattern": ["a*"]},
            [{"name": "x", "value": "b"}],
            [("/0/value", "pattern")],
            id="pattern-of-all",
        ),
        pytest.param(
            "labels.name",
            {"pattern": ["team.example.com/*"]},
            [{"name": "other", "value": "b"}],
            [("/0/name", "pattern")],
            id="keys",
        ),
        pytest.param(
            "storage.nfs.server",
            {"options": ["nas"]},
            [{"name": "a", **NFS, "server": "x"}],
            [("/0/server", "options")],
            id="attribute",
        ),
        pytest.param(
            "storage.nfs.readOnly",
            {"required": {"key": "a"}},
            [{"name": "a", **NFS}, {"name": "b", **NFS, "mountPath": "/b"}],
            [("/0/readOnly", "required")],
            id="attribute-of-one",
        ),
        pytest.param(
            "ports.container",
            {"min": 1024},
            [{"name": "web", "container": 80}],
            [("/0/container", "min")],
            id="min-of-an-attribute",
        ),
        pytest.param(
            "tolerations.effect",
            {"blocked": True},
            [{**GPU_TAINT, "effect": "NoExecute"}],
            [("/0/effect", "blocked")],
            id="blocked-attribute",
        ),
    ],
)
def test_items_are_judged(
    field: str, enforcement: JsonObject, items: Any, broken: list[tuple[str, str]]
) -> None:
    # The field of a rule may go on with an attribute.
    parts = field.split(".")
    home = ".".join(parts[: 2 if parts[0] in ("storage", "compute") else 1])
    snapshot = make_snapshot(flat(field, enforcement))

    answer = submit(snapshot, make_training(**nested(home, items)))

    at = f"/spec/{home.replace('.', '/')}"
    assert answer.broken == [(f"{at}{path}", rule) for path, rule in broken]


@pytest.mark.parametrize(
    ("rules", "items"),
    [
        pytest.param({"max": 2}, [{"resource": "x/a", "quantity": 3}], id="max"),
        pytest.param({"required": True}, [{"resource": "x/a"}], id="required"),
        pytest.param({"blocked": True}, [{"resource": "x/a", "quantity": 3}], id="blocked"),
    ],
)
def test_both_kinds_of_policy_judge_the_same(rules: JsonObject, items: Any) -> None:
    field = "compute.extendedResources"
    attributes = nested(field, {"attributes": {"quantity": rules}})
    submitted = make_training(**nested(field, items))

    one = submit(make_snapshot(flat(f"{field}.quantity", rules, name="p")), submitted)
    other = submit(make_snapshot(make_workload_policy(rules=attributes, name="p")), submitted)

    def told(answer: Any) -> list[tuple[Any, ...]]:
        return [
            (v.path, v.field, v.item, v.rule, v.problem, v.accepted, v.value)
            for v in answer.decision.violations
        ]

    assert told(one) == told(other) != []


def test_a_secret_of_an_item_is_never_printed() -> None:
    snapshot = make_snapshot(
        flat("environmentVariables", {"pattern": {"key": "TOKEN", "values": ["prefix-*"]}})
    )

    answer = submit(
        snapshot, make_training(environmentVariables=[{"name": "TOKEN", "value": "hunter2"}])
    )

    found = answer.violation
    assert (found.value, found.accepted) == ("(not shown)", "(not shown)")


def test_a_blocked_item_from_before_the_policy_may_stay() -> None:
    snapshot = make_snapshot(flat("labels", {"blocked": {"key": "team"}}))
    item = {"name": "team", "value": "x"}

    answer = submit(
        snapshot,
        make_training(labels=[item, {"name": "new", "value": "x"}]),
        old=make_training(labels=[item]),
    )

    assert answer.allowed


@pytest.mark.parametrize("selector", ["worker", "master"])
def test_roles_have_items_of_their_own(selector: str) -> None:
    kind = {**NATIVE, "kind": "DistributedTraining"}
    rule = make_rule("labels", selector, {"default": {"key": "role", "value": selector}})
    document = make_training()
    document |= {"kind": "DistributedTraining", "masterSpec": {"image": "x"}}
    document["spec"] |= {"distributedFramework": "PyTorch", "numWorkers": 1}

    answer = submit(make_snapshot(make_gvk_policy(rule, kind=kind)), document)

    role = "masterSpec" if selector == "master" else "spec"
    assert answer.at(f"/{role}/labels") == [{"name": "role", "value": selector}]


# --- scopes, and the two kinds of policy ----------------------------------------------------------


@pytest.mark.parametrize(("allowed", "wanted"), [(True, "narrow"), (False, "broad")])
def test_a_narrower_item_replaces_the_broader_one_where_it_may(allowed: bool, wanted: str) -> None:
    def gives(value: str) -> JsonObject:
        return {"default": {"key": "team", "value": value}}

    policies = [
        flat("labels", gives("broad"), allow_override=allowed, name="broad"),
        flat("labels", gives("narrow"), name="narrow", scope="project", unit="team-a"),
    ]

    answer = submit(make_snapshot(*policies), make_training())

    assert answer.at("/spec/labels") == [{"name": "team", "value": wanted}]
    assert [("never acts" in text) for text in warnings_of(*policies)] == [True] * (not allowed)


def test_one_key_has_one_holder_in_a_unit() -> None:
    one = flat("labels", {"default": {"key": "team", "value": "a"}})
    other = flat("labels", {"required": {"key": "team"}}, name="other")

    (error,) = errors_of(one, other)

    assert "field labels[team] already has rules in policy baseline, tenant" in error


def test_of_two_default_items_that_of_the_gvk_policy_counts_and_lint_names_both() -> None:
    instances = {"instances": [{"name": "team", "value": "b"}]}
    policies = [
        flat("labels", {"default": {"key": "team", "value": "a"}}),
        make_workload_policy(defaults={"labels": instances}),
    ]

    answer = submit(make_snapshot(*policies), make_training())

    assert answer.at("/spec/labels") == [{"name": "team", "value": "a"}]
    (warning,) = warnings_of(*policies)
    assert "default of labels[team] never acts where the GVKPolicy holds too" in warning


@pytest.mark.parametrize(
    ("value", "warned"),
    [
        pytest.param({"quantity": 1}, True, id="nothing-of-the-default-is-left"),
        pytest.param({}, False, id="the-default-completes-it"),
    ],
)
def test_lint_names_a_default_item_that_a_set_leaves_nothing_of(
    value: JsonObject, warned: bool
) -> None:
    field = "compute.extendedResources"
    policies = [
        flat(field, {"set": {"key": "x/a", "value": {"resource": "x/a", **value}}}),
        make_workload_policy(
            defaults=nested(field, {"instances": [{"resource": "x/a", "quantity": 2}]})
        ),
    ]

    assert [("its set counts" in text) for text in warnings_of(*policies)] == [True] * warned
    quantity = submit(make_snapshot(*policies), make_training()).at(
        "/spec/compute/extendedResources/0/quantity"
    )
    assert quantity == ("1" if warned else "2")


def test_a_locked_item_is_guarded_as_a_set_leaves_it() -> None:
    snapshot = make_snapshot(
        flat("labels", {"set": {"key": "team", "value": "a"}}),
        make_workload_policy(
            defaults={"labels": {"instances": [{"name": "team", "value": "b"}]}},
            rules={"labels": {"instances": {"locked": ["team"], "canAdd": False}}},
        ),
    )

    answer = submit(snapshot, make_training(labels=[{"name": "team", "value": "c"}]))

    assert answer.allowed
    assert answer.at("/spec/labels") == [{"name": "team", "value": "a"}]


def test_an_excluded_default_that_is_set_all_the_same_is_not_remembered() -> None:
    snapshot = make_snapshot(
        flat("labels", {"set": {"key": "team", "value": "a"}}),
        make_workload_policy(defaults={"labels": {"instances": [{"name": "team", "value": "b"}]}}),
    )

    answer = submit(snapshot, make_training(labels=[{"name": "team", "exclude": True}]))

    assert answer.at("/spec/labels") == [{"name": "team", "value": "a"}]
    assert "annotations" not in answer.document["metadata"]


def test_explain_shows_items_of_flat_policies() -> None:
    snapshot = make_snapshot(
        flat(
            "compute.extendedResources",
            {"default": {"key": "x/a", "value": 1}},
            {"max": {"key": "x/a", "value": 3}},
        ),
        flat("environmentVariables", {"set": {"key": "A", "value": "x"}}, name="hidden"),
    )
    policies = [
        policy
        for kind in snapshot.mappings
        if kind.kind == "Training" and kind.group == NATIVE["group"]
        for policy in snapshot.policies.policies_of(kind)
        if not policy.document.builtin
    ]

    assert [(told.field, told.rule, told.value) for told in explain(policies)] == [
        ("compute.extendedResources[x/a]", "default", {"resource": "x/a", "quantity": "1"}),
        ("compute.extendedResources[x/a]", "max", "3"),
        ("environmentVariables[A]", "set", "(not shown)"),
    ]


# --- what means nothing -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "enforcement", "problem"),
    [
        pytest.param(
            "labels",
            {"default": "x"},
            ".default: labels has items, so default takes {key: K, value: …}",
            id="no-key",
        ),
        pytest.param(
            "labels",
            {"required": {"keys": ["a"]}},
            '.required.keys: unknown field; did you mean "key"?',
            id="keys",
        ),
        pytest.param(
            "labels", {"set": {"value": "x"}}, ".set.key: is needed: it tells the item", id="set"
        ),
        pytest.param("labels", {"set": {"key": "team"}}, ".set.value: is needed", id="no-value"),
        pytest.param(
            "labels",
            {"default": {"key": 1, "value": "x"}},
            ".default.key: must be text, got number; it is the name of an item",
            id="key-of-a-wrong-type",
        ),
        pytest.param(
            "labels",
            {"default": {"key": "a", "value": {"name": "b"}}},
            ".default.value.name: is another one than the key 'a'",
            id="two-keys",
        ),
        pytest.param(
            "labels",
            {"set": {"key": "a b", "value": "x"}},
            ".set.key: the key 'a b' is no name of a label",
            id="no-label",
        ),
        pytest.param(
            "labels",
            {"max": {"key": "a", "value": 3}},
            ".max: a string field has no rule max; it has default, set, required, blocked, options",
            id="max-of-text",
        ),
        pytest.param(
            "environmentVariables",
            {"set": {"key": "A", "value": 5}},
            ".set.value: must be text, got number; put it in quotes",
            id="number-for-text",
        ),
        pytest.param(
            "labels",
            {"canAdd": False},
            ".canAdd: a GVKPolicy has no rule canAdd of items; a WorkloadPolicy has it",
            id="can-add",
        ),
        pytest.param(
            "labels",
            {"locked": ["a"]},
            ".locked: a GVKPolicy has no rule locked of items; set {key: K, value: …} keeps",
            id="locked",
        ),
        pytest.param(
            "storage.nfs",
            {"max": 3},
            ".max: max compares one value, and an item of storage.nfs has several; write it on"
            " field storage.nfs.A",
            id="no-one-value",
        ),
        pytest.param(
            "storage.nfs",
            {"default": {"key": "a", "value": "/x"}},
            ".default.value: must be an object of attributes (name, path,",
            id="value-of-several",
        ),
        pytest.param(
            "storage.nfs",
            {"default": {"key": "a", "server": "nas"}},
            ".default.server: is an attribute of an item: default takes {key: K, value: …}",
            id="attribute-beside-the-key",
        ),
        pytest.param(
            "storage.nfs",
            {"default": {"key": "a", "value": {**NFS, "sever": "x"}}},
            '.default.value.sever: unknown attribute; did you mean "server"?',
            id="misspelt-attribute",
        ),
        pytest.param(
            "storage.nfs.name",
            {"default": "x"},
            ".default: name tells the items apart; give an item on field storage.nfs",
            id="default-key",
        ),
        pytest.param(
            "labels.value",
            {"set": {"key": "a", "value": "b"}},
            ".set: is for every item; write set: {key: K, value: {value: V}} on field labels",
            id="set-attribute-of-one",
        ),
        pytest.param(
            "environmentVariables.value",
            {"set": "x"},
            ".set: would take every item its own source (one of value, secret,",
            id="set-a-source",
        ),
        pytest.param(
            "storage.pvc",
            {"set": {"key": "a", "value": {"existingPvc": True}}},
            ": storage.pvc.claimName[a]: set, which adds the item where it is missing: a claim"
            " needs a name",
            id="incomplete",
        ),
    ],
)
def test_what_means_nothing_says_what_to_write(
    field: str, enforcement: JsonObject, problem: str
) -> None:
    found = errors_of(flat(field, enforcement))

    assert len(found) == 1
    assert found[0].startswith(f"test.yaml#0: spec.rules[0].enforcements[0]{problem}")


def test_an_unknown_attribute_is_told_with_the_nearest_one() -> None:
    assert errors_of(flat("storage.nfs.sever", {"required": True})) == [
        "test.yaml#0: spec.rules[0].field: storage.nfs has no attribute 'sever';"
        ' did you mean "server"?'
    ]


@pytest.mark.parametrize(
    ("field", "enforcements", "problem"),
    [
        pytest.param(
            "labels",
            [{"required": {"key": "a"}}, {"blocked": {"key": "a"}}],
            "labels[a]: required, but blocked",
            id="required-and-blocked",
        ),
        pytest.param(
            "labels",
            [{"default": {"key": "a", "value": "x"}}, {"blocked": True}],
            "labels[a]: default, but all items are blocked",
            id="default-and-all-blocked",
        ),
        pytest.param(
            "labels",
            [{"set": {"key": "a", "value": "x"}}, {"pattern": ["v*"]}],
            "labels.value[a]: set x: matches no allowed pattern (like v*)",
            id="set-against-a-pattern",
        ),
        pytest.param(
            "compute.extendedResources",
            [{"min": {"key": "x/a", "value": 3}}, {"max": 2}],
            "compute.extendedResources.quantity[x/a]: min 3 is above max 2",
            id="min-of-one-and-max-of-all",
        ),
    ],
)
def test_rules_that_no_item_can_keep_are_refused(
    field: str, enforcements: list[JsonObject], problem: str
) -> None:
    (error,) = errors_of(flat(field, *enforcements))

    assert problem in error


def test_an_item_is_held_against_rules_of_the_other_kind_of_policy() -> None:
    field = "compute.extendedResources"
    rules = nested(field, {"attributes": {"quantity": {"max": 2}}})
    item = {"default": {"key": "x/a", "value": 3}}

    (error,) = errors_of(make_workload_policy(rules=rules), flat(field, item))

    assert "compute.extendedResources.quantity[x/a]: default 3: above the maximum (≤ 2)" in error


def test_nobody_can_add_an_item_that_is_required_where_none_may_be_added() -> None:
    closed = make_workload_policy(rules={"labels": {"instances": {"canAdd": False}}})

    (error,) = errors_of(closed, flat("labels", {"required": {"key": "team"}}))

    assert "required, but canAdd: false lets nobody add it, and no policy gives it" in error


def test_a_set_can_not_change_an_imposed_asset() -> None:
    asset = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "DataSource",
        "metadata": {"name": "data"},
        "spec": {"nfs": NFS},
    }
    changed = {"set": {"key": "data", "value": {**NFS, "path": "/other"}}}

    (error,) = errors_of(
        asset, make_workload_policy(imposedAssets=["data"]), flat("storage.nfs", changed)
    )

    assert "storage.nfs.path[data]: set /other, but an imposed asset stays as it is" in error
