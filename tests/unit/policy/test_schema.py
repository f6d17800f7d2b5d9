"""What a native workload itself must satisfy: names, types, limits, keys; and updates of it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.catalog import native_rows
from webhook.model.decision import NOT_SHOWN
from webhook.model.kinds import NATIVE_KINDS
from webhook.model.pointer import lookup, to_pointer
from webhook.policy.native.conditions import CONDITIONS
from webhook.policy.native.schema import SchemaProblem, judge_native, judge_native_update
from webhook.policy.native.shape import shape_of

JsonObject = dict[str, Any]

# More than any JSON number of 64 bits, more digits than Python prints.
HUGE = 10**5000


def make_native(workload_type: str, spec: Any, **more: Any) -> JsonObject:
    kind = NATIVE_KINDS[workload_type]
    if workload_type == "distributedInference" and isinstance(spec, dict):
        spec = {"leader": {}, **spec}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "w", "namespace": "team-a"},
        "spec": spec,
        **more,
    }


def judge(workload_type: str, spec: Any, **more: Any) -> list[SchemaProblem]:
    return judge_native(workload_type, make_native(workload_type, spec, **more), native_rows())


def judge_update(old: Any, new: Any, workload_type: str = "training") -> list[SchemaProblem]:
    before = make_native(workload_type, old)
    return judge_native_update(
        workload_type, make_native(workload_type, new), before, native_rows()
    )


def found(problems: list[SchemaProblem]) -> list[tuple[str, str]]:
    return [(to_pointer(problem.path), problem.check) for problem in problems]


def variables(*items: Any) -> JsonObject:
    return {"environmentVariables": list(items)}


@pytest.mark.parametrize("workload_type", sorted(NATIVE_KINDS))
@pytest.mark.parametrize("spec", [{}, None, {"image": "ubuntu"}], ids=["empty", "null", "image"])
def test_a_plain_workload_of_every_type_is_right(workload_type: str, spec: Any) -> None:
    if workload_type == "distributedInference":
        spec = {"leader": spec or {}}
    assert judge(workload_type, spec) == []


def test_a_workload_with_a_value_in_every_section_is_right() -> None:
    spec = {
        "image": "ubuntu",
        "command": "python",
        "nodePools": ["a", "b"],
        "labels": [{"name": "app", "value": "x"}],
        "compute": {
            "cpuCoreRequest": "500m",
            "cpuMemoryLimit": "4Gi",
            "extendedResources": [{"resource": "example.com/nic", "quantity": 2}],
        },
        "storage": {
            "hostPath": [{"name": "data", "path": "/data", "readOnly": True}],
            "configMapVolume": [{"configMap": "c", "mountPath": "/c", "defaultMode": "0644"}],
            "nfs": None,
        },
        "ports": [{"name": "ui", "container": 8888, "serviceType": "NodePort"}],
        "security": {"runAsUid": "1000", "capabilities": ["NET_ADMIN"]},
        "nodeAffinityRequired": {"nodeSelectorTerms": [{"anything": 1}]},
        "probes": {"readiness": {"periodSeconds": 5}},
        "tolerations": [{"operator": "Exists"}, {"key": "gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
    }
    assert judge("training", spec, status={"phase": {"any": "thing"}}) == []


@pytest.mark.parametrize(
    "storage",
    [
        {"hostPath": [{"path": "h3-path-1", "mountPath": "h3-mount-1", "readOnly": True}]},
        {"git": [{"branch": "master", "path": "/repo", "passwordSecret": "s", "repository": "r"}]},
        {"nfs": [{"path": "p", "readOnly": True, "server": "s", "mountPath": "m"}]},
        {"s3": [{"bucket": "b", "path": "/s3", "accessKeySecret": "a", "url": "https://s3"}]},
        {
            "pvc": [
                {
                    "claimName": "pvc-home",
                    "existingPvc": True,
                    "path": "/myhome",
                    "readOnly": False,
                    "claimInfo": {"accessModes": {"readWriteMany": True}},
                }
            ]
        },
    ],
    ids=lambda storage: next(iter(storage)),
)
def test_items_of_the_policy_reference_are_right(storage: JsonObject) -> None:
    assert judge("training", {"storage": storage}) == []


# -- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload_type", "spec", "pointer", "field", "accepted"),
    [
        pytest.param(
            "training", {"imge": "x"}, "/spec/imge", "imge", 'did you mean "image"?', id="slip"
        ),
        pytest.param(
            "training",
            {"compute": {"gpuDeviceRequest": 1}},
            "/spec/compute/gpuDeviceRequest",
            "compute.gpuDeviceRequest",
            'did you mean "gpuDevicesRequest"?',
            id="spelling-that-only-policies-may-use",
        ),
        pytest.param(
            "training",
            {"Image": "x"},
            "/spec/Image",
            "Image",
            'did you mean "image"?',
            id="case-counts-in-an-object",
        ),
        pytest.param(
            "training",
            {"runAsUid": 5},
            "/spec/runAsUid",
            "runAsUid",
            'did you mean "security.runAsUid"?',
            id="in-another-section",
        ),
        pytest.param(
            "training",
            {"storage": {"pvc": [{"claimName": "c", "existingPvc": True, "size": "1Gi"}]}},
            "/spec/storage/pvc/0/size",
            "storage.pvc.size",
            'did you mean "claimInfo.size"?',
            id="attribute-in-a-section-of-an-item",
        ),
        pytest.param(
            "training",
            variables({"name": "A", "secret": {"nme": "s", "name": "s", "key": "k"}}),
            "/spec/environmentVariables/0/secret/nme",
            "environmentVariables.secret.nme",
            'did you mean "name"?',
            id="nested-attribute",
        ),
        pytest.param(
            "distributedInference",
            {"image": "x"},
            "/spec/image",
            "image",
            'did you mean "spec.leader.image" or "spec.worker.image"?',
            id="of-the-roles",
        ),
        pytest.param(
            "nimService",
            {"autoscaling": {"nothing-like-it": 1}},
            "/spec/autoscaling/nothing-like-it",
            "autoscaling.nothing-like-it",
            "known: maxReplicas, metric, metricThreshold, minReplicas, scaleWindowSeconds",
            id="near-none",
        ),
        pytest.param(
            "training",
            {"a/b~c": 1},
            "/spec/a~1b~0c",
            "a/b~c",
            None,
            id="a-name-that-pointers-escape",
        ),
    ],
)
def test_an_unknown_field_is_answered_with_the_nearest_name(
    workload_type: str, spec: JsonObject, pointer: str, field: str, accepted: str | None
) -> None:
    (problem,) = judge(workload_type, spec)

    assert (to_pointer(problem.path), problem.kind, problem.check) == (pointer, "schema", "unknown")
    assert (problem.field, problem.problem) == (field, "unknown field")
    assert accepted is None or problem.accepted == accepted


def test_the_value_of_an_unknown_field_is_not_shown() -> None:
    """A misspelt `environmentVariables` holds what the right one would."""
    (problem,) = judge("training", {"enviromentVariables": [{"name": "A", "value": "hush"}]})

    assert problem.value is None
    assert "hush" not in repr(problem)


def test_unknown_fields_outside_the_spec_are_answered_too() -> None:
    problems = judge("distributed", {}, masterspec={}, status={}, masterSpecSameAsWorker=False)

    assert found(problems) == [("/masterspec", "unknown")]
    assert problems[0].accepted == 'did you mean "masterSpec"?'


def test_a_role_has_only_its_own_fields() -> None:
    (problem,) = judge("distributed", {"numWorkers": 2}, masterSpec={"numWorkers": 2})

    assert (problem.selector, to_pointer(problem.path)) == ("master", "/masterSpec/numWorkers")
    assert problem.accepted == 'did you mean "spec.numWorkers"?'


def test_an_unknown_field_that_is_null_is_absent() -> None:
    assert judge("training", {"nothing": None, "compute": None, "tolerations": None}) == []


# -- types ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "pointer", "got", "accepted"),
    [
        pytest.param({"image": 5}, "/spec/image", 5, "text", id="number-for-text"),
        pytest.param(
            {"tty": "yes"},
            "/spec/tty",
            "yes",
            'true or false, not the text "yes"',
            id="text-for-boolean",
        ),
        pytest.param({"tty": "often"}, "/spec/tty", "often", "true or false", id="other-text"),
        pytest.param({"tty": 1}, "/spec/tty", 1, "true or false", id="number-for-boolean"),
        pytest.param(
            {"backoffLimit": "six"}, "/spec/backoffLimit", "six", "a whole number", id="no-number"
        ),
        pytest.param(
            {"backoffLimit": 1.5}, "/spec/backoffLimit", 1.5, "a whole number", id="no-whole-number"
        ),
        pytest.param(
            {"backoffLimit": True}, "/spec/backoffLimit", True, "a whole number", id="boolean"
        ),
        pytest.param(
            {"backoffLimit": ""}, "/spec/backoffLimit", "", "a whole number", id="empty-text"
        ),
        pytest.param(
            {"compute": {"cpuCoreRequest": math.nan}},
            "/spec/compute/cpuCoreRequest",
            "nan",
            "a number",
            id="nan",
        ),
        pytest.param(
            {"compute": {"cpuCoreRequest": -math.inf}},
            "/spec/compute/cpuCoreRequest",
            "-inf",
            "a number",
            id="infinity",
        ),
        pytest.param(
            {"compute": {"gpuDevicesRequest": HUGE}},
            "/spec/compute/gpuDevicesRequest",
            f"an integer of {HUGE.bit_length()} bits",
            "a whole number",
            id="beyond-every-number",
        ),
        pytest.param(
            {"compute": {"cpuMemoryRequest": "4 Gi"}},
            "/spec/compute/cpuMemoryRequest",
            "4 Gi",
            "a quantity such as 500m, 2 or 4Gi",
            id="malformed-quantity",
        ),
        pytest.param(
            {"nodePools": "a"}, "/spec/nodePools", "a", "a list of texts", id="text-for-list"
        ),
        pytest.param(
            {"nodePools": ["a", 1]},
            "/spec/nodePools",
            ["a", 1],
            "a list of texts",
            id="number-in-a-list-of-texts",
        ),
        pytest.param(
            {"nodePools": ["a", None]},
            "/spec/nodePools",
            "list",
            "a list of texts",
            id="null-in-a-list",
        ),
        pytest.param({"compute": "big"}, "/spec/compute", "text", "an object", id="section"),
        pytest.param({"storage": []}, "/spec/storage", "list", "an object", id="list-for-section"),
        pytest.param(
            {"labels": {"app": "x"}},
            "/spec/labels",
            "object",
            'a list of objects with "name"',
            id="map-for-items",
        ),
        pytest.param(
            {"tolerations": ["gpu"]},
            "/spec/tolerations/0",
            "text",
            'an object with "name"',
            id="text-for-an-item",
        ),
        pytest.param(
            {"tolerations": [None]},
            "/spec/tolerations/0",
            "null",
            'an object with "name"',
            id="null-for-an-item",
        ),
        pytest.param(
            {"compute": {"extendedResources": [{"resource": "a/b", "quantity": "many"}]}},
            "/spec/compute/extendedResources/0/quantity",
            "many",
            "a quantity such as 500m, 2 or 4Gi",
            id="quantity-of-an-extended-resource",
        ),
        pytest.param(
            {"compute": {"extendedResources": [{"resource": 5, "quantity": 1}]}},
            "/spec/compute/extendedResources/0/resource",
            5,
            "text",
            id="key-of-the-wrong-type",
        ),
        pytest.param(
            {"labels": [{"name": "a", "exclude": "yes"}]},
            "/spec/labels/0/exclude",
            "yes",
            'true or false, not the text "yes"',
            id="exclude",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(
    spec: JsonObject, pointer: str, got: Any, accepted: str
) -> None:
    (problem,) = judge("training", spec)

    assert (to_pointer(problem.path), problem.kind) == (pointer, "type")
    assert problem.problem == "has the wrong type"
    assert (problem.value, problem.accepted) == (got, accepted)


@pytest.mark.parametrize("spec", ["x", [], 5, True], ids=repr)
@pytest.mark.parametrize("workload_type", sorted(NATIVE_KINDS))
def test_a_spec_that_is_no_object_is_one_problem(workload_type: str, spec: Any) -> None:
    assert found(judge(workload_type, spec)) == [("/spec", "type")]


@pytest.mark.parametrize(
    "compute",
    [
        {"cpuCoreRequest": "1", "cpuCoreLimit": "1000m"},
        {"cpuCoreRequest": 0.5, "gpuDevicesRequest": "2"},
        {"gpuDevicesRequest": 1.0, "cpuMemoryRequest": 1073741824},
        {"cpuMemoryRequest": "1e9", "cpuMemoryLimit": "1G"},
    ],
    ids=repr,
)
def test_numeric_text_and_quantities_count_as_their_amount(compute: JsonObject) -> None:
    assert judge("training", {"compute": compute}) == []


# -- enums, bounds, forms -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload_type", "spec", "pointer", "problem", "accepted"),
    [
        pytest.param(
            "training",
            {"imagePullPolicy": "always"},
            "/spec/imagePullPolicy",
            "not an allowed value",
            "one of Always, Never, IfNotPresent",
            id="enum",
        ),
        pytest.param(
            "training",
            {"tolerations": [{"key": "a", "effect": "NoWay"}]},
            "/spec/tolerations/0/effect",
            "not an allowed value",
            "one of NoSchedule, NoExecute, PreferNoSchedule, Any",
            id="enum-of-an-attribute",
        ),
        pytest.param(
            "distributedInference",
            {"restartPolicy": "Always"},
            "/spec/restartPolicy",
            "not an allowed value",
            "one of RecreateGroupOnPodRestart, None",
            id="enum-that-differs-by-type",
        ),
        pytest.param(
            "workspace",
            {"ports": [{"name": "ui", "container": 65536}]},
            "/spec/ports/0/container",
            "above the maximum",
            "≥ 1 and ≤ 65535",
            id="port",
        ),
        pytest.param(
            "inference",
            {"servingPort": {"container": 0}},
            "/spec/servingPort/container",
            "below the minimum",
            "≥ 1 and ≤ 65535",
            id="port-zero",
        ),
        pytest.param(
            "inference",
            {"autoscaling": {"metricThresholdPercentage": 100.5}},
            "/spec/autoscaling/metricThresholdPercentage",
            "above the maximum",
            "≥ 1 and ≤ 100",
            id="percentage",
        ),
        pytest.param(
            "distributed",
            {"numWorkers": 0},
            "/spec/numWorkers",
            "below the minimum",
            "≥ 1",
            id="number-of-workers",
        ),
        pytest.param(
            "training",
            {"compute": {"cpuCoreRequest": "-1m"}},
            "/spec/compute/cpuCoreRequest",
            "below the minimum",
            "≥ 0",
            id="negative",
        ),
        pytest.param(
            "training",
            {"compute": {"gpuPortionLimit": "1.01"}},
            "/spec/compute/gpuPortionLimit",
            "above the maximum",
            "≥ 0 and ≤ 1",
            id="portion-limit",
        ),
        pytest.param(
            "training",
            {"labels": [{"name": "n" * 64, "value": "x"}]},
            "/spec/labels/0/name",
            "too long",
            "at most 63 characters",
            id="label-name",
        ),
        pytest.param(
            "training",
            {"annotations": [{"name": "n" * 64, "value": "x"}]},
            "/spec/annotations/0/name",
            "too long",
            "at most 63 characters",
            id="annotation-name",
        ),
        pytest.param(
            "training",
            {"storage": {"secretVolume": [{"secret": "s", "defaultMode": "644"}]}},
            "/spec/storage/secretVolume/0/defaultMode",
            "has the wrong form",
            "text that matches 0[0-7]{3}",
            id="file-mode",
        ),
        pytest.param(
            "inference",
            {"autoscaling": {"metric": "1st", "metricThreshold": 5}},
            "/spec/autoscaling/metric",
            "has the wrong form",
            "text that matches [a-zA-Z_:][a-zA-Z0-9_:]*",
            id="metric-name",
        ),
    ],
)
def test_a_value_outside_its_limits_is_refused(
    workload_type: str, spec: JsonObject, pointer: str, problem: str, accepted: str
) -> None:
    (first,) = judge(workload_type, spec)

    assert (to_pointer(first.path), first.kind) == (pointer, "schema")
    assert (first.problem, first.accepted) == (problem, accepted)


def test_bounds_are_included() -> None:
    spec = {"servingPort": {"container": 65535}, "autoscaling": {"metricThresholdPercentage": 1}}

    assert judge("inference", spec) == []


@pytest.mark.parametrize("field", ["imagePullPolicy", "restartPolicy", "image"])
def test_an_empty_text_is_no_choice(field: str) -> None:
    assert judge("training", {field: ""}) == []


# -- keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "pointer", "item"),
    [
        pytest.param(
            variables(
                {"name": "A", "value": "1"}, {"name": "B", "value": ""}, {"name": "A", "value": "1"}
            ),
            "/spec/environmentVariables/2/name",
            "A",
            id="equal-items",
        ),
        pytest.param(
            variables({"name": "A", "exclude": True}, {"name": "A", "value": "1"}),
            "/spec/environmentVariables/1/name",
            "A",
            id="one-is-excluded",
        ),
        pytest.param(
            {"compute": {"extendedResources": [{"resource": "a/b", "quantity": 1}] * 2}},
            "/spec/compute/extendedResources/1/resource",
            "a/b",
            id="key-of-another-name",
        ),
        pytest.param(
            {"storage": {"dataVolume": [{"id": "7"}, {"id": "7"}]}},
            "/spec/storage/dataVolume/1/id",
            "7",
            id="id",
        ),
    ],
)
def test_two_items_with_one_key_are_refused(spec: JsonObject, pointer: str, item: str) -> None:
    (problem,) = judge("training", spec)

    assert (to_pointer(problem.path), problem.kind, problem.item) == (pointer, "unique", item)


def test_items_without_a_key_are_items_of_their_own() -> None:
    taints = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists", "name": ""}]

    assert judge("training", {"tolerations": [*taints, *copy.deepcopy(taints)]}) == []


def test_keys_of_different_roles_do_not_meet() -> None:
    spec = variables({"name": "A", "value": ""})

    assert judge("distributed", spec, masterSpec=copy.deepcopy(spec)) == []


def test_an_item_without_a_key_goes_by_its_index() -> None:
    (problem,) = judge("training", {"tolerations": [{"key": "a"}, {"key": 5}]})

    assert (problem.field, problem.item) == ("tolerations.key", "1")


# -- secrets --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        pytest.param(variables({"name": "A", "value": 5150}), "number", id="variable"),
        pytest.param(variables({"name": "A", "value": ["5150"]}), "list", id="list-for-variable"),
        pytest.param({"args": ["5150"]}, "list", id="arguments"),
        pytest.param({"command": 5150}, "number", id="command"),
        pytest.param({"annotations": [{"name": "a", "value": 5150}]}, "number", id="annotation"),
        pytest.param({"tty": {"token": "5150"}}, "object", id="an-object-anywhere"),
        pytest.param({"nodePools": [["5150"]]}, "list", id="a-list-anywhere"),
    ],
)
def test_of_a_hidden_value_only_the_type_is_named(spec: JsonObject, shown: str) -> None:
    (problem,) = judge("training", spec)

    assert problem.value == shown
    assert "5150" not in repr(problem)


def test_a_hidden_value_that_is_refused_for_itself_is_not_shown() -> None:
    rows = {
        "token": {
            "type": "string",
            "workloads": {"training": ["spec"]},
            "maxLength": 3,
            "sensitive": True,
        }
    }

    (problem,) = judge_native("training", make_native("training", {"token": "5150"}), rows)

    assert (problem.check, problem.value) == ("maxLength", NOT_SHOWN)
    assert "5150" not in repr(problem)


def test_long_values_are_cut() -> None:
    (problem,) = judge("training", {"imagePullPolicy": "x" * 100_000})

    assert len(problem.value) < 200


def test_long_names_are_cut() -> None:
    name = "x" * 100_000
    problems = judge("training", {name: 1, **variables({"name": name, "value": 1})})

    assert all(len(problem.field) + len(problem.item) < 400 for problem in problems)


# -- updates --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"imge": "a"}, {"imge": "a", "image": "b"}, id="unknown-field"),
        pytest.param({"tty": 1}, {"tty": 1}, id="type"),
        pytest.param(
            variables({"name": "A", "value": 1}),
            variables({"name": "B", "value": ""}, {"name": "A", "value": 1}),
            id="item-that-moved",
        ),
        pytest.param(
            variables({"name": "A"}, {"name": "A"}),
            variables({"name": "A"}, {"name": "A", "value": "x"}),
            id="same-two-keys",
        ),
        pytest.param(
            {"compute": {"cpuCoreRequest": 2, "cpuCoreLimit": 1}},
            {"image": "b", "compute": {"cpuCoreRequest": 2, "cpuCoreLimit": 1}},
            id="condition",
        ),
        pytest.param(
            {"compute": {"cpuCoreRequest": 4, "cpuCoreLimit": 1}},
            {"compute": {"cpuCoreRequest": 4, "cpuCoreLimit": 2}},
            id="condition-less-bad",
        ),
        pytest.param({"backoffLimit": -5}, {"backoffLimit": -2}, id="bound-less-bad"),
        pytest.param({"backoffLimit": -1}, {"backoffLimit": "-1"}, id="bound-spelt-anew"),
        pytest.param(
            {"compute": {"cpuCoreRequest": 2, "cpuCoreLimit": 1}},
            {"compute": {"cpuCoreRequest": "2000m", "cpuCoreLimit": "1"}},
            id="condition-spelt-anew",
        ),
    ],
)
def test_an_update_may_leave_a_problem_or_make_it_less_bad(
    old: JsonObject, new: JsonObject
) -> None:
    assert judge("training", new) != []
    assert judge_update(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        pytest.param({}, {"imge": "a"}, "unknown", id="new-field"),
        pytest.param({"imge": "a"}, {"imge": "b"}, "unknown", id="new-value"),
        pytest.param({"tty": 1}, {"tty": 2}, "type", id="another-wrong-type"),
        pytest.param({"tty": 1}, {"tty": "1"}, "type", id="a-wrong-type-of-another-kind"),
        pytest.param({"backoffLimit": -2}, {"backoffLimit": -5}, "min", id="worse"),
        pytest.param(
            {"compute": {"cpuCoreRequest": 2, "cpuCoreLimit": 2}},
            {"compute": {"cpuCoreRequest": 3, "cpuCoreLimit": 2}},
            "cpu-core-limit",
            id="the-other-field-of-a-condition",
        ),
        pytest.param(
            variables(*[{"name": "A", "value": ""}] * 2),
            variables(*[{"name": "A", "value": ""}] * 3),
            "unique",
            id="one-more-of-a-key",
        ),
        pytest.param(
            variables({"name": "A", "value": 1}),
            variables({"name": "B", "value": 1}),
            "type",
            id="another-item",
        ),
        pytest.param({"tty": True, "stdin": True}, {"tty": True}, "tty", id="a-removal"),
    ],
)
def test_an_update_is_refused_for_what_it_makes_wrong(
    old: JsonObject, new: JsonObject, check: str
) -> None:
    assert [problem.check for problem in judge_update(old, new)] == [check]


def test_an_update_within_a_section_leaves_what_it_lacks_as_it_was() -> None:
    def model(**claim: Any) -> JsonObject:
        return {"modelStore": {"pvc": {"claimName": "models", **claim}}}

    assert judge_update(model(), model(readOnly=True), "nimService") == []
    (problem,) = judge_update({}, model(), "nimService")
    assert (problem.check, problem.is_missing) == ("model-claim-size", True)


def test_an_update_of_a_broken_object_is_judged_to_its_end() -> None:
    """Old problems use up none of the room for new ones."""
    old = {f"unknown-{index}": 1 for index in range(2_000)}

    assert [problem.check for problem in judge_update(old, {**old, "tty": 5})] == ["type"]


# -- any object -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({f"unknown-{index}": 1 for index in range(50_000)}, id="names"),
        pytest.param({"storage": {"pvc": [{}] * 50_000}}, id="items"),
    ],
)
def test_the_number_of_problems_is_bounded(spec: JsonObject) -> None:
    assert len(judge("training", spec)) == 1_000


ROWS = native_rows()
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    # NaN differs from itself, so that no update would be excused from it.
    st.integers() | st.floats(allow_nan=False) | st.just(10**500),
    st.sampled_from(["", "1", "0.5", "4Gi", "x" * 70]),
)
NAMES = sorted({part for row in ROWS for part in row.split(".")} | {"leader", "exclude", "nothing"})
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)
    ),
    max_leaves=10,
)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": st.integers(0, 3),
    "number": st.sampled_from([0, 0.5, "1", 2]),
    "quantity": st.sampled_from([0, "1Gi", "2G"]),
    "strings": st.lists(st.sampled_from("ab"), max_size=2),
    "object": st.just({"a": 1}),
}


def mostly(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda die: right if die else JSON)


def value_of(row: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Something for a field: mostly of its type, not always right."""
    if row["type"] == "itemized":
        attributes = {name: value_of(details) for name, details in row["attributes"].items()}
        item = st.fixed_dictionaries({}, optional={"exclude": st.booleans(), **attributes})
        return mostly(st.lists(item.map(nested), max_size=3))
    right = RIGHT.get(row["type"], st.sampled_from(["a", "b", *row.get("enum", ())]))
    return mostly(right)


