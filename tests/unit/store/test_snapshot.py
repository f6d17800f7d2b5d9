"""What takes effect, and what is said about what does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POLICY_API,
    PYTORCH_JOB,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.errors import NotReadyError
from webhook.model.kinds import GroupVersionKind
from webhook.model.scopes import Branch
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.snapshot import Current


def problems_of(*documents: Any) -> list[str]:
    """`path: problem` of each."""
    return [f"{item.path}: {item.problem}" for item in make_snapshot(*documents).problems]


def make_mapping(**selectors: Any) -> dict[str, Any]:
    return {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {
            "workloadType": {"group": "acme.io", "version": "v1", "kind": "AcmeJob"},
            "specSelectors": selectors,
        },
    }


def make_group(name: str = "acmeJobSpec", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": POLICY_API,
        "kind": "FieldGroup",
        "metadata": {"name": name.lower()},
        "spec": {"name": name, "fields": fields},
    }


def rule(field: str = "image", selector: str = "allContainers", **enforcement: Any) -> Any:
    return make_gvk_policy(make_rule(field, selector, enforcement or {"required": True}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        pytest.param([], "is no Kubernetes object", id="list"),
        pytest.param({"kind": "Pod"}, "apiVersion and kind are needed", id="no-apiversion"),
        pytest.param(
            {"apiVersion": POLICY_API, "kind": "GVKPolcy", "metadata": {"name": "x"}},
            'did you mean "GVKPolicy"',
            id="misspelt-kind",
        ),
        pytest.param(
            {**rule(), "specs": {}}, 'specs: unknown field; did you mean "spec"', id="top"
        ),
        pytest.param({**rule(), "metadata": {}}, "metadata.name: a name is needed", id="no-name"),
        pytest.param({**rule(), "spec": None}, "spec: must be an object", id="no-spec"),
        pytest.param(
            make_gvk_policy(
                make_rule("image", "allContainers", {"required": True}, itemSelektor=1)
            ),
            'spec.rules[0].itemSelektor: unknown field; did you mean "itemSelector"',
            id="misspelt-rule-key",
        ),
        pytest.param(
            rule(field="imag"),
            "spec.rules[0].field: no field 'imag' at selector allContainers; did you mean \"image\"",
            id="misspelt-field",
        ),
        pytest.param(
            rule(field="hostNetwork"),
            "it is exposed at podSpec",
            id="field-of-another-selector",
        ),
        pytest.param(
            rule(selector="allContainer"), 'did you mean "allContainers"', id="misspelt-selector"
        ),
        pytest.param(
            rule(maxx=3), "spec.rules[0].enforcements[0].maxx: unknown rule", id="misspelt-rule"
        ),
        pytest.param(
            rule(max=3), "a string field has no rule max; it has default, set, required", id="type"
        ),
        pytest.param(
            rule(pattern="x"), "must be a list with at least one value", id="pattern-no-list"
        ),
        pytest.param(
            rule(default=True), "must be text, got boolean; put it in quotes", id="yaml11"
        ),
        pytest.param(rule(required="yes"), "must be true or false, got text", id="flag"),
        pytest.param(
            rule("resourceLimits", max={"value": 1}), "takes {key: K, value: …}", id="map-no-key"
        ),
        pytest.param(
            rule("resourceLimits", max={"key": "cpu", "value": "1K"}),
            "enforcements[0].max.value: must be a quantity",
            id="bad-quantity",
        ),
        pytest.param(
            rule("resourceLimits", max={"key": "cpu", "valu": 1}), 'did you mean "value"', id="valu"
        ),
        pytest.param(
            rule("labels", "metadata", default={"key": "a", "value": "12:30"}),
            "default.value: can't be the value of a label",
            id="label-value",
        ),
        pytest.param(
            rule("annotations", "metadata", set={"key": "a//b", "value": "x"}),
            "set.value: the key 'a//b' is no name of an annotation",
            id="annotation-key",
        ),
        pytest.param(rule("runAsUser", default="1.5"), "must be a whole number", id="integer"),
        pytest.param(
            make_gvk_policy(scope="projekt"), "spec.scope: must be one of system", id="scope"
        ),
        pytest.param(
            make_gvk_policy(scope="project"), "scope project needs the field project", id="unit"
        ),
        pytest.param(
            make_gvk_policy(kind={"kind": "Pod"}), "version and kind are needed", id="gvk"
        ),
        pytest.param(
            make_workload_policy(workload_type="trainin"), 'did you mean "training"', id="native"
        ),
        pytest.param(
            make_workload_policy(rules={"imagePolicy": {}}),
            'spec.rules.imagePolicy: unknown field; did you mean "imagePullPolicy"',
            id="native-field",
        ),
        pytest.param(
            make_workload_policy(rules={"compute": {"cpuCoreRequests": {}}}),
            'did you mean "cpuCoreRequest"',
            id="nested-native-field",
        ),
        pytest.param(
            make_workload_policy(rules={"compute": 3}),
            "must be an object, got number",
            id="section",
        ),
        pytest.param(
            make_workload_policy(rules={"createHomeDir": {"max": 1}}),
            "a boolean field has no rule max; it has canEdit, required, blocked",
            id="rule-of-another-type",
        ),
        pytest.param(
            make_workload_policy(defaults={"imagePullPolicy": False}),
            "spec.defaults.imagePullPolicy: must be text",
            id="native-yaml11",
        ),
        pytest.param(
            make_workload_policy(rules={"image": {"defaultFrom": {}}}),
            "a string field has no rule defaultFrom",
            id="derived-text",
        ),
        pytest.param(
            make_workload_policy(
                rules={"compute": {"cpuCoreRequest": {"defaultFrom": {"field": "cpuCoreLimits"}}}}
            ),
            "no numeric field 'cpuCoreLimits' beside it",
            id="derived-from-nothing",
        ),
        pytest.param(
            make_workload_policy(
                rules={
                    "compute": {
                        "cpuCoreRequest": {"defaultFrom": {"field": "cpuCoreLimit", "factor": "x"}}
                    }
                }
            ),
            "must be a number above 0",
            id="derived-by-no-number",
        ),
        pytest.param(
            make_workload_policy(mode="Wran"),
            "spec.mode: must be Enforce, Warn or Audit, got Wran",
            id="mode",
        ),
        pytest.param(
            rule("env", default=[{"name": "X", "value": 8}]),
            "default[0].value: must be text, got number; put it in quotes",
            id="env-value-of-yaml",
        ),
        pytest.param(
            make_workload_policy(rules={"backoffLimit": {"max": 8, "Max": 4}}),
            "spec.rules.backoffLimit.Max: the same rule stands at max",
            id="one-rule-twice",
        ),
        pytest.param(
            make_workload_policy(defaults={"Image": "a", "image": "b"}),
            "spec.defaults.image: the same field stands at spec.defaults.Image",
            id="one-field-twice",
        ),
        pytest.param(
            make_workload_policy(defaults={"compute": {"cpuCoreRequest": "9007199254740993.5"}}),
            "more digits than a number of an object can hold",
            id="a-number-that-no-float-is",
        ),
        pytest.param(
            make_workload_policy(defaults={"backoffLimit": 10**30}), "at most 64 bits", id="wide"
        ),
        pytest.param(
            {**rule(), "apiVersion": "policy.gatewrite.io/v1alpha1"},
            "is not ours: that is policy.gatewright.io",
            id="misspelt-group",
        ),
        pytest.param(make_mapping(a={"query": ".spec"}), "fieldGroups: is needed", id="no-groups"),
        pytest.param(
            make_mapping(a={"query": ".spec", "fieldGroups": ["podspek"]}),
            "no field group 'podspek'; did you mean \"podSpec\"",
            id="unknown-group",
        ),
        pytest.param(
            make_mapping(
                a={"query": ".a", "fieldGroups": ["metadata"], "dependency": {"specSelector": "b"}},
                b={"query": ".b", "fieldGroups": ["metadata"], "dependency": {"specSelector": "a"}},
            ),
            "depends on itself: a -> b -> a",
            id="dependency-cycle",
        ),
        pytest.param(
            make_mapping(
                a={"query": ".a", "fieldGroups": ["metadata"], "dependency": {"specSelector": "c"}}
            ),
            "no selector 'c'",
            id="unknown-parent",
        ),
        pytest.param(
            make_mapping(a={"query": "env.PATH", "fieldGroups": ["metadata"]}),
            "env",
            id="reads-environment",
        ),
        pytest.param(
            make_mapping(a={"query": ".spec", "fieldGroups": []}),
            "spec.specSelectors.a.fieldGroups: must not be empty",
            id="no-group-in-the-list",
        ),
        pytest.param(make_group(x={"specRef": "a..b"}), "spec.fields.x.specRef", id="bad-spec-ref"),
        pytest.param(
            make_group("podSpec", hostNetwork={"type": "boolean"}),
            "the group has this field already",
            id="system-field-redefined",
        ),
        pytest.param(
            {
                **make_mapping(a={"query": ".spec", "fieldGroups": ["metadata"]}),
                "spec": {
                    "workloadType": {"version": "v1", "kind": "Pod"},
                    "specSelectors": {"a": {"query": ".spec", "fieldGroups": ["metadata"]}},
                },
            },
            "has a mapping already",
            id="second-mapping-of-a-kind",
        ),
    ],
)
def test_a_wrong_document_is_named_with_path_and_reason(document: Any, wanted: str) -> None:
    (problem,) = problems_of(document)

    assert wanted in problem


@pytest.mark.parametrize(
    ("documents", "wanted"),
    [
        pytest.param(
            [
                make_workload_policy(
                    defaults={"backoffLimit": 9}, rules={"backoffLimit": {"max": 8}}
                )
            ],
            "default 9: above the maximum (≤ 8)",
            id="default-outside-its-own-rule",
        ),
        pytest.param(
            [
                make_workload_policy(rules={"backoffLimit": {"max": 8}}, name="a"),
                make_workload_policy(
                    defaults={"backoffLimit": 9}, name="b", scope="project", unit="p"
                ),
            ],
            "default 9: above the maximum (≤ 8); policy a, tenant",
            id="default-outside-an-inherited-rule",
        ),
        pytest.param(
            [make_workload_policy(rules={"backoffLimit": {"min": 5, "max": 4}})],
            "min 5 is above max 4",
            id="min-above-max",
        ),
        pytest.param(
            [make_workload_policy(rules={"image": {"required": True, "blocked": True}})],
            "required and blocked",
            id="required-and-blocked",
        ),
        pytest.param(
            [make_workload_policy(defaults={"image": "x"}, rules={"image": {"blocked": True}})],
            "default x: blocked by the policy",
            id="blocked-with-a-default",
        ),
        pytest.param(
            [make_workload_policy(rules={"image": {"options": ["a"], "pattern": ["b*"]}})],
            "no option satisfies the other rules",
            id="no-option-is-left",
        ),
        pytest.param(
            [make_workload_policy(rules={"image": {"canEdit": False, "required": True}})],
            "canEdit: false without a default",
            id="neither-given-nor-allowed",
        ),
        pytest.param(
            [
                make_workload_policy(rules={"image": {"required": True}}, name="a"),
                make_workload_policy(
                    rules={"image": {"pattern": ["x"]}}, name="b", scope="project", unit="p"
                ),
            ],
            "field image already has rules in policy a, tenant",
            id="second-rule-on-one-branch",
        ),
        pytest.param(
            [
                make_workload_policy(defaults={"image": "x"}, name="a"),
                make_workload_policy(defaults={"image": "y"}, name="b"),
            ],
            "field image already has a default in policy a, tenant",
            id="second-default-of-one-unit",
        ),
        pytest.param(
            [
                make_gvk_policy(make_rule("image", "allContainers", {"required": True}), name="a"),
                make_gvk_policy(make_rule("image", "allContainers", {"default": "x"}), name="b"),
            ],
            "field image already has rules in policy a, tenant",
            id="one-identity-twice-in-one-unit",
        ),
    ],
)
def test_a_policy_that_could_never_be_satisfied_is_refused(
    documents: list[Any], wanted: str
) -> None:
    (problem,) = problems_of(*documents)

    assert wanted in problem


def test_rules_and_defaults_of_system_policies_are_replaced_by_any_other() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            defaults={"terminationGracePeriodSeconds": 60},
            rules={"terminationGracePeriodSeconds": {"max": 3600}},
        )
    )

    answer = submit(snapshot, make_training(terminationGracePeriodSeconds=1200))

    assert snapshot.problems == ()
    assert answer.allowed
    assert submit(snapshot, make_training()).at("/spec/terminationGracePeriodSeconds") == 60


def test_key_words_and_native_names_are_read_in_any_case() -> None:
    policy = make_workload_policy(workload_type="Training")
    policy["spec"] |= {"Defaults": {"Compute": {"GPUDEVICEREQUEST": 2}}}
    del policy["spec"]["defaults"]

    snapshot = make_snapshot(policy)

    assert {item.warning for item in snapshot.problems} == {True}
    assert submit(snapshot, make_training()).at("/spec/compute/gpuDevicesRequest") == 2


def test_a_reference_that_is_not_there_yet_is_a_warning() -> None:
    policy = make_gvk_policy(kind={"group": "acme.io", "version": "v1", "kind": "AcmeJob"})

    snapshot = make_snapshot(policy)

    assert [problem.warning for problem in snapshot.problems] == [True]
    assert snapshot.documents == ()


def test_a_registered_kind_works_like_a_built_in_one() -> None:
    group = make_group(
        parallelism={"formatter": "KeyValue", "type": "integer"},
        privileged={"specRef": "securityContext.privileged", "type": "boolean"},
    )
    mapping = make_mapping(
        acmeJobSpec={
            "query": ".spec",
            "fieldGroups": ["acmeJobSpec"],
            "dependency": {"path": "spec"},
        },
        acmePodSpec={
            "query": ".spec.template.spec",
            "fieldGroups": ["podSpec", "podSpecAndContainer"],
            "dependency": {"specSelector": "acmeJobSpec", "path": "template.spec"},
        },
    )
    policy = make_gvk_policy(
        make_rule("parallelism", "acmeJobSpec", {"max": 4}, {"default": 2}),
        make_rule("privileged", "acmeJobSpec", {"set": False}),
        make_rule("hostNetwork", "acmePodSpec", {"default": False}),
        kind={"group": "acme.io", "version": "v1", "kind": "AcmeJob"},
    )
    # The order of documents does not matter.
    snapshot = make_snapshot(policy, mapping, group)

    answer = submit(snapshot, {"apiVersion": "acme.io/v1", "kind": "AcmeJob", "metadata": {}})

    assert snapshot.problems == ()
    assert answer.patch == [
        {
            "op": "add",
            "path": "/spec",
            "value": {
                "securityContext": {"privileged": False},
                "parallelism": 2,
                "template": {"spec": {"hostNetwork": False}},
            },
        }
    ]


def test_key_words_of_rules_are_read_in_any_case() -> None:
    policy = make_gvk_policy()
    policy["spec"]["Rules"] = [
        {
            "Field": "resourceLimits",
            "SpecSelector": "allContainers",
            "Enforcements": [{"Max": {"Key": "cpu", "Value": 4}}],
        }
    ]
    del policy["spec"]["rules"]
    container = make_container(resources={"limits": {"cpu": 5}})

    assert not submit(make_snapshot(policy), make_pod(containers=[container])).allowed


def test_of_several_types_those_with_a_mapping_are_in_force() -> None:
    missing = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}
    policy = make_workload_policy(
        rules={"image": {"required": True}}, workload_type=["training", missing]
    )

    snapshot = make_snapshot(policy)

    assert [str(problem) for problem in snapshot.problems if problem.warning] != []
    assert not submit(snapshot, make_training()).allowed


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(rule("resourceLimits", max={"key": "cpu", "value": 10**20}), id="wide-bound"),
        pytest.param(make_workload_policy(rules={"image": {"x": [{}] * 3}}), id="shape"),
    ],
)
def test_an_odd_document_does_not_keep_the_others_from_force(document: Any) -> None:
    nested: Any = {}
    for _ in range(450):
        nested = {"a": nested}
    deep = {**make_gvk_policy(name="deep"), "spec": nested}
    document = {**document, "metadata": {"name": "odd"}}

    snapshot = make_snapshot(document, deep, GOOD)

    assert not submit(snapshot, WEAK).allowed


@pytest.mark.parametrize(
    ("group", "rule_", "wanted"),
    [
        pytest.param(
            {"x": {"notBelow": "nope"}},
            make_rule("x", "s", {"max": 1}),
            "notBelow of field 'x': no field 'nope' here",
            id="relation-to-nothing",
        ),
        pytest.param(
            {"x": {"type": "integer", "notBelow": "y"}, "y": {"type": "string"}},
            make_rule("x", "s", {"max": 1}),
            "field 'y' has another type",
            id="relation-to-another-type",
        ),
        pytest.param(
            {"x": {"type": "boolean", "notWithItem": {"field": "nope", "item": "a"}}},
            make_rule("x", "s", {"default": False}),
            "notWithItem of field 'x': no field 'nope' here",
            id="relation-to-an-item-of-nothing",
        ),
        pytest.param(
            {
                "x": {"type": "strings", "itemNotWithout": {"field": "y", "item": "a"}},
                "y": {"type": "string"},
            },
            make_rule("x", "s", {"default": ["a"]}),
            "itemNotWithout of field 'x': is for strings, and 'y' has to be boolean",
            id="relation-of-an-item-to-another-type",
        ),
        pytest.param(
            {"x": {"formatter": "KeyValueMap", "type": "integer", "format": "label"}},
            make_rule("x", "s", {"default": {"key": "a", "value": 5}}),
            "must be text, got number",
            id="label-that-is-a-number",
        ),
        pytest.param(
            {"x": {"type": "number"}},
            make_rule("x", "s", {"default": "1" * 350 + ".5"}),
            "more digits than a number of an object can hold",
            id="number-beyond-floats",
        ),
    ],
)
def test_a_registered_field_that_cannot_work_is_named(group: Any, rule_: Any, wanted: str) -> None:
    snapshot = make_snapshot(
        make_group(**group),
        make_mapping(s={"query": ".spec", "fieldGroups": ["acmeJobSpec"]}),
        make_gvk_policy(rule_, kind={"group": "acme.io", "version": "v1", "kind": "AcmeJob"}),
    )

    assert wanted in snapshot.problems[0].problem


def test_untyped_values_of_different_types_are_named_not_compared() -> None:
    group = make_group(x={})
    mapping = make_mapping(s={"query": ".spec", "fieldGroups": ["acmeJobSpec"]})
    policy = make_gvk_policy(
        make_rule("x", "s", {"default": "abc"}, {"max": 5}),
        kind={"group": "acme.io", "version": "v1", "kind": "AcmeJob"},
    )

    (problem,) = make_snapshot(group, mapping, policy).problems

    assert "the values are of different types" in problem.problem


def test_a_broken_document_does_not_displace_a_good_one_of_its_file() -> None:
    """Its last good version stands in only where nobody else supplies it."""
    first = make_snapshot(GOOD)
    broken = {**make_gvk_policy(name=""), "metadata": {}}

    second = make_snapshot(broken, GOOD, previous=first)

    assert [problem.path for problem in second.problems] == ["metadata.name"]


def test_a_named_project_has_the_department_of_its_queue() -> None:
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "vision"},
        "spec": {"parentQueue": "research"},
    }

    branch = make_snapshot(queue).branch("default", project="vision")

    assert branch == Branch("", "research", "vision")


GOOD = make_gvk_policy(make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}))
BROKEN = make_gvk_policy(make_rule("imag", "allContainers", {"pattern": ["ghcr.io/*"]}))
WEAK = make_pod(containers=[make_container(image="docker.io/x")])


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([SourceFile("test.yaml", error="line 3: broken")], id="file-unreadable"),
        pytest.param("compile", id="does-not-compile"),
        pytest.param("parse", id="does-not-parse"),
    ],
)
def test_the_last_good_version_stays_in_force(files: Any) -> None:
    first = make_snapshot(GOOD)
    match files:
        case "compile":
            second = make_snapshot(BROKEN, previous=first)
        case "parse":
            second = make_snapshot({**GOOD, "spec": {"scope": "tenant"}}, previous=first)
        case _:
            second = build_snapshot(files, EngineSettings(), previous=first)

    assert second.problems != ()
    assert not submit(second, WEAK).allowed


def test_a_new_replica_does_not_enforce_a_broken_document() -> None:
    assert submit(make_snapshot(BROKEN), WEAK).allowed


def test_a_document_that_is_gone_is_no_longer_in_force() -> None:
    first = make_snapshot(GOOD)

    assert submit(make_snapshot(previous=first), WEAK).allowed


def test_names_are_unique_without_regard_to_case() -> None:
    (problem,) = problems_of(
        make_gvk_policy(name="Baseline"), make_gvk_policy(name="baseline", kind=DEPLOYMENT)
    )

    assert "has this name already" in problem


def test_the_revision_follows_the_content_only() -> None:
    assert make_snapshot(GOOD).revision == make_snapshot(GOOD).revision
    assert make_snapshot(GOOD).revision != make_snapshot(make_gvk_policy()).revision


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({}, Branch("c1", "", "ns"), id="the-namespace-itself"),
        pytest.param({"runai/queue": "p"}, Branch("c1", "d", "p"), id="department-from-kai-queue"),
        pytest.param(
            {"kai.scheduler/queue": "q", "gatewright.io/department": "e"},
            Branch("c1", "e", "q"),
            id="labels",
        ),
    ],
)
def test_a_branch_comes_from_the_namespace(labels: dict[str, str], want: Branch) -> None:
    snapshot = make_snapshot(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": labels}},
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "p"},
            "spec": {"parentQueue": "d"},
        },
        settings=EngineSettings(cluster_name="c1"),
    )

    assert snapshot.branch("ns") == want


def test_a_policy_of_a_cluster_holds_in_that_one_only() -> None:
    policies = [
        make_gvk_policy(
            make_rule("image", "allContainers", {"pattern": ["a"]}), scope="cluster", name="here"
        ),
        make_gvk_policy(
            make_rule("image", "allContainers", {"pattern": ["b"]}),
            scope="cluster",
            unit="other",
            name="there",
        ),
    ]
    snapshot = make_snapshot(*policies, settings=EngineSettings(cluster_name="c1"))

    plan = snapshot.plan(GroupVersionKind("", "v1", "Pod"), snapshot.branch("ns"))

    assert plan is not None
    assert [source.policy for source in plan.consulted] == ["here"]


def test_nothing_is_served_before_the_first_snapshot() -> None:
    current = Current()
    with pytest.raises(NotReadyError):
        _ = current.snapshot
    current.replace(make_snapshot())

    assert current.ready


def test_plans_do_not_grow_with_namespaces() -> None:
    snapshot = make_snapshot(
        make_gvk_policy(make_rule("replicas", "worker", {"max": 1}), kind=PYTORCH_JOB)
    )
    kind = GroupVersionKind("kubeflow.org", "v1", "PyTorchJob")

    plans = {id(snapshot.plan(kind, snapshot.branch(f"ns-{index}"))) for index in range(100)}

    assert len(plans) == 1
