"""What a recommendation writes into a pod, and when it leaves it alone."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import JsonObject, make_container
from tests.gpu import (
    CONTAINER,
    DEVICES,
    FRACTION,
    GPU,
    MEMORY,
    MPS,
    QUEUE,
    kai_refusals,
    kubernetes_refusals,
    make_gpu_container,
    make_gpu_pod,
    make_injection,
    make_kai_injection,
    share_of,
    whole_gpus,
)
from webhook.model.rightsizing.controls import PAUSE_UNTIL, SKIP_CONTAINERS, Controls
from webhook.model.rightsizing.injections import GpuLimit, GpuRoom, Injection
from webhook.model.rightsizing.policies import Scheduler
from webhook.patch import Editor
from webhook.policy.gpu.before import (
    GPU_BEFORE,
    Asked,
    asked_for,
    format_before,
    parse_before,
)
from webhook.policy.gpu.injection import GpuPlan, plan_injection
from webhook.policy.gpu.pod import read_gpus

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
ONE = ("1", "1")
TWO = ("2", "2")


def main(limit: Any = "1", request: Any = None, **more: Any) -> JsonObject:
    return make_gpu_container("main", limit, limit if request is None else request, **more)


def applied(pod: JsonObject, plan: GpuPlan) -> JsonObject:
    """The pod as it is after *plan*."""
    editor = Editor(copy.deepcopy(pod))
    for change in plan.changes:
        if change.new is None:
            editor.remove(change.path)
        else:
            editor.write(change.path, change.new)
    return editor.document


def injected(pod: JsonObject, injection: Injection) -> JsonObject:
    """The pod with *injection*, of which all was written and nothing is left to write."""
    plan = plan_injection(pod, injection)
    assert plan.reason == ""
    done = applied(pod, plan)
    assert plan_injection(done, injection) == GpuPlan()
    assert kubernetes_refusals(done) == []
    assert kai_refusals(done) == []
    return done


def reason(pod: JsonObject, injection: Injection) -> str:
    """Why nothing at all is written."""
    before = copy.deepcopy(pod)
    plan = plan_injection(pod, injection)
    assert plan.changes == ()
    assert plan.reason != ""
    assert pod == before
    return plan.reason


# -- whole GPUs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(make_gpu_container("main", "4"), id="limit-only"),
        pytest.param(make_gpu_container("main", "4", "4"), id="both"),
        pytest.param(make_gpu_container("main", None, "4"), id="request-only"),
        pytest.param(make_gpu_container("main", 4, 4), id="as-numbers"),
        pytest.param(make_gpu_container("main", "4000m", "4"), id="in-milli"),
        pytest.param(make_gpu_container("main"), id="neither"),
        pytest.param(make_gpu_container("main", "0", "0"), id="none-at-all"),
        pytest.param(make_container("main"), id="no-resources"),
        pytest.param(make_container("main", resources=None), id="null-resources"),
        pytest.param(make_container("main", resources={"limits": None}), id="null-limits"),
    ],
)
@pytest.mark.parametrize(
    ("amount", "written"), [("0.5", "1"), ("1", "1"), ("1.5", "2"), ("2", "2"), ("2.000001", "3")]
)
def test_without_kai_limit_and_request_are_whole_and_equal(
    container: JsonObject, amount: str, written: str
) -> None:
    done = injected(make_gpu_pod(container), make_injection({"main": amount}))

    assert whole_gpus(done) == {"main": (written, written)}
    assert share_of(done) == {}
    assert "schedulerName" not in done["spec"]


@pytest.mark.parametrize(
    ("asked", "amount"), [("1", "0.3"), ("1", "1"), ("1", "1.0000"), ("2", "1.01"), (2, "2")]
)
def test_what_is_equal_after_rounding_is_no_change_and_no_warning(asked: Any, amount: str) -> None:
    pod = make_gpu_pod(main(asked))

    assert plan_injection(pod, make_injection({"main": amount})) == GpuPlan()


@pytest.mark.parametrize("amount", ["0", "-1", "NaN", "Infinity", "0.0"])
@pytest.mark.parametrize("make", [make_injection, make_kai_injection])
def test_nothing_is_never_written(amount: str, make: Any) -> None:
    assert plan_injection(make_gpu_pod(main("1")), make({"main": amount})) == GpuPlan()


def test_each_container_gets_its_own_and_a_sidecar_is_one_of_them() -> None:
    sidecar = make_gpu_container("cache", "1", "1", restartPolicy="Always")
    pod = make_gpu_pod(main("1"), make_container("log"), initContainers=[sidecar])

    done = injected(pod, make_injection({"main": "2", "cache": "3"}))

    assert whole_gpus(done) == {"main": TWO, "cache": ("3", "3")}


def test_changes_tell_pointer_field_container_and_both_values() -> None:
    plan = plan_injection(make_gpu_pod(main("1")), make_injection())

    told = [(c.path[3:], c.field, c.selector, c.item, c.old, c.new) for c in plan.changes]
    field = ("compute.gpuDevicesRequest", "allContainers", "main", "1", "2")
    assert told == [
        (("resources", "limits", GPU), *field),
        (("resources", "requests", GPU), *field),
        ((), f"annotations[{GPU_BEFORE}]", "podMetadata", "", None, "main=1"),
    ]


@pytest.mark.parametrize(
    ("noted", "shown", "want"),
    [
        pytest.param("draft=3", "draft=3", "draft=3,main=1", id="of-another-container"),
        pytest.param("main=9", "main=9", "main=1", id="of-an-earlier-pass"),
        pytest.param("token: abc", None, "main=1", id="no-note-of-ours"),
    ],
)
def test_what_was_noted_of_other_containers_stays(noted: str, shown: str | None, want: str) -> None:
    pod = make_gpu_pod(main("1"), annotations={GPU_BEFORE: noted})

    plan = plan_injection(pod, make_injection())

    assert (plan.changes[-1].old, plan.changes[-1].new) == (shown, want)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, ""),
        ({"main": Asked("1")}, "main=1"),
        ({"main": Asked("0"), "draft-2": Asked("0.333")}, "draft-2=0.333,main=0"),
        ({"main": Asked("0.65", 4)}, "main=0.65*4"),
        ({"main": Asked(".5"), "draft": Asked("5e-1", 2)}, "draft=5e-1*2,main=.5"),
    ],
)
def test_what_was_asked_for_is_noted_and_read_again(asked: dict[str, Asked], text: str) -> None:
    """As it was written: 2.6 GPUs may be 0.65 of four devices."""
    assert format_before(asked) == text
    assert parse_before(text) == asked


@pytest.mark.parametrize(
    "value",
    [
        *[None, 1, {}, "main", "main=", "main=-1", "main=1e9", "main=1;draft=2", "main=1,"],
        *["main=1.8", "main=0.9*0", "main=2*2", "main=0.0", "main=1.0", f"main=0.{'3' * 31}"],
        "main=1234567890",
    ],
)
def test_what_is_no_note_says_nothing(value: Any) -> None:
    assert parse_before(value) == {}


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        ("2", Asked("2")),
        ("0", Asked("0")),
        ("0.5", Asked("0.5")),
        ("1.8", Asked("0.9", 2)),
        ("2.6", Asked("0.65", 4)),
        ("2.01", Asked("0.67", 3)),
        # In six places no number of devices gives it exactly.
        ("1.000001", Asked("0.500001", 2)),
    ],
)
def test_where_nothing_tells_the_fewest_devices_that_give_it_are_meant(
    amount: str, want: Asked
) -> None:
    assert asked_for(Fraction(amount)) == want


def test_a_share_stays_where_the_strategy_writes_whole_gpus() -> None:
    pod = make_gpu_pod(make_container("main"), annotations={FRACTION: "0.5"})

    assert "whole ones only" in reason(pod, make_injection())


# -- KAI: from whole to a share --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        ("0.5", "0.5"),
        ("0.7", "0.7"),
        ("0.333333", "0.34"),
        ("0.001", "0.01"),
        ("0.99", "0.99"),
        ("0.000000000000000000000000000000000001", "0.01"),
    ],
)
def test_below_one_a_share_takes_the_place_of_whole_gpus(amount: str, written: str) -> None:
    done = injected(make_gpu_pod(main("2")), make_kai_injection({"main": amount}))

    assert share_of(done) == {FRACTION: written, CONTAINER: "main"}
    assert whole_gpus(done) == {}
    assert done["spec"]["schedulerName"] == "kai-scheduler"
    assert done["metadata"]["labels"] == {QUEUE: "gpus"}
    # Nothing else of the container goes with it.
    assert done["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "8Gi"},
        "requests": {"cpu": "1"},
    }


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        pytest.param("1", "1", id="exactly-one-is-whole"),
        pytest.param("1.00", "1", id="one-with-decimals"),
        pytest.param("0.991", "1", id="rounds-up-to-one"),
        pytest.param("0.999999", "1", id="rounds-up-to-one-from-six-places"),
        pytest.param("1.01", "2", id="whole-is-rounded-up"),
        pytest.param("1.5", "2", id="a-half"),
        pytest.param("3", "3", id="three"),
    ],
)
def test_from_one_on_gpus_are_whole_and_no_annotation_of_a_share_is_left(
    amount: str, written: str
) -> None:
    annotations = {FRACTION: "0.5", CONTAINER: "main", MPS: "true", "mine": "stays"}
    pod = make_gpu_pod(make_container("main"), annotations=annotations)

    done = injected(pod, make_kai_injection({"main": amount}))

    assert whole_gpus(done) == {"main": (written, written)}
    assert done["metadata"]["annotations"] == {"mine": "stays", GPU_BEFORE: "main=0.5"}
    assert done["spec"]["schedulerName"] == "kai-scheduler"


def test_every_container_loses_its_zero_so_that_kai_takes_the_share() -> None:
    warm_up = make_gpu_container("warm-up", "0", "0")
    cache = make_gpu_container("cache", 0, 0, restartPolicy="Always")
    pod = make_gpu_pod(main("1"), make_gpu_container("log", "0"), initContainers=[warm_up, cache])

    done = injected(pod, make_kai_injection({"main": "0.4"}))

    assert whole_gpus(done) == {}


def test_a_key_with_null_goes_as_well() -> None:
    log = make_container("log", resources={"limits": {GPU: None}})
    done = injected(make_gpu_pod(main("1"), log), make_kai_injection({"main": "0.4"}))

    assert done["spec"]["containers"][1]["resources"] == {"limits": {}}


@pytest.mark.parametrize(
    ("containers", "init", "annotations", "target", "named"),
    [
        pytest.param(["main", "log"], [], {}, "main", "main", id="first-may-not-stay-it"),
        pytest.param(["log", "main"], [], {}, "main", "main", id="second-is-named"),
        pytest.param(["log"], ["main"], {}, "main", "main", id="sidecar-is-named"),
        pytest.param(
            ["main", "log"], [], {CONTAINER: "log"}, "main", "main", id="name-without-a-share"
        ),
        pytest.param(
            ["main", "log"], [], {CONTAINER: "nobody"}, "main", "main", id="name-of-nobody"
        ),
        pytest.param(
            ["main", "log"], [], {FRACTION: "0.2"}, "main", None, id="share-that-has-none"
        ),
        pytest.param(
            ["log", "main"],
            [],
            {FRACTION: "0.2", CONTAINER: "main"},
            "main",
            "main",
            id="name-that-is-right",
        ),
    ],
)
def test_the_container_of_a_new_share_is_named(
    containers: list[str],
    init: list[str],
    annotations: dict[str, str],
    target: str,
    named: str | None,
) -> None:
    pod = make_gpu_pod(
        *[make_container(name) for name in containers],
        annotations=annotations,
        initContainers=[make_container(name, restartPolicy="Always") for name in init],
    )

    done = injected(pod, make_kai_injection({target: "0.4"}))

    assert share_of(done).get(CONTAINER) == named
    assert share_of(done)[FRACTION] == "0.4"


# -- KAI: from a share to another one --------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "amount", "written"),
    [
        ("0.5", "0.7", "0.7"),
        ("0.5", "0.25", "0.25"),
        ("5e-1", "0.6", "0.6"),
        (".5", "0.6", "0.6"),
        ("0.333", "0.3331", "0.34"),
    ],
)
def test_a_share_changes_in_one_value(asked: str, amount: str, written: str) -> None:
    pod = make_gpu_pod(
        make_container("main"),
        annotations={FRACTION: asked, MPS: "true"},
        labels={QUEUE: "mine"},
        schedulerName="kai-scheduler",
    )

    plan = plan_injection(pod, make_kai_injection({"main": amount}))

    assert [(change.path[-1], change.old, change.new) for change in plan.changes] == [
        (FRACTION, asked, written),
        (GPU_BEFORE, None, f"main={asked}"),
    ]


@pytest.mark.parametrize(
    ("portion", "devices", "amount", "share", "whole"),
    [
        pytest.param("0.5", "2", "1.5", ("0.75", "2"), {}, id="each-gets-its-part"),
        pytest.param("0.5", "2", "0.7", ("0.35", "2"), {}, id="downsize"),
        pytest.param("0.5", "3", "1", ("0.34", "3"), {}, id="part-is-rounded-up"),
        pytest.param("0.5", "1", "0.7", ("0.7", "1"), {}, id="one-device-written-out"),
        pytest.param("0.5", "2", "1.98", ("0.99", "2"), {}, id="just-below-whole"),
        pytest.param("0.5", "2", "1.99", None, {"main": TWO}, id="part-would-be-one"),
        pytest.param("0.5", "2", "2", None, {"main": TWO}, id="whole"),
        pytest.param("0.5", "2", "2.5", None, {"main": ("3", "3")}, id="more-than-they-are"),
    ],
)
def test_shares_of_several_devices_stay_on_so_many(
    portion: str, devices: str, amount: str, share: Any, whole: Any
) -> None:
    pod = make_gpu_pod(make_container("main"), annotations={FRACTION: portion, DEVICES: devices})

    done = injected(pod, make_kai_injection({"main": amount}))

    wanted = {} if share is None else {FRACTION: share[0], DEVICES: share[1]}
    assert share_of(done) == wanted
    assert whole_gpus(done) == whole


@pytest.mark.parametrize(
    ("annotations", "limit", "amount"),
    [
        pytest.param({FRACTION: "0.5"}, None, "0.491", id="share"),
        pytest.param({FRACTION: "0.50"}, None, "0.5", id="share-otherwise-spelt"),
        pytest.param({FRACTION: "0.333"}, None, "0.333", id="share-that-would-be-rounded"),
        pytest.param({FRACTION: "0.5", DEVICES: "2"}, None, "0.99", id="shares-of-two"),
        pytest.param({}, "1", "1", id="whole"),
        pytest.param({}, "1", "0.995", id="whole-after-rounding"),
    ],
)
def test_an_equal_amount_changes_neither_scheduler_nor_queue(
    annotations: dict[str, str], limit: str | None, amount: str
) -> None:
    pod = make_gpu_pod(make_gpu_container("main", limit, limit), annotations=annotations)

    assert plan_injection(pod, make_kai_injection({"main": amount})) == GpuPlan()


# -- KAI: scheduler and queue ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "queue", "replaces", "want"),
    [
        pytest.param(None, "gpus", False, {QUEUE: "gpus"}, id="no-labels"),
        pytest.param({"a": "b"}, "gpus", False, {"a": "b", QUEUE: "gpus"}, id="no-queue"),
        pytest.param({QUEUE: ""}, "gpus", False, {QUEUE: "gpus"}, id="empty-queue"),
        pytest.param({QUEUE: "mine"}, "gpus", False, {QUEUE: "mine"}, id="theirs-stays"),
        pytest.param({QUEUE: "mine"}, "gpus", True, {QUEUE: "gpus"}, id="theirs-is-replaced"),
        pytest.param({"a": "b"}, "", True, {"a": "b"}, id="strategy-without-queue"),
    ],
)
def test_the_queue_is_that_of_the_strategy_unless_the_pod_names_one(
    labels: Any, queue: str, replaces: bool, want: Any
) -> None:
    injection = make_kai_injection({"main": "0.5"}, queue=queue, set_queue_when_specified=replaces)

    done = injected(make_gpu_pod(main("1"), labels=labels), injection)

    assert done["metadata"]["labels"] == want


def test_the_scheduler_is_the_one_that_is_configured() -> None:
    pod = make_gpu_pod(main("1"), schedulerName="default-scheduler")

    done = injected(pod, make_kai_injection({"main": "0.5"}, scheduler_name="kai-two"))

    assert done["spec"]["schedulerName"] == "kai-two"


# -- KAI: several containers -----------------------------------------------------------------------


def test_several_containers_with_whole_gpus_get_whole_ones() -> None:
    pod = make_gpu_pod(main("1"), make_gpu_container("draft", "1", "1"))

    done = injected(pod, make_kai_injection({"main": "1.5", "draft": "0.5"}))

    assert whole_gpus(done) == {"main": TWO, "draft": ONE}
    assert share_of(done) == {}


SEVERAL = [
    pytest.param(
        make_gpu_pod(make_container("main"), make_container("draft")),
        {"main": "0.3", "draft": "0.4"},
        "KAI gives a share to one container only",
        id="two-shares-of-nothing",
    ),
    pytest.param(
        make_gpu_pod(main("1"), make_container("draft")),
        {"main": "1", "draft": "0.4"},
        "KAI gives a share to one container only",
        id="whole-and-share",
    ),
    pytest.param(
        make_gpu_pod(make_container("main"), make_gpu_container("draft", "1", "1")),
        {"main": "0.4"},
        "KAI gives a share to one container only",
        id="share-beside-whole",
    ),
    pytest.param(
        make_gpu_pod(
            make_container("main"), initContainers=[make_gpu_container("warm-up", "1", "1")]
        ),
        {"main": "0.4"},
        "KAI gives a share to one container only",
        id="share-after-an-init-container",
    ),
    pytest.param(
        make_gpu_pod(
            make_container("main"),
            make_container("draft"),
            annotations={FRACTION: "0.5", CONTAINER: "draft"},
        ),
        {"main": "0.4"},
        "draft has it",
        id="share-of-another",
    ),
    pytest.param(
        make_gpu_pod(
            make_container("main"),
            make_container("draft"),
            annotations={FRACTION: "0.5"},
        ),
        {"main": "2", "draft": "1"},
        "main has it",
        id="whole-beside-a-share",
    ),
]


@pytest.mark.parametrize(("pod", "amounts", "told"), SEVERAL)
def test_what_kai_does_not_give_to_several_containers_leaves_the_pod_alone(
    pod: JsonObject, amounts: dict[str, str], told: str
) -> None:
    assert told in reason(pod, make_kai_injection(amounts))


def test_an_init_container_with_gpus_keeps_the_main_one_whole() -> None:
    pod = make_gpu_pod(main("2"), initContainers=[make_gpu_container("warm-up", "1", "1")])

    done = injected(pod, make_kai_injection({"main": "0.5"}))

    assert whole_gpus(done) == {"main": ONE, "warm-up": ONE}


# -- left alone, whoever schedules -----------------------------------------------------------------


NO_COUNTS: tuple[Any, ...] = ("500m", "0.5", "abc", "-1", True, [], {"a": 1}, 1.5)

UNCLEAR = [
    pytest.param(
        make_gpu_pod(make_container("main"), annotations={MEMORY: "2000"}),
        "gpu-memory",
        id="gpu-memory",
    ),
    pytest.param(
        make_gpu_pod(make_gpu_container("main", "1", "1", resource="nvidia.com/mig-1g.5gb")),
        "main asks for nvidia.com/mig-1g.5gb",
        id="mig",
    ),
    pytest.param(
        make_gpu_pod(
            main("1"), make_gpu_container("b", None, "1", resource="nvidia.com/mig-1g.5gb")
        ),
        "b asks for nvidia.com/mig-1g.5gb",
        id="mig-of-another-container",
    ),
    pytest.param(
        make_gpu_pod(make_gpu_container("main", "1", "1", resource="nvidia.com/gpu.shared")),
        "nvidia.com/gpu.shared",
        id="time-slicing",
    ),
    pytest.param(
        make_gpu_pod(make_gpu_container("main", "3000", resource="nvidia.com/gpumem")),
        "nvidia.com/gpumem",
        id="hami-memory",
    ),
    pytest.param(
        make_gpu_pod(make_gpu_container("main", "30", resource="nvidia.com/gpucores")),
        "nvidia.com/gpucores",
        id="hami-cores",
    ),
    pytest.param(
        make_gpu_pod(main("1"), resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}]),
        "claims",
        id="dra",
    ),
    pytest.param(
        make_gpu_pod(main("1"), annotations={"nvidia.com/container.main.gpu-memory.limit": "8Gi"}),
        "by container",
        id="limits-by-container",
    ),
    pytest.param(
        make_gpu_pod(main("1"), annotations={"nvidia.com/gpu-memory.container.main.limit": "8Gi"}),
        "by container",
        id="limits-by-container-in-the-old-order",
    ),
    pytest.param(
        make_gpu_pod(main("1"), annotations={FRACTION: "0.5"}),
        "a share and for whole GPUs",
        id="share-and-whole",
    ),
    *[
        pytest.param(
            make_gpu_pod(make_container("main"), annotations={FRACTION: text}),
            "none that KAI accepts",
            id=f"fraction-{text}",
        )
        for text in ("1", "1.0", "0", "-0.5", "NaN", "0,5", "50%", "500m", "", None, 0.5, "9" * 99)
    ],
    *[
        pytest.param(
            make_gpu_pod(make_container("main"), annotations={FRACTION: "0.5", DEVICES: text}),
            "no number of devices",
            id=f"devices-{text}",
        )
        for text in ("0", "-1", "two", "1.5", "", 2)
    ],
    pytest.param(
        make_gpu_pod(main("1"), annotations={DEVICES: "2"}),
        "and no share",
        id="devices-without-a-share",
    ),
    pytest.param(
        make_gpu_pod(make_container("main"), annotations={FRACTION: "0.5", CONTAINER: "nobody"}),
        "names no container",
        id="share-of-nobody",
    ),
    *[
        pytest.param(
            make_gpu_pod(make_gpu_container("main", value, value)),
            "no whole number",
            id=f"gpu-{value}",
        )
        for value in NO_COUNTS
    ],
    pytest.param(make_gpu_pod(main("1", "2")), "differ", id="limit-and-request-differ"),
    pytest.param(
        make_gpu_pod(make_container("main", resources=[])), "can't be read", id="resources-a-list"
    ),
    pytest.param(
        make_gpu_pod(make_container("main", resources={"limits": "1"})),
        "can't be read",
        id="limits-a-text",
    ),
    pytest.param({"metadata": {}, "spec": {"containers": [1]}}, "can't be read", id="no-object"),
    pytest.param({"metadata": {}, "spec": []}, "can't be read", id="spec-a-list"),
    pytest.param({"metadata": []}, "can't be read", id="metadata-a-list"),
    pytest.param({}, "can't be read", id="empty"),
    pytest.param(
        {"metadata": {"labels": []}, "spec": {"containers": [main("1")]}},
        "can't be read",
        id="labels-a-list",
    ),
    pytest.param(
        {"metadata": {"annotations": "a"}, "spec": {"containers": [main("1")]}},
        "can't be read",
        id="annotations-a-text",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pod", "told"), UNCLEAR)
@pytest.mark.parametrize("make", [make_injection, make_kai_injection])
@pytest.mark.parametrize("amount", ["0.5", "2"])
def test_a_pod_whose_gpus_can_not_be_told_is_left_alone(
    pod: JsonObject, told: str, make: Any, amount: str
) -> None:
    assert told in reason(pod, make({"main": amount}))


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        pytest.param(make_gpu_pod(main("1"), annotations={MPS: "true"}), "mps", id="mps"),
        pytest.param(make_gpu_pod(main("1"), nodeName="node-1"), "bound to a node", id="bound"),
        pytest.param(
            make_gpu_pod(
                main("1"),
                make_container("log", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
            ),
            "log sets NVIDIA_VISIBLE_DEVICES",
            id="visible-devices",
        ),
        pytest.param(
            make_gpu_pod(
                main("1"),
                make_container("log", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}]),
            ),
            "log sets NVIDIA_VISIBLE_DEVICES",
            id="visible-devices-from-elsewhere",
        ),
        *[
            pytest.param(
                make_gpu_pod(
                    main("1"),
                    make_container(
                        "log",
                        env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": v} for v in values],
                    ),
                ),
                "log sets NVIDIA_VISIBLE_DEVICES",
                id=f"twice-{'-'.join(values)}",
            )
            for values in (("void", "all"), ("all", "void"))
        ],
    ],
)
def test_a_pod_that_kai_may_refuse_with_a_share_gets_none(pod: JsonObject, told: str) -> None:
    assert told in reason(pod, make_kai_injection({"main": "0.5"}))


@pytest.mark.parametrize("value", ["", "void", "none"])
def test_who_sees_no_devices_is_in_nobodys_way(value: str) -> None:
    log = make_container("log", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}])

    done = injected(make_gpu_pod(main("1"), log), make_kai_injection({"main": "0.5"}))

    assert share_of(done)[FRACTION] == "0.5"


def test_a_queue_that_can_be_no_label_is_not_written() -> None:
    injection = make_kai_injection({"main": "0.5"}, queue="no label")

    assert "queue" in reason(make_gpu_pod(main("1")), injection)


@pytest.mark.parametrize("make", [make_injection, make_kai_injection])
def test_a_container_that_is_not_there_is_named_and_the_others_get_theirs(make: Any) -> None:
    plan = plan_injection(make_gpu_pod(main("1")), make({"main": "2", "gone": "1"}))

    assert plan.reason == "the pod has no container gone"
    assert whole_gpus(applied(make_gpu_pod(main("1")), plan)) == {"main": TWO}


def test_an_init_container_that_ends_is_not_resized() -> None:
    pod = make_gpu_pod(main("1"), initContainers=[make_gpu_container("warm-up", "1", "1")])

    assert "an init container that ends" in reason(pod, make_injection({"warm-up": "2"}))


# -- what the strategy allows ----------------------------------------------------------------------


def asking(kind: str) -> JsonObject:
    match kind:
        case "nothing":
            return make_gpu_pod(make_container("main"))
        case "zero":
            return make_gpu_pod(main("0"))
        case "share":
            return make_gpu_pod(make_container("main"), annotations={FRACTION: "0.6"})
        case _:
            return make_gpu_pod(main(kind))


@pytest.mark.parametrize(
    ("asked", "amount", "flag", "told"),
    [
        ("1", "2", "upsize", "no upsize"),
        ("3", "2", "downsize", "no downsize"),
        ("nothing", "1", "set_from_unspecified", "none is asked for"),
        ("zero", "1", "set_from_unspecified", "none is asked for"),
        ("share", "0.7", "upsize", "no upsize"),
        ("share", "0.5", "downsize", "no downsize"),
        ("share", "1", "upsize", "no upsize"),
        ("1", "0.5", "downsize", "no downsize"),
        # Of 1, 1.2 is less than what would be written.
        ("1", "1.2", "upsize", "no upsize"),
    ],
)
def test_only_what_the_strategy_allows_is_written(
    asked: str, amount: str, flag: str, told: str
) -> None:
    is_share = asked == "share" or "." in amount
    make = make_kai_injection if is_share else make_injection
    others = {"upsize": False, "downsize": False, "set_from_unspecified": False, flag: True}

    injected(asking(asked), make({"main": amount}, **others))
    assert told in reason(asking(asked), make({"main": amount}, **{flag: False}))


@pytest.mark.parametrize("make", [make_injection, make_kai_injection])
def test_a_strategy_that_allows_nothing_says_nothing_of_a_pod_that_is_right(make: Any) -> None:
    injection = make({"main": "1"}, upsize=False, downsize=False, set_from_unspecified=False)

    assert plan_injection(make_gpu_pod(main("1")), injection) == GpuPlan()


# -- whose amount it is --------------------------------------------------------------------------


BASELINE = {"main": Decimal(1)}


@pytest.mark.parametrize("make", [make_injection, make_kai_injection])
@pytest.mark.parametrize("asked", ["2", "3", "nothing", "share"])
def test_a_pod_whose_owner_has_changed_its_amount_is_made_as_he_wrote_it(
    make: Any, asked: str
) -> None:
    """What is recommended was computed from one GPU; the next round begins with his."""
    pod = asking(asked)
    plan = plan_injection(pod, make({"main": "1.5"}, baselines=BASELINE))

    assert plan.changes == ()
    own = {"nothing": "0", "share": "0.6"}.get(asked, asked)
    assert plan.reason == (
        f"its owner gives main {own} GPUs, and what is recommended was computed from 1"
    )


@pytest.mark.parametrize("make", [make_injection, make_kai_injection])
def test_a_pod_that_comes_as_it_was_is_given_what_is_recommended(make: Any) -> None:
    first = injected(asking("1"), make({"main": "2"}, baselines=BASELINE))

    assert whole_gpus(first) == {"main": ("2", "2")}
    # Asked once more, after another webhook: what it has now is ours.
    again = plan_injection(first, make({"main": "3"}, baselines=BASELINE))
    assert [change.new for change in again.changes if change.path[-1] == GPU] == ["3", "3"]


def test_a_baseline_is_compared_as_it_is_stored() -> None:
    """With six places: three devices of 0.3333333 each."""
    annotations = {FRACTION: "0.3333333", DEVICES: "3"}
    pod = make_gpu_pod(make_gpu_container(), annotations=annotations)
    injection = make_kai_injection({"main": "1.2"}, baselines={"main": Decimal("1.000000")})

    assert share_of(injected(pod, injection))[FRACTION] == "0.4"


def test_each_container_is_its_owners_by_itself() -> None:
    pod = make_gpu_pod(main("1"), make_gpu_container("draft", limit="4", request="4"))
    both = {"main": Decimal(1), "draft": Decimal(2)}

    plan = plan_injection(pod, make_injection({"main": "2", "draft": "3"}, baselines=both))

    assert {change.item for change in plan.changes if change.item} == {"main"}
    assert plan.reason.startswith("its owner gives draft 4 GPUs")


# -- paused and skipped ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "owners", "is_paused"),
    [
        pytest.param("infinite", [], True, id="for-ever"),
        pytest.param(" infinite ", [], True, id="with-spaces"),
        pytest.param("2026-06-01T12:00:01Z", [], True, id="a-second-more"),
        pytest.param("2026-06-01T12:00:00Z", [], False, id="over-now"),
        pytest.param("2026-06-01T13:59:59+02:00", [], False, id="over-elsewhere"),
        pytest.param("2026-06-01T14:00:01.5+02:00", [], True, id="elsewhere"),
        pytest.param("2026-06-01t12:00:01z", [], True, id="lower-case"),
        pytest.param("tomorrow", [], True, id="unreadable"),
        pytest.param("2026-06-01", [], True, id="a-day"),
        pytest.param("2026-13-01T00:00:00Z", [], True, id="no-month"),
        pytest.param("0001-01-01T00:00:00+23:00", [], True, id="before-all-time"),
        pytest.param("", [], True, id="empty"),
        pytest.param(None, ["infinite"], True, id="by-the-owner"),
        pytest.param(None, [None, "infinite"], True, id="by-the-owners-owner"),
        pytest.param("2020-01-01T00:00:00Z", ["infinite"], False, id="the-pod-comes-first"),
        pytest.param(None, ["2020-01-01T00:00:00Z", "infinite"], False, id="nearest-owner-first"),
        pytest.param(None, [], False, id="not-at-all"),
    ],
)
def test_a_pause_holds_while_the_nearest_annotation_says_so(
    own: str | None, owners: list[str | None], is_paused: bool
) -> None:
    annotations = {} if own is None else {PAUSE_UNTIL: own}
    pod = make_gpu_pod(main("1"), annotations=annotations)
    controls = tuple([Controls(pause_until=text) for text in owners])

    plan = plan_injection(pod, make_injection(controls=controls, now=NOW))

    assert bool(plan.changes) is not is_paused
    assert ("paused" in plan.reason) is is_paused


def test_a_pause_does_not_count_where_the_strategy_does_not_look_at_it() -> None:
    pod = make_gpu_pod(main("1"), annotations={PAUSE_UNTIL: "infinite"})

    assert whole_gpus(injected(pod, make_injection(respects_pause=False))) == {"main": TWO}


def test_a_paused_pod_that_is_right_is_not_told() -> None:
    pod = make_gpu_pod(main("2"), annotations={PAUSE_UNTIL: "infinite"})

    assert plan_injection(pod, make_injection(now=NOW)) == GpuPlan()


@pytest.mark.parametrize(
    ("own", "owners", "written"),
    [
        pytest.param("main", [], {"draft"}, id="one"),
        pytest.param(" main , main ,, ", [], {"draft"}, id="with-spaces-and-twice"),
        pytest.param("main,draft", [], set(), id="all"),
        pytest.param("", ["main"], {"main", "draft"}, id="empty-on-the-pod-skips-none"),
        pytest.param(None, ["main"], {"draft"}, id="by-the-owner"),
        pytest.param(None, ["", "main"], {"draft"}, id="empty-on-an-owner-says-nothing"),
        pytest.param(None, ["draft", "main"], {"main"}, id="nearest-owner-first"),
        pytest.param("elsewhere", [], {"main", "draft"}, id="of-nobody"),
    ],
)
def test_skipped_containers_stay_as_they_are(
    own: str | None, owners: list[str], written: set[str]
) -> None:
    annotations = {} if own is None else {SKIP_CONTAINERS: own}
    pod = make_gpu_pod(main("1"), make_gpu_container("draft", "1", "1"), annotations=annotations)
    controls = tuple([Controls(skip_containers=text) for text in owners])

    plan = plan_injection(pod, make_injection({"main": "2", "draft": "2"}, controls=controls))

    assert {change.item for change in plan.changes if change.item} == written
    skipped = {"main", "draft"} - written
    assert [f"container {name} is to be skipped" in plan.reason for name in skipped] == [
        True
    ] * len(skipped)


# -- what the namespace leaves ---------------------------------------------------------------------


def room(free: int | None = None, *limits: tuple[str, int | None, int | None]) -> dict[str, Any]:
    found = tuple(
        [
            GpuLimit(
                kind,
                None if least is None else Fraction(least),
                None if most is None else Fraction(most),
            )
            for kind, least, most in limits
        ]
    )
    return {"room": GpuRoom(None if free is None else Fraction(free), found)}


SIDECAR = make_gpu_container("cache", "1", "1", restartPolicy="Always")
WARM_UP = make_gpu_container("warm-up", "4", "4")


@pytest.mark.parametrize(
    ("pod", "given", "told"),
    [
        pytest.param(make_gpu_pod(main("1")), room(2), "", id="room-for-it"),
        pytest.param(make_gpu_pod(main("1")), room(1), "leaves 1 GPUs, not 2", id="too-little"),
        pytest.param(make_gpu_pod(main("1")), room(-3), "leaves 0 GPUs, not 2", id="overdrawn"),
        pytest.param(make_gpu_pod(main("3")), room(0), "", id="less-needs-no-room"),
        pytest.param(
            make_gpu_pod(main("1"), initContainers=[SIDECAR]),
            room(2),
            "leaves 2 GPUs, not 3",
            id="a-sidecar-counts",
        ),
        pytest.param(
            make_gpu_pod(main("1"), initContainers=[WARM_UP]), room(0), "", id="an-init-had-more"
        ),
        pytest.param(
            make_gpu_pod(main("1")), room(None, ("Container", None, 2)), "", id="limit-kept"
        ),
        pytest.param(
            make_gpu_pod(main("1")),
            room(None, ("Container", None, 1)),
            "a container at most 1 GPUs, not 2",
            id="limit-of-a-container",
        ),
        pytest.param(
            make_gpu_pod(main("1"), make_gpu_container("b", "1", "1")),
            room(None, ("Pod", None, 2)),
            "a pod at most 2 GPUs, not 3",
            id="limit-of-a-pod",
        ),
        pytest.param(
            make_gpu_pod(main("8")),
            room(None, ("Container", 4, None)),
            "at least 4 GPUs of a container, not 2",
            id="least-of-a-container",
        ),
    ],
)
def test_whole_gpus_are_written_where_the_namespace_has_room(
    pod: JsonObject, given: Any, told: str
) -> None:
    if told:
        assert told in reason(pod, make_injection(**given))
    else:
        assert whole_gpus(injected(pod, make_injection(**given)))["main"] == TWO


def test_a_quota_does_not_count_where_the_strategy_does_not_look_at_it() -> None:
    pod = make_gpu_pod(main("1"))

    assert whole_gpus(injected(pod, make_injection(respects_quota=False, **room(0)))) == {
        "main": TWO
    }


def test_a_share_needs_no_quota() -> None:
    done = injected(make_gpu_pod(main("1")), make_kai_injection({"main": "0.5"}, **room(0)))

    assert share_of(done)[FRACTION] == "0.5"


def test_from_a_share_to_whole_gpus_a_quota_counts_them_all() -> None:
    pod = make_gpu_pod(make_container("main"), annotations={FRACTION: "0.9"})

    assert "leaves 0 GPUs" in reason(pod, make_kai_injection({"main": "1"}, **room(0)))


@pytest.mark.parametrize("kind", ["Container", "Pod"])
def test_where_a_limit_range_wants_whole_gpus_there_is_no_share(kind: str) -> None:
    pod = make_gpu_pod(main("1"))
    injection = make_kai_injection({"main": "0.5"}, **room(None, (kind, None, 8)))

    assert "LimitRange" in reason(pod, injection)


# -- the ceiling, after rounding --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "amount", "ceiling", "want"),
    [
        pytest.param("1", "1.5", "1.5", "1", id="what-it-has-is-all-that-is-allowed"),
        pytest.param("1", "2.4", "2.5", "2", id="lowered-to-what-is-allowed"),
        pytest.param("1", "2.4", "3", "3", id="rounded-up-within-it"),
        pytest.param("0", "1.5", "1.5", "1", id="the-first-one"),
    ],
)
@pytest.mark.parametrize("make", [make_injection, make_kai_injection])
def test_whole_gpus_are_not_rounded_up_beyond_the_ceiling(
    asked: str, amount: str, ceiling: str, want: str, make: Any
) -> None:
    pod = make_gpu_pod(main(asked))
    plan = plan_injection(pod, make({"main": amount}, ceilings={"main": Decimal(ceiling)}))

    assert plan.reason == ""
    assert whole_gpus(applied(pod, plan)) == {"main": (want, want)}


@pytest.mark.parametrize(
    ("portion", "devices", "amount", "ceiling", "want"),
    [
        pytest.param("0.5", "1", "0.755", "0.755", "0.75", id="a-share"),
        pytest.param("0.5", "1", "0.995", "0.995", "0.99", id="a-share-that-would-be-whole"),
        pytest.param("0.4", "2", "0.99", "0.99", "0.49", id="of-two-devices"),
    ],
)
def test_shares_are_not_rounded_up_beyond_the_ceiling(
    portion: str, devices: str, amount: str, ceiling: str, want: str
) -> None:
    pod = make_gpu_pod(make_container("main"), annotations={FRACTION: portion, DEVICES: devices})
    ceilings = {"main": Decimal(ceiling)}

    assert share_of(injected(pod, make_kai_injection({"main": amount}, ceilings=ceilings))) == {
        FRACTION: want,
        DEVICES: devices,
    }


@pytest.mark.parametrize(
    ("asked", "amount", "ceiling"),
    [
        pytest.param("2", "1.5", "1.5", id="less-than-it-has"),
        pytest.param("0", "0.5", "0.5", id="no-whole-gpu"),
    ],
)
def test_where_the_ceiling_leaves_less_than_is_there_nothing_is_written(
    asked: str, amount: str, ceiling: str
) -> None:
    injection = make_injection({"main": amount}, ceilings={"main": Decimal(ceiling)})

    assert reason(make_gpu_pod(main(asked)), injection).startswith(
        f"the strategy's ceiling is {ceiling}, and rounded up main would have "
    )


# -- properties ------------------------------------------------------------------------------------


@st.composite
def pods(draw: st.DrawFn) -> JsonObject:
    counts = st.sampled_from([None, None, "0", "1", "2", 3])

    def container(name: str, **more: Any) -> JsonObject:
        count = draw(counts)
        request = draw(st.sampled_from([None, count])) if count is not None else None
        resource = draw(st.sampled_from([GPU] * 9 + ["nvidia.com/mig-1g.5gb"]))
        return make_gpu_container(name, count, request, resource=resource, **more)

    names = ["main", "draft", "log"][: draw(st.integers(1, 3))]
    init = []
    if draw(st.booleans()):
        restart = draw(st.sampled_from([{}, {"restartPolicy": "Always"}]))
        init = [container("warm-up", **restart)]
    annotations = draw(
        st.fixed_dictionaries(
            {},
            optional={
                FRACTION: st.sampled_from(["0.5", "0.25", "1", "x"]),
                DEVICES: st.sampled_from(["1", "2", "0"]),
                CONTAINER: st.sampled_from(["main", "draft", "warm-up", "nobody"]),
                MPS: st.sampled_from(["true", "false"]),
                MEMORY: st.just("2000"),
            },
        )
    )
    if draw(st.booleans()):
        annotations = {}
    return make_gpu_pod(
        *[container(name) for name in names], annotations=annotations, initContainers=init
    )


@st.composite
def injections(draw: st.DrawFn) -> Injection:
    scheduler = draw(st.sampled_from([Scheduler.NONE, Scheduler.KAI]))
    amounts = draw(
        st.dictionaries(
            st.sampled_from(["main", "draft", "warm-up"]),
            st.decimals("0", "4", places=draw(st.sampled_from([0, 1, 6]))).map(str),
            min_size=1,
        )
    )
    flags = {name: draw(st.booleans()) for name in ("upsize", "downsize", "set_from_unspecified")}
    allowed = flags if draw(st.booleans()) else {}
    ceilings = {name: Decimal(amount) for name, amount in amounts.items() if draw(st.booleans())}
    return make_injection(amounts, scheduler=scheduler, queue="gpus", ceilings=ceilings, **allowed)


@pytest.mark.slow
@given(pods(), injections())
def test_a_pod_comes_out_as_one_that_is_accepted_or_as_it_was(
    pod: JsonObject, injection: Injection
) -> None:
    plan = plan_injection(pod, injection)
    done = applied(pod, plan)

    if plan.changes:
        assert kubernetes_refusals(done) == []
        assert kai_refusals(done) == [] or injection.scheduler is Scheduler.NONE
    else:
        assert done == pod


@pytest.mark.slow
@given(pods(), injections())
def test_nobody_is_given_more_than_the_ceiling(pod: JsonObject, injection: Injection) -> None:
    plan = plan_injection(pod, injection)
    if plan.changes:
        before, after = read_gpus(pod), read_gpus(applied(pod, plan))
        asked = {each.name: before.asked(each) for each in before.containers}
        for container in after.containers:
            ceiling = injection.ceilings.get(container.name)
            if ceiling is not None and after.asked(container) > asked[container.name]:
                assert after.asked(container) <= ceiling


@pytest.mark.slow
@given(pods(), injections())
def test_a_second_pass_changes_nothing(pod: JsonObject, injection: Injection) -> None:
    done = applied(pod, plan_injection(pod, injection))

    assert plan_injection(done, injection).changes == ()
