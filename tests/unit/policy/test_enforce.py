"""What enforcements do to objects. Letters in ids are those of reported faults elsewhere."""

from __future__ import annotations

import copy
import itertools
import time
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    NOT_READY,
    PYTORCH_JOB,
    TOKEN_MOUNT,
    TOKEN_VOLUME,
    as_stored,
    make_container,
    make_gvk_policy,
    make_pod,
    make_pytorch_job,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.model.decision import NOT_SHOWN, Rule
from webhook.store.snapshot import Snapshot

LIMITS = "/spec/containers/0/resources/limits"


def compile_ok(*documents: Any) -> Snapshot:
    snapshot = make_snapshot(*documents)
    assert [str(problem) for problem in snapshot.problems] == []
    return snapshot


def pod_limits(*enforcements: dict[str, Any]) -> Snapshot:
    return compile_ok(make_gvk_policy(make_rule("resourceLimits", "allContainers", *enforcements)))


@pytest.mark.parametrize("as_sent", [lambda pod: pod, as_stored], ids=["as-typed", "as-stored"])
def test_keys_with_slashes_are_escaped_in_the_patch(as_sent: Any) -> None:
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule(
                "resourceLimits",
                "allContainers",
                {"default": {"key": "nvidia.com/gpu", "value": "1"}},
            ),
            make_rule(
                "labels",
                "metadata",
                {"default": {"key": "team.example.com/cost-centre", "value": "x"}},
            ),
            make_rule(
                "annotations",
                "metadata",
                {"default": {"key": "a.b.c/with_line", "value": "y"}},
            ),
        )
    )
    pod = as_sent(make_pod(containers=[make_container(resources={"limits": {"cpu": "1"}})]))

    answer = submit(snapshot, pod)

    assert f"{LIMITS}/nvidia.com~1gpu" in answer.paths
    assert answer.at(LIMITS) == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert answer.at("/metadata/labels") == {"team.example.com/cost-centre": "x"}
    assert answer.at("/metadata/annotations") == {"a.b.c/with_line": "y"}


@pytest.mark.parametrize(
    ("document", "want_paths"),
    [
        pytest.param(
            {"spec": None}, ["/metadata/labels", "/spec"], id="spec-null-is-replaced-once"
        ),
        pytest.param({}, ["/metadata/labels", "/spec"], id="no-spec"),
        pytest.param(
            {"spec": {"template": {}}},
            ["/metadata/labels", "/spec/template/metadata", "/spec/template/spec"],
            id="template-without-spec",
        ),
        pytest.param(
            {"spec": {"template": {"metadata": None, "spec": {}}}},
            [
                "/metadata/labels",
                "/spec/template/metadata",
                "/spec/template/spec/serviceAccountName",
                "/spec/template/spec/securityContext",
            ],
            id="siblings-stay",
        ),
    ],
)
def test_missing_parents_are_added_once(document: dict[str, Any], want_paths: list[str]) -> None:
    """Three defaults share what is missing; siblings are not overwritten."""
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule("labels", "metadata", {"default": {"key": "team", "value": "a"}}),
            make_rule("labels", "podMetadata", {"default": {"key": "team", "value": "a"}}),
            make_rule("serviceAccountName", "podSpec", {"default": "batch"}),
            make_rule("runAsNonRoot", "podSpec", {"default": True}),
            kind=DEPLOYMENT,
        )
    )
    job = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, **document}

    answer = submit(snapshot, job)

    assert answer.paths == want_paths
    assert answer.at("/spec/template/spec") == {
        "serviceAccountName": "batch",
        "securityContext": {"runAsNonRoot": True},
    }
    assert answer.at("/spec/template/metadata/labels/team") == "a"


@pytest.mark.parametrize(
    "resources", [None, {}, {"limits": None}, {"limits": {}}, "absent"], ids=str
)
def test_a_default_reaches_below_absent_and_null_parents(resources: Any) -> None:
    container = make_container() if resources == "absent" else make_container(resources=resources)

    answer = submit(
        pod_limits(
            {"default": {"key": "memory", "value": "4Gi"}}, {"default": {"key": "cpu", "value": 1}}
        ),
        make_pod(containers=[container]),
    )

    assert answer.at(LIMITS) == {"memory": "4Gi", "cpu": "1"}
    assert len(answer.patch) <= 2


NULLED = {
    "initContainers": lambda pod: pod["spec"].update(initContainers=None),
    "env": lambda pod: pod["spec"]["containers"][0].update(env=None),
    "resources": lambda pod: pod["spec"]["containers"][0].update(resources=None),
    "labels": lambda pod: pod["metadata"].update(labels=None),
    "annotations": lambda pod: pod["metadata"].update(annotations=None),
    "volumes": lambda pod: pod["spec"].update(volumes=None),
    "tolerations": lambda pod: pod["spec"].update(tolerations=None),
    "securityContext": lambda pod: pod["spec"].update(securityContext=None),
}


@pytest.mark.parametrize("null_out", NULLED.values(), ids=NULLED)
def test_null_means_absent(null_out: Any) -> None:
    """A default replaces the null; rules find nothing to judge and no error."""
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule("labels", "metadata", {"default": {"key": "a", "value": "b"}}),
            make_rule("annotations", "metadata", {"default": {"key": "a", "value": "b"}}),
            make_rule(
                "resourceLimits",
                "allContainers",
                {"default": {"key": "memory", "value": "4Gi"}},
                {"max": {"key": "memory", "value": "8Gi"}},
            ),
            make_rule("env", "allContainers", {"blocked": True}),
            make_rule("volumes", "podSpec", {"blocked": True}),
            make_rule("hostPathVolumes", "podSpec", {"blocked": True}),
            make_rule("tolerations", "podSpec", {"set": [{"operator": "Exists"}]}),
            make_rule("runAsUser", "podSpec", {"default": 1000}, {"min": 1}),
        )
    )
    pod = make_pod()
    null_out(pod)

    answer = submit(snapshot, pod)

    assert answer.allowed
    assert answer.at("/metadata/labels/a") == "b"
    assert answer.at(f"{LIMITS}/memory") == "4Gi"
    assert answer.at("/spec/tolerations") == [{"operator": "Exists"}]
    assert answer.at("/spec/securityContext/runAsUser") == 1000