def nested(fields: dict[str, Any]) -> JsonObject:
    spec: JsonObject = {}
    for path, value in fields.items():
        node = spec
        *sections, last = path.split(".")
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
    return spec


def specs(workload_type: str) -> st.SearchStrategy[Any]:
    """Specs with the fields of a type; those of one section often together."""
    sections: dict[str, dict[str, st.SearchStrategy[Any]]] = {}
    for name, row in ROWS.items():
        if workload_type in row["workloads"]:
            sections.setdefault(name.partition(".")[0], {})[name] = value_of(row)
    drawn = [st.fixed_dictionaries({}, optional=fields) for fields in sections.values()]
    some = st.lists(st.sampled_from(drawn), max_size=4).flatmap(lambda parts: st.tuples(*parts))
    return mostly(
        some.map(
            lambda parts: nested({name: value for part in parts for name, value in part.items()})
        )
    )


SPECS = {workload_type: specs(workload_type) for workload_type in NATIVE_KINDS}
# Conditions are also reported where a value is missing.
MAY_MISS = {condition.name for condition in CONDITIONS} | {"source"}


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(sorted(NATIVE_KINDS)))
def test_any_object_is_answered(data: st.DataObject, workload_type: str) -> None:
    """What was said about an object is not said again about an update that changes nothing."""
    spec, master, old = (data.draw(SPECS[workload_type]) for _ in range(3))
    document = make_native(workload_type, spec, masterSpec=master)
    sent = copy.deepcopy(document)
    problems = judge_native(workload_type, document, ROWS)

    assert repr(document) == repr(sent)
    for problem in problems:
        is_missing = problem.check in MAY_MISS or problem.value == "null"
        assert is_missing or lookup(document, problem.path) is not None
    judge_native_update(workload_type, document, make_native(workload_type, old), ROWS)
    assert judge_native_update(workload_type, document, copy.deepcopy(document), ROWS) == []


# -- rows -----------------------------------------------------------------------------------


def test_rows_are_compiled_once() -> None:
    assert shape_of("training", ROWS) is shape_of("training", ROWS)
    assert shape_of("training", ROWS) is not shape_of("training", dict(ROWS))


@pytest.mark.parametrize(
    "names",
    [["compute", "compute.cpuCoreRequest"], ["compute.cpuCoreRequest", "compute"]],
    ids=" ".join,
)
def test_a_field_that_is_a_section_of_another_is_an_error_of_the_rows(names: list[str]) -> None:
    row = {"type": "string", "workloads": {"training": ["spec"]}}

    with pytest.raises(ValueError, match="already"):
        shape_of("training", dict.fromkeys(names, row))


def test_an_update_that_leaves_two_items_of_one_key_alone_is_not_judged() -> None:
    """The less bad of the two must not take the other's past for its own."""
    ports = [{"name": "a", "container": 70000}, {"name": "a", "container": 65536}]
    for items in (ports, ports[::-1]):
        document = {"spec": {"ports": items}}

        assert judge_native_update("training", document, copy.deepcopy(document), ROWS) == []