WITHIN: list[Any] = ["128974848", "123Mi", "128974848000m", "1e3", "1k", "1.", "+5Mi", 128974848]
ABOVE: list[Any] = ["0.123Gi", "129M", "129e6", "129E6", "1.29e8", ".5Gi", "1E", 128974849, 10**30]
NO_QUANTITY: list[Any] = ["1K", "1ki", "", "abc", "1 Mi", "1_000", True, [], {}, ["1"]]


def memory(value: Any) -> dict[str, Any]:
    return make_training(compute={"cpuMemoryRequest": value})


@pytest.mark.parametrize(
    ("value", "broken_rule"),
    [
        *[(value, None) for value in WITHIN],
        *[(value, "max") for value in ABOVE],
        *[(value, "type") for value in NO_QUANTITY],
        ("-1", "min"),
        (-1, "min"),
    ],
    ids=str,
)
def test_quantities_are_read_as_kubernetes_reads_them(value: Any, broken_rule: str | None) -> None:
    snapshot = compile_ok(
        make_workload_policy(rules={"compute": {"cpuMemoryRequest": {"min": 0, "max": "123Mi"}}})
    )

    answer = submit(snapshot, memory(value))

    # The workload API itself refuses what is below 0 as well.
    rules = [
        violation.rule for violation in answer.decision.violations if violation.rule != "schema"
    ]
    assert rules == ([broken_rule] if broken_rule else [])
    assert {item.field for item in answer.decision.violations} <= {"compute.cpuMemoryRequest"}


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        *[(value, True) for value in (0.5, "0.5", "500m", 2, "2000m", 2.0, "2.0", "2", "0.0005k")],
        *[(value, False) for value in ("499m", "2001m", 0.499, 2.001, 3)],
    ],
    ids=str,
)
def test_numbers_and_quantities_compare_by_amount(value: Any, allowed: bool) -> None:
    snapshot = compile_ok(
        make_workload_policy(rules={"compute": {"cpuCoreRequest": {"min": "500m", "max": 2}}})
    )

    assert submit(snapshot, make_training(compute={"cpuCoreRequest": value})).allowed is allowed


@pytest.mark.parametrize("value", [1, "1"])
def test_a_bare_number_compares_with_a_suffixed_one(value: Any) -> None:
    snapshot = pod_limits({"max": {"key": "memory", "value": "1Gi"}})
    pod = make_pod(containers=[make_container(resources={"limits": {"memory": value}})])

    assert submit(snapshot, pod).allowed


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_each_container_is_judged_by_itself(order: tuple[int, ...]) -> None:
    """Init containers and native side cars are containers like the others."""
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule(
                "resourceRequests",
                "allContainers",
                {"default": {"key": "cpu", "value": "100m"}},
                {"max": {"key": "cpu", "value": "2"}},
            )
        )
    )
    full = make_container("full", resources={"requests": {"cpu": "1", "memory": "1Gi"}})
    containers = [full, make_container("empty", resources={}), make_container("none")]
    pod = make_pod(
        containers=[containers[index] for index in order],
        initContainers=[
            make_container("init"),
            make_container("proxy", restartPolicy="Always"),
        ],
    )

    answer = submit(snapshot, pod)

    after = {c["name"]: c for c in answer.document["spec"]["containers"]}
    assert after["full"] == full
    assert after["empty"]["resources"]["requests"] == {"cpu": "100m"}
    assert after["none"]["resources"]["requests"] == {"cpu": "100m"}
    for container in answer.document["spec"]["initContainers"]:
        assert container["resources"]["requests"] == {"cpu": "100m"}
    assert len(answer.patch) == 4


def test_a_container_that_breaks_a_rule_does_not_hide_the_others() -> None:
    snapshot = pod_limits({"max": {"key": "cpu", "value": "2"}})
    pod = make_pod(
        containers=[
            make_container("good", resources={"limits": {"cpu": "1"}}),
            make_container("bad", resources={"limits": {"cpu": "3"}}),
        ],
        initContainers=[make_container("worse", resources={"limits": {"cpu": "4"}})],
    )

    answer = submit(snapshot, pod)

    assert [violation.item for violation in answer.decision.violations] == ["bad", "worse"]
    assert answer.broken == [
        ("/spec/containers/1/resources/limits/cpu", "max"),
        ("/spec/initContainers/0/resources/limits/cpu", "max"),
    ]


def test_what_no_policy_names_is_not_touched() -> None:
    """Large integers, floats, key order and unknown fields are the submitter's."""
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule("labels", "metadata", {"set": {"key": "team", "value": "a"}}),
            kind=PYTORCH_JOB,
        )
    )
    job = make_pytorch_job()
    job["spec"] |= {
        "seed": 9007199254740993,
        "big": 18446744073709551615,
        "f": 1.0,
        "e": 1e2,
        "unknown": {"z": None, "a": [1, "1", True]},
    }

    answer = submit(snapshot, job)

    assert answer.patch == [
        {"op": "add", "path": "/metadata/labels", "value": {"team": "a"}},
    ]
    assert answer.at("/spec/seed") == 9007199254740993


def test_every_violation_is_reported_in_one_answer_sorted() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            rules={
                "image": {"required": True},
                "priorityClass": {"options": ["low", {"value": "medium", "displayed": "Medium"}]},
                "compute": {
                    "gpuDevicesRequest": {"max": 8, "step": 2},
                    "cpuCoreRequest": {"min": 1, "max": 7, "step": 2},
                },
                "security": {"hostNetwork": {"blocked": True}},
                "command": {"pattern": ["torchrun *"]},
            }
        )
    )
    training = make_training(
        priorityClass="high",
        command="sleep --secret=hunter2",
        compute={"gpuDevicesRequest": 9, "cpuCoreRequest": 4},
        security={"hostNetwork": False},
    )

    answer = submit(snapshot, training)

    assert [(v.field, v.rule) for v in answer.decision.violations] == [
        ("command", Rule.PATTERN),
        ("compute.cpuCoreRequest", Rule.STEP),
        ("compute.gpuDevicesRequest", Rule.MAX),
        ("compute.gpuDevicesRequest", Rule.STEP),
        ("image", Rule.REQUIRED),
        ("priorityClass", Rule.OPTIONS),
        ("security.hostNetwork", Rule.BLOCKED),
    ]
    by_field = {(v.field, v.rule): v for v in answer.decision.violations}
    assert by_field["command", Rule.PATTERN].value == NOT_SHOWN
    assert "3 or 5" in by_field["compute.cpuCoreRequest", Rule.STEP].accepted
    assert by_field["priorityClass", Rule.OPTIONS].accepted == "one of low, medium"
    assert by_field["compute.gpuDevicesRequest", Rule.MAX].accepted == "≤ 8"


def test_required_alone_waits_for_the_second_door() -> None:
    """A later webhook may fill it, so /mutate lets it pass and /validate refuses."""
    snapshot = compile_ok(make_workload_policy(rules={"image": {"required": True}}))

    answer = submit(snapshot, make_training())

    assert not answer.allowed
    assert answer.patch != []
    assert answer.broken == [("/spec/image", "required")]


@pytest.mark.parametrize(
    ("value", "broken"),
    [
        pytest.param(500, [], id="restating-the-default"),
        pytest.param("500", [], id="restating-it-as-text"),
        pytest.param(501, ["canEdit"], id="another-value"),
        pytest.param(None, [], id="null-is-absent"),
    ],
)
def test_can_edit_guards_the_default(value: Any, broken: list[str]) -> None:
    snapshot = compile_ok(
        make_workload_policy(
            defaults={"security": {"runAsUid": 500}},
            rules={"security": {"runAsUid": {"canEdit": False}}},
        )
    )

    answer = submit(snapshot, make_training(security={"runAsUid": value}))

    assert [rule for _, rule in answer.broken] == broken


def test_can_edit_without_a_default_allows_no_value() -> None:
    snapshot = compile_ok(make_workload_policy(rules={"nodeType": {"canEdit": False}}))

    assert submit(snapshot, make_training()).allowed
    assert submit(snapshot, make_training(nodeType="a100")).violation.rule is Rule.CAN_EDIT


@pytest.mark.parametrize(
    ("value", "allowed"), [("", True), (None, True), ("x", False), (False, False)], ids=repr
)
def test_blocked_means_no_value(value: Any, allowed: bool) -> None:
    """`""` is no violation of blocked; false is a value."""
    snapshot = compile_ok(make_workload_policy(rules={"nodeType": {"blocked": True}}))

    assert submit(snapshot, make_training(nodeType=value)).allowed is allowed


@pytest.mark.parametrize("value", ["", [], {}, None], ids=repr)
def test_an_empty_value_does_not_satisfy_required(value: Any) -> None:
    snapshot = compile_ok(
        make_gvk_policy(make_rule("command", "mainContainer", {"required": True}))
    )
    container = make_container(command=value)

    answer = submit(snapshot, make_pod(containers=[container]))

    assert [path for path, _ in answer.broken] == ["/spec/containers/0/command"]


def test_an_empty_value_is_not_filled_over() -> None:
    snapshot = compile_ok(make_workload_policy(defaults={"nodeType": "a100", "nodePools": ["x"]}))

    answer = submit(snapshot, make_training(nodeType="", nodePools=[]))

    assert answer.at("/spec/nodeType") == ""
    assert answer.at("/spec/nodePools") == []


def test_set_overwrites_and_keeps_an_equal_amount() -> None:
    snapshot = pod_limits({"set": {"key": "cpu", "value": "1"}})

    changed = submit(
        snapshot, make_pod(containers=[make_container(resources={"limits": {"cpu": 3}})])
    )
    kept = submit(
        snapshot, make_pod(containers=[make_container(resources={"limits": {"cpu": "1000m"}})])
    )

    assert changed.patch == [{"op": "replace", "path": f"{LIMITS}/cpu", "value": "1"}]
    assert kept.patch == []


def test_a_list_is_edited_by_element() -> None:
    snapshot = compile_ok(
        make_gvk_policy(make_rule("capabilitiesDrop", "allContainers", {"set": ["ALL", "NET_RAW"]}))
    )
    container = make_container(
        securityContext={"capabilities": {"drop": ["CHOWN", "NET_RAW", "X"]}}
    )

    answer = submit(snapshot, make_pod(containers=[container]))

    drop = "/spec/containers/0/securityContext/capabilities/drop"
    assert answer.patch == [
        {"op": "remove", "path": f"{drop}/2"},
        {"op": "replace", "path": f"{drop}/0", "value": "ALL"},
    ]


@pytest.mark.parametrize(
    ("policy_key", "limits", "requests", "applied"),
    [
        pytest.param("cpu", {}, {"cpu": "1"}, True, id="above-the-request"),
        pytest.param("cpu", {}, {"cpu": "3"}, False, id="below-the-request"),
        pytest.param("nvidia.com/gpu", {}, {"nvidia.com/gpu": "1"}, False, id="gpu-differs"),
        pytest.param("nvidia.com/gpu", {}, {"nvidia.com/gpu": 2}, True, id="gpu-equal"),
    ],
)
def test_a_default_that_contradicts_the_submission_is_left_out(
    policy_key: str, limits: dict[str, Any], requests: dict[str, Any], applied: bool
) -> None:
    snapshot = pod_limits({"default": {"key": policy_key, "value": "2"}})
    resources = {"limits": limits, "requests": requests}

    answer = submit(snapshot, make_pod(containers=[make_container(resources=resources)]))

    assert bool(answer.patch) is applied
    assert bool(answer.decision.not_applied) is not applied
    assert bool(answer.decision.warnings) is not applied


def test_a_set_that_kubernetes_would_refuse_is_refused_with_our_reason() -> None:
    snapshot = pod_limits({"set": {"key": "cpu", "value": "2"}})
    container = make_container(resources={"requests": {"cpu": "4"}})

    answer = submit(snapshot, make_pod(containers=[container]))

    assert answer.violation.rule is Rule.SET
    assert "2 is below resourceRequests[cpu] 4" in answer.violation.problem


def test_a_privileged_container_does_not_get_a_contradicting_default() -> None:
    snapshot = compile_ok(
        make_gvk_policy(make_rule("allowPrivilegeEscalation", "allContainers", {"default": False}))
    )
    container = make_container(securityContext={"privileged": True})

    answer = submit(snapshot, make_pod(containers=[container]))

    assert answer.patch == []
    assert len(answer.decision.warnings) == 1


FOREIGN = ("allowPrivilegeEscalation", "capabilitiesAdd")
TRAINING = {"group": "workload.gatewright.io", "version": "v1alpha1", "kind": "Training"}
NATIVE = ("security.allowPrivilegeEscalation", "security.capabilities")
GIVEN = {"capabilities": {"add": ["NET_ADMIN", "CAP_SYS_ADMIN"]}}


def on_pods(rule: str, escalation: bool | None, capabilities: list[str] | None) -> Snapshot:
    values = zip(FOREIGN, (escalation, capabilities), strict=True)
    rules = [make_rule(n, "allContainers", {rule: v}) for n, v in values if v is not None]
    return compile_ok(make_gvk_policy(*rules))


def on_trainings(rule: str, escalation: bool | None, capabilities: list[str] | None) -> Snapshot:
    values = zip(NATIVE, (escalation, capabilities), strict=True)
    security = {n.removeprefix("security."): v for n, v in values if v is not None}
    if rule == "default":
        return compile_ok(make_workload_policy(defaults={"security": security}))
    rules = [make_rule(f"security.{name}", "spec", {rule: v}) for name, v in security.items()]
    return compile_ok(make_gvk_policy(*rules, kind=TRAINING))


def on_deployments(rule: str, escalation: bool | None, capabilities: list[str] | None) -> Snapshot:
    values = zip(NATIVE, (escalation, capabilities), strict=True)
    security = {n.removeprefix("security."): v for n, v in values if v is not None}
    if rule == "default":
        policy = make_workload_policy(
            defaults={"security": security}, workload_type=dict(DEPLOYMENT)
        )
        return compile_ok(policy)
    foreign = zip(FOREIGN, (escalation, capabilities), strict=True)
    rules = [make_rule(n, "allContainers", {rule: v}) for n, v in foreign if v is not None]
    return compile_ok(make_gvk_policy(*rules, kind=DEPLOYMENT))


def pod_with(security: dict[str, Any]) -> dict[str, Any]:
    return make_pod(containers=[make_container(securityContext=security)])


def training_with(security: dict[str, Any]) -> dict[str, Any]:
    capabilities = security.get("capabilities", {}).get("add")
    native = {**security, "capabilities": capabilities}
    return make_training(security={n: v for n, v in native.items() if v is not None})


def deployment_with(security: dict[str, Any]) -> dict[str, Any]:
    template = {"spec": {"containers": [make_container(securityContext=security)]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"selector": {"matchLabels": {}}, "template": template},
    }


ON_EACH_KIND = pytest.mark.parametrize(
    ("under", "make", "names"),
    [
        pytest.param(on_pods, pod_with, FOREIGN, id="pod"),
        pytest.param(on_deployments, deployment_with, NATIVE, id="native-words-on-a-deployment"),
        pytest.param(on_trainings, training_with, NATIVE, id="training"),
    ],
)


@ON_EACH_KIND
@pytest.mark.parametrize(
    ("capabilities", "is_left_out"),
    [
        pytest.param(["NET_ADMIN", "CAP_SYS_ADMIN"], True, id="as-kubernetes-compares"),
        # Kubernetes compares the text, and takes these with escalation false.
        pytest.param(["SYS_ADMIN"], False, id="without-prefix"),
        pytest.param(["cap_sys_admin"], False, id="lower-case"),
        pytest.param(["CAP_NET_ADMIN"], False, id="another-capability"),
    ],
)
def test_no_default_forbids_escalation_beside_cap_sys_admin(
    under: Any, make: Any, names: tuple[str, str], capabilities: list[str], is_left_out: bool
) -> None:
    flag, listed = names

    answer = submit(under("default", False, None), make({"capabilities": {"add": capabilities}}))

    assert answer.allowed
    written = [change for change in answer.decision.changes if change.field == flag]
    assert bool(written) is not is_left_out
    reasons = [item.reason for item in answer.decision.not_applied]
    assert reasons == [f"false contradicts CAP_SYS_ADMIN in {listed}"] * is_left_out
    assert len(answer.decision.warnings) == is_left_out


@ON_EACH_KIND
def test_no_default_adds_cap_sys_admin_where_escalation_is_forbidden(
    under: Any, make: Any, names: tuple[str, str]
) -> None:
    snapshot = under("default", None, ["CAP_SYS_ADMIN"])

    refused = submit(snapshot, make({"allowPrivilegeEscalation": False}))
    taken = submit(snapshot, make({"allowPrivilegeEscalation": True}))

    assert [item.reason for item in refused.decision.not_applied] == [
        f"CAP_SYS_ADMIN contradicts {names[0]} false"
    ]
    assert taken.decision.not_applied == ()
    assert names[1] in [change.field for change in taken.decision.changes]


@pytest.mark.parametrize(
    ("escalation", "capabilities", "given", "problem"),
    [
        pytest.param(
            False, None, GIVEN, "false contradicts CAP_SYS_ADMIN in capabilitiesAdd", id="flag"
        ),
        pytest.param(
            None,
            ["CAP_SYS_ADMIN"],
            {"allowPrivilegeEscalation": False},
            "CAP_SYS_ADMIN contradicts allowPrivilegeEscalation false",
            id="capability",
        ),
    ],
)
@pytest.mark.parametrize(
    ("under", "make"),
    [
        pytest.param(on_pods, pod_with, id="pod"),
        pytest.param(on_deployments, deployment_with, id="d"),
    ],
)
def test_a_set_that_makes_escalation_and_cap_sys_admin_meet_is_refused(
    under: Any, make: Any, escalation: Any, capabilities: Any, given: Any, problem: str
) -> None:
    answer = submit(under("set", escalation, capabilities), make(given))

    assert answer.violation.rule is Rule.SET
    assert answer.violation.problem == f"the value that the policy sets {problem}"


def test_defaults_of_two_selectors_do_not_make_escalation_and_cap_sys_admin_meet() -> None:
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule("allowPrivilegeEscalation", "allContainers", {"default": False}),
            make_rule("capabilitiesAdd", "mainContainer", {"default": ["CAP_SYS_ADMIN"]}),
        )
    )
    pod = make_pod(containers=[make_container(), make_container(name="side")])

    answer = submit(snapshot, pod)

    main, side = answer.at("/spec/containers")
    assert ("capabilities" in main["securityContext"]) is (
        "allowPrivilegeEscalation" not in main["securityContext"]
    )
    assert side["securityContext"] == {"allowPrivilegeEscalation": False}
    assert len(answer.decision.not_applied) == 1


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        pytest.param({"containers": "abc"}, "/spec/containers", id="text-for-a-list"),
        pytest.param({"containers": ["abc"]}, "/spec/containers/0", id="text-for-an-object"),
        pytest.param(
            {"containers": [make_container(resources="lots")]},
            "/spec/containers/0/resources",
            id="text-for-resources",
        ),
        pytest.param(
            {"containers": [make_container(resources={"limits": {"memory": ["1"]}})]},
            f"{LIMITS}/memory",
            id="where-only-a-default-stands",
        ),
        pytest.param(
            {"containers": [make_container(resources={"limits": {"cpu": ["1"]}})]},
            f"{LIMITS}/cpu",
            id="a-list-for-a-quantity",
        ),
    ],
)
def test_a_wrong_type_is_a_violation_that_names_the_spot(spec: Any, pointer: str) -> None:
    """Never a 500, and never a silent pass."""
    snapshot = pod_limits(
        {"default": {"key": "memory", "value": "1Gi"}}, {"max": {"key": "cpu", "value": 2}}
    )

    answer = submit(snapshot, make_pod(**spec))

    assert (pointer, "type") in answer.broken


def test_fields_that_the_api_server_fills_first_get_no_default() -> None:
    """There a value equal to its default can't be told from an absent one."""
    snapshot = make_snapshot(
        make_gvk_policy(
            make_rule("imagePullPolicy", "allContainers", {"default": "Always"}),
            make_rule("terminationGracePeriodSeconds", "podSpec", {"blocked": True}),
        )
    )

    assert [problem.warning for problem in snapshot.problems] == [True]
    assert submit(snapshot, make_pod()).patch == []
    assert submit(snapshot, as_stored(make_pod())).allowed
    assert not submit(snapshot, make_pod(terminationGracePeriodSeconds=31)).allowed


def test_setting_the_priority_class_of_a_pod_removes_what_is_computed_from_it() -> None:
    snapshot = compile_ok(
        make_gvk_policy(make_rule("priorityClassName", "podSpec", {"set": "batch"}))
    )
    pod = make_pod(priorityClassName="other", priority=5, preemptionPolicy="Never")

    answer = submit(snapshot, pod)

    assert "priority" not in answer.document["spec"]
    assert "preemptionPolicy" not in answer.document["spec"]
    assert answer.at("/spec/priorityClassName") == "batch"


class TestUpdate:
    """An update is judged by what it changes."""

    snapshot = make_snapshot(
        make_gvk_policy(
            make_rule(
                "resourceLimits", "allContainers", {"max": {"key": "nvidia.com/gpu", "value": 4}}
            ),
            make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}),
            make_rule("labels", "metadata", {"default": {"key": "team", "value": "a"}}),
            make_rule("serviceAccountName", "podSpec", {"required": True}),
            kind=DEPLOYMENT,
        )
    )

    def deployment(self, gpus: int = 8, image: str = "docker.io/x") -> dict[str, Any]:
        container = {
            "name": "main",
            "image": image,
            "resources": {"limits": {"nvidia.com/gpu": gpus}},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "x", "finalizers": ["a"], "labels": None},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda o: o["metadata"].update(finalizers=[]), id="finalizer-removed"),
            pytest.param(lambda o: o["metadata"].update(labels={"x": "y"}), id="label-added"),
            pytest.param(lambda o: o["metadata"].update(ownerReferences=[{}]), id="owner"),
            pytest.param(lambda o: o.update(status={"replicas": 1}), id="status"),
        ],
    )
    def test_what_makes_nothing_worse_passes_unchanged(self, change: Any) -> None:
        old = self.deployment()
        new = copy.deepcopy(old)
        change(new)

        answer = submit(self.snapshot, new, old=old)

        assert answer.allowed
        assert answer.patch == []

    @pytest.mark.parametrize(
        ("gpus", "image", "broken"),
        [
            pytest.param(8, "ghcr.io/x", [], id="image-mended-gpus-unchanged"),
            pytest.param(9, "docker.io/x", ["max"], id="gpus-raised"),
            pytest.param(6, "docker.io/x", [], id="gpus-lowered-but-still-above"),
            pytest.param(4, "docker.io/y", ["pattern"], id="another-wrong-image"),
        ],
    )
    def test_a_violation_counts_if_it_is_new_or_worse(
        self, gpus: int, image: str, broken: list[str]
    ) -> None:
        answer = submit(self.snapshot, self.deployment(gpus, image), old=self.deployment())

        assert [rule for _, rule in answer.broken] == broken

    @pytest.mark.parametrize(
        ("rule", "old", "new", "allowed"),
        [
            pytest.param(
                {"max": {"key": "cpu", "value": "500m"}}, "1", "1000m", True, id="respelt"
            ),
            pytest.param({"max": {"key": "cpu", "value": "500m"}}, 1, "1", True, id="as-text"),
            pytest.param({"max": {"key": "cpu", "value": "500m"}}, "1", "1001m", False, id="worse"),
        ],
    )
    def test_another_spelling_of_the_same_amount_is_no_change(
        self, rule: Any, old: Any, new: Any, allowed: bool
    ) -> None:
        def pod(cpu: Any) -> dict[str, Any]:
            return make_pod(containers=[make_container(resources={"limits": {"cpu": cpu}})])

        assert submit(pod_limits(rule), pod(new), old=pod(old)).allowed is allowed

    @pytest.mark.parametrize(
        ("old", "new", "allowed"),
        [
            pytest.param(["X"], ["X", "A"], True, id="an-allowed-one-added"),
            pytest.param(["X", "A"], ["A", "X"], True, id="reordered"),
            pytest.param(["X", "Y"], ["Y"], True, id="one-bad-gone"),
            pytest.param(["X"], ["Y"], False, id="another-bad-one"),
            pytest.param(["A"], ["A", "X"], False, id="a-bad-one-added"),
        ],
    )
    def test_bad_elements_of_a_list_may_stay_but_not_come(
        self, old: list[str], new: list[str], allowed: bool
    ) -> None:
        snapshot = compile_ok(
            make_gvk_policy(make_rule("capabilitiesAdd", "allContainers", {"options": ["A"]}))
        )

        def pod(add: list[str]) -> dict[str, Any]:
            context = {"capabilities": {"add": add}}
            return make_pod(containers=[make_container(securityContext=context)])

        assert submit(snapshot, pod(new), old=pod(old)).allowed is allowed

    def test_fewer_blocked_volumes_are_less_bad(self) -> None:
        snapshot = compile_ok(
            make_gvk_policy(make_rule("hostPathVolumes", "podSpec", {"blocked": True}))
        )
        volumes = [{"name": name, "hostPath": {"path": "/"}} for name in "ab"]

        assert submit(
            snapshot, make_pod(volumes=volumes[:1]), old=make_pod(volumes=volumes)
        ).allowed
        assert not submit(
            snapshot, make_pod(volumes=volumes), old=make_pod(volumes=volumes[:1])
        ).allowed

    def test_containers_go_together_by_name(self) -> None:
        """A side car in front is new and judged; the old one has only moved."""
        old, new = self.deployment(), self.deployment()
        containers = new["spec"]["template"]["spec"]["containers"]
        containers.insert(0, {"name": "side", "image": "docker.io/side"})

        answer = submit(self.snapshot, new, old=old)

        assert answer.broken == [("/spec/template/spec/containers/0/image", "pattern")]

    def test_a_second_container_of_an_old_name_is_new(self) -> None:
        old, new = self.deployment(), self.deployment()
        containers = new["spec"]["template"]["spec"]["containers"]
        containers.append(copy.deepcopy(containers[0]))

        answer = submit(self.snapshot, new, old=old)

        assert [path for path, _ in answer.broken] == [
            "/spec/template/spec/containers/1/image",
            "/spec/template/spec/containers/1/resources/limits/nvidia.com~1gpu",
        ]

    @pytest.mark.slow
    def test_matching_many_renamed_containers_takes_linear_time(self) -> None:
        """10,000 comparisons of 10,000 names would hold the server for half a minute."""

        def deployment(prefix: str) -> dict[str, Any]:
            document = self.deployment()
            document["spec"]["template"]["spec"]["containers"] = [
                {"name": f"{prefix}{index}", "image": "ghcr.io/x"} for index in range(4000)
            ]
            return document

        before = time.process_time()
        answer = submit(self.snapshot, deployment("b"), old=deployment("a"))

        assert answer.allowed
        assert time.process_time() - before < 5

    def test_deep_values_are_compared_and_are_of_the_wrong_type(self) -> None:
        def deployment(leaf: int) -> dict[str, Any]:
            deep: Any = leaf
            for _ in range(400):
                deep = {"a": deep}
            document = self.deployment()
            resources = document["spec"]["template"]["spec"]["containers"][0]["resources"]
            resources["limits"]["nvidia.com/gpu"] = deep
            return document

        assert submit(self.snapshot, deployment(1), old=deployment(1)).allowed
        changed = submit(self.snapshot, deployment(2), old=deployment(1))
        assert [rule for _, rule in changed.broken] == ["type"]

    def test_a_default_is_written_only_where_the_value_changed(self) -> None:
        old, new = self.deployment(), self.deployment()
        old["metadata"]["labels"] = {"team": "b"}
        new["metadata"]["labels"] = {"other": "label"}

        answer = submit(self.snapshot, new, old=old)

        assert answer.at("/metadata/labels/team") == "a"

    def test_running_pods_are_judged_and_never_mutated(self) -> None:
        snapshot = compile_ok(
            make_gvk_policy(
                make_rule("labels", "metadata", {"set": {"key": "team", "value": "a"}}),
                make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}),
            )
        )
        old = make_pod()
        new = make_pod(containers=[make_container(image="docker.io/x")])
        new["metadata"]["labels"] = {"team": "b"}

        answer = submit(snapshot, new, old=old)

        assert answer.patch == []
        assert [rule for _, rule in answer.broken] == ["pattern", "set"]


def test_two_passes_around_a_foreign_sidecar_touch_only_the_sidecar() -> None:
    """Another webhook may add a container after us, at the front, and we are asked again."""
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule(
                "resourceLimits", "allContainers", {"default": {"key": "memory", "value": "1Gi"}}
            ),
            make_rule("tolerations", "podSpec", {"set": [{"operator": "Exists"}]}),
            make_rule("labels", "metadata", {"default": {"key": "team", "value": "a"}}),
            make_rule("annotations", "metadata", {"default": {"key": "a/b", "value": "c"}}),
        )
    )
    first = submit(snapshot, make_pod())
    with_sidecar = copy.deepcopy(first.document)
    with_sidecar["spec"]["containers"].insert(0, make_container("proxy"))

    second = submit(snapshot, with_sidecar)

    assert second.paths == ["/spec/containers/0/resources"]


def test_what_kubernetes_adds_to_a_pod_is_no_breach_of_blocked() -> None:
    """Every Pod has a token volume, its mount and two tolerations when we are asked."""
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule("volumes", "podSpec", {"blocked": True}),
            make_rule("tolerations", "podSpec", {"blocked": True}),
            make_rule("volumeMounts", "allContainers", {"blocked": True}),
        )
    )
    containers = [make_container(volumeMounts=[TOKEN_MOUNT])]
    pod = make_pod(containers=containers, volumes=[TOKEN_VOLUME], tolerations=[NOT_READY])

    assert submit(snapshot, pod).allowed
    pod["spec"]["volumes"].append({"name": "mine", "emptyDir": {}})
    assert submit(snapshot, pod).broken == [("/spec/volumes", "blocked")]


NAME = TOKEN_VOLUME["name"]
LOOKALIKES = [
    pytest.param("volumes", {"name": NAME, "hostPath": {"path": "/"}}, id="path-of-the-node"),
    pytest.param("volumes", {**TOKEN_VOLUME, "hostPath": {"path": "/"}}, id="path-beside-it"),
    pytest.param("volumes", {"name": NAME}, id="name-alone"),
    pytest.param(
        "volumes",
        {"name": NAME, "projected": {"defaultMode": 420, "sources": [{"secret": {"name": "s"}}]}},
        id="secret-projected",
    ),
    pytest.param(
        "volumes",
        {
            "name": NAME,
            "projected": {"defaultMode": 420, "sources": [{"configMap": {"name": "mine"}}]},
        },
        id="other-config-map",
    ),
    pytest.param("volumes", {**TOKEN_VOLUME, "name": "mine"}, id="other-name-of-a-volume"),
    pytest.param("volumeMounts", {**TOKEN_MOUNT, "name": "mine"}, id="other-volume-mounted"),
    pytest.param("volumeMounts", {**TOKEN_MOUNT, "readOnly": False}, id="mounted-to-write"),
    pytest.param("volumeMounts", {**TOKEN_MOUNT, "subPath": "a"}, id="part-of-it-mounted"),
    pytest.param("volumeMounts", {**TOKEN_MOUNT, "mountPath": "/mnt"}, id="mounted-elsewhere"),
    pytest.param("tolerations", {**NOT_READY, "tolerationSeconds": 9999}, id="for-longer"),
    pytest.param(
        "tolerations",
        {key: value for key, value in NOT_READY.items() if key != "tolerationSeconds"},
        id="for-ever",
    ),
    pytest.param("tolerations", {**NOT_READY, "effect": "NoSchedule"}, id="other-effect"),
    pytest.param("tolerations", {"operator": "Exists"}, id="everything"),
]


@pytest.mark.parametrize(("field", "item"), LOOKALIKES)
def test_what_only_looks_like_it_is_blocked(field: str, item: dict[str, Any]) -> None:
    """A user writes names as he likes: they prove nothing."""
    selector = "allContainers" if field == "volumeMounts" else "podSpec"
    snapshot = compile_ok(make_gvk_policy(make_rule(field, selector, {"blocked": True})))
    spec = {
        "containers": [make_container(volumeMounts=[TOKEN_MOUNT])],
        "volumes": [TOKEN_VOLUME],
        "tolerations": [NOT_READY],
    }
    if field == "volumeMounts":
        spec["containers"] = [make_container(volumeMounts=[TOKEN_MOUNT, item])]
    else:
        spec[field] = [*spec[field], item]

    assert [rule for _, rule in submit(snapshot, make_pod(**spec)).broken] == ["blocked"]


def test_of_two_sets_at_one_place_the_narrower_counts() -> None:
    """By different selectors, so that no rule's identity tells of the other."""
    snapshot = compile_ok(
        make_gvk_policy(
            make_rule("imagePullPolicy", "allContainers", {"set": "Always"}),
            make_rule("workingDir", "allContainers", {"default": "/broad"}),
            name="broad",
            kind=PYTORCH_JOB,
        ),
        make_gvk_policy(
            make_rule("imagePullPolicy", "workerContainers", {"set": "Never"}),
            make_rule("workingDir", "workerContainers", {"default": "/narrow"}),
            name="narrow",
            kind=PYTORCH_JOB,
            scope="project",
            unit="team-a",
        ),
    )

    answer = submit(snapshot, make_pytorch_job())

    roles = "/spec/pytorchReplicaSpecs"
    assert answer.allowed
    for role, policy, directory in (
        ("Master", "Always", "/broad"),
        ("Worker", "Never", "/narrow"),
    ):
        container = answer.at(f"{roles}/{role}/template/spec/containers/0")
        assert (container["imagePullPolicy"], container["workingDir"]) == (policy, directory)


def test_a_place_inside_a_value_that_was_set_is_judged_as_it_then_is() -> None:
    """A registered kind may expose an object and what lies inside it."""
    group = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "FieldGroup",
        "metadata": {"name": "box"},
        "spec": {"fields": {"box": {"type": "object"}, "size": {"type": "integer"}}},
    }
    mapping = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {
            "workloadType": {"group": "acme.io", "version": "v1", "kind": "Box"},
            "specSelectors": {
                "inner": {"query": ".spec.box", "fieldGroups": ["box"]},
                "outer": {"query": ".spec", "fieldGroups": ["box"]},
            },
        },
    }
    policy = make_gvk_policy(
        make_rule("size", "inner", {"max": 3}),
        make_rule("box", "outer", {"set": {"size": 2}}),
        kind={"group": "acme.io", "version": "v1", "kind": "Box"},
    )
    document = {
        "apiVersion": "acme.io/v1",
        "kind": "Box",
        "metadata": {},
        "spec": {"box": {"size": 9, "other": 1}},
    }

    answer = submit(compile_ok(group, mapping, policy), document)

    assert answer.allowed
    assert answer.at("/spec/box") == {"size": 2}


@pytest.mark.parametrize("rule", ["set", "default"])
def test_what_kubernetes_put_into_a_list_stays_in_it(rule: str) -> None:
    """Without its token volume the mount of a stored Pod would lead nowhere."""
    mine = {"name": "scratch", "emptyDir": {}}
    snapshot = compile_ok(make_gvk_policy(make_rule("volumes", "podSpec", {rule: [mine]})))

    answer = submit(snapshot, make_pod(volumes=[TOKEN_VOLUME]))

    assert answer.at("/spec/volumes") == [TOKEN_VOLUME, mine]


def test_a_request_that_is_a_copy_of_the_limit_is_not_blocked() -> None:
    """The API server copies limits of Pods to requests before it asks us."""
    snapshot = compile_ok(
        make_gvk_policy(make_rule("resourceRequests", "allContainers", {"blocked": {"key": "cpu"}}))
    )

    def pod(request: str) -> dict[str, Any]:
        resources = {"limits": {"cpu": "1"}, "requests": {"cpu": request}}
        return make_pod(containers=[make_container(resources=resources)])

    assert submit(snapshot, pod("1")).allowed
    assert not submit(snapshot, pod("500m")).allowed


def test_a_default_of_privileged_does_not_contradict_a_submitted_escalation() -> None:
    snapshot = compile_ok(
        make_gvk_policy(make_rule("privileged", "allContainers", {"default": True}))
    )
    container = make_container(securityContext={"allowPrivilegeEscalation": False})

    answer = submit(snapshot, make_pod(containers=[container]))

    assert answer.patch == []
    assert len(answer.decision.not_applied) == 1


def test_a_rule_that_never_acts_is_no_trouble_where_types_are_wrong() -> None:
    """The API server fills the pull policy, so the only enforcement here is none."""
    snapshot = make_snapshot(
        make_gvk_policy(
            make_rule("imagePullPolicy", "allContainers", {"default": "Always"}), kind=DEPLOYMENT
        )
    )
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {},
        "spec": {"template": {"spec": {"containers": "abc"}}},
    }

    assert submit(snapshot, document).allowed


def test_a_default_does_not_fill_what_a_set_keeps_empty() -> None:
    snapshot = make_snapshot(
        make_gvk_policy(
            make_rule("capabilitiesAdd", "allContainers", {"set": []}),
            make_rule("capabilitiesAdd", "mainContainer", {"default": ["A"]}),
        )
    )

    answer = submit(snapshot, make_pod())

    assert answer.allowed
    assert answer.patch == []


@pytest.mark.parametrize(
    ("compute", "want"),
    [
        pytest.param({"cpuCoreLimit": 4}, {"cpuCoreRequest": 2}, id="half-of-the-limit"),
        pytest.param({"cpuCoreLimit": "500m"}, {"cpuCoreRequest": 0.25}, id="of-a-quantity"),
        pytest.param({"cpuCoreLimit": 4, "cpuCoreRequest": 3}, {"cpuCoreRequest": 3}, id="given"),
        pytest.param({}, {}, id="no-source"),
        pytest.param({"cpuMemoryLimit": "3Gi"}, {"cpuMemoryRequest": "2304Mi"}, id="memory"),
    ],
)
def test_a_default_may_be_computed_from_another_field(
    compute: dict[str, Any], want: dict[str, Any]
) -> None:
    snapshot = compile_ok(
        make_workload_policy(
            rules={
                "compute": {
                    "cpuCoreRequest": {
                        "defaultFrom": {"field": "compute.cpuCoreLimit", "factor": 0.5}
                    },
                    "cpuMemoryRequest": {
                        "defaultFrom": {"field": "cpuMemoryLimit", "factor": 0.75}
                    },
                }
            }
        )
    )

    answer = submit(snapshot, make_training(compute=compute))

    assert answer.allowed
    after = answer.at("/spec/compute")
    assert {key: value for key, value in after.items() if key.endswith("Request")} == want


def test_a_literal_default_goes_before_a_computed_one() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            defaults={"compute": {"cpuCoreRequest": 1}},
            rules={"compute": {"cpuCoreRequest": {"defaultFrom": {"field": "cpuCoreLimit"}}}},
        )
    )

    answer = submit(snapshot, make_training(compute={"cpuCoreLimit": 4}))

    assert answer.at("/spec/compute/cpuCoreRequest") == 1


def test_a_computed_default_satisfies_required_and_is_judged() -> None:
    rules = {"backoffLimit": {"required": True, "max": 3, "defaultFrom": {"field": "parallelism"}}}
    snapshot = compile_ok(make_workload_policy(rules=rules))

    assert submit(snapshot, make_training(parallelism=2)).at("/spec/backoffLimit") == 2
    # What follows from his parallelism is not held against the submitter; the missing value is.
    assert submit(snapshot, make_training(parallelism=4)).violation.rule is Rule.REQUIRED


def test_a_computed_default_that_contradicts_is_left_out() -> None:
    rules = {"compute": {"cpuCoreRequest": {"defaultFrom": {"field": "cpuCoreLimit", "factor": 2}}}}

    answer = submit(
        compile_ok(make_workload_policy(rules=rules)), make_training(compute={"cpuCoreLimit": 4})
    )

    assert "cpuCoreRequest" not in answer.at("/spec/compute")
    assert len(answer.decision.not_applied) == 1


def test_computed_defaults_may_be_sources_of_one_another_in_any_order() -> None:
    rules = {
        "compute": {
            "cpuCoreRequest": {"defaultFrom": {"field": "cpuCoreLimit"}},
            "cpuCoreLimit": {"defaultFrom": {"field": "gpuDevicesRequest", "factor": 4}},
        }
    }

    answer = submit(
        compile_ok(make_workload_policy(rules=rules)),
        make_training(compute={"gpuDevicesRequest": 1}),
    )

    assert answer.at("/spec/compute") == {
        "gpuDevicesRequest": 1,
        "cpuCoreLimit": 4,
        "cpuCoreRequest": 4,
    }


def test_a_computed_default_beyond_64_bits_is_left_out() -> None:
    rules = {
        "compute": {"cpuCoreRequest": {"defaultFrom": {"field": "cpuCoreLimit", "factor": 0.1}}}
    }

    answer = submit(
        compile_ok(make_workload_policy(rules=rules)),
        make_training(compute={"cpuCoreLimit": "1e30"}),
    )

    assert "cpuCoreRequest" not in answer.at("/spec/compute")
    assert len(answer.decision.not_applied) == 1


@pytest.mark.parametrize(("request_", "allowed"), [(None, True), (1, True), (2, False)])
def test_can_edit_accepts_what_a_default_is_computed_to(request_: Any, allowed: bool) -> None:
    rules = {
        "compute": {
            "cpuCoreRequest": {
                "canEdit": False,
                "defaultFrom": {"field": "cpuCoreLimit", "factor": 0.5},
            }
        }
    }
    compute = {"cpuCoreLimit": 2} | ({"cpuCoreRequest": request_} if request_ else {})

    answer = submit(compile_ok(make_workload_policy(rules=rules)), make_training(compute=compute))

    assert answer.allowed is allowed
