"""What holds for any policy and any object: `submit` itself checks patch and second pass."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.model.pointer import lookup

AMOUNTS: st.SearchStrategy[Any] = st.sampled_from(
    [0.5, 1, 2, "500m", "2", "1Gi", "128Mi", 4, "x", None, True, []]
)
TEXTS = st.sampled_from(["a", "b", "ghcr.io/x", "", None, 5])
NAMES = st.sampled_from(["A", "B", "C"])
ITEMS = st.lists(
    st.fixed_dictionaries(
        {"resource": st.sampled_from(["x/a", "x/b", "x/c"])},
        optional={"quantity": AMOUNTS, "exclude": st.booleans()},
    ),
    max_size=3,
)

TRAININGS = st.fixed_dictionaries(
    {},
    optional={
        "image": TEXTS,
        "nodeType": TEXTS,
        "imagePullPolicy": TEXTS,
        "backoffLimit": AMOUNTS,
        "compute": st.fixed_dictionaries(
            {},
            optional={
                "cpuCoreRequest": AMOUNTS,
                "cpuCoreLimit": AMOUNTS,
                "cpuMemoryLimit": AMOUNTS,
                "extendedResources": st.one_of(st.none(), ITEMS),
            },
        ),
        "security": st.one_of(st.none(), st.just({"runAsUid": 5, "unknown": 2**60})),
    },
)

SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "image": st.fixed_dictionaries(
            {},
            optional={
                "required": st.booleans(),
                "pattern": st.just(["a*", "ghcr.io/*"]),
                "options": st.just(["a", "ghcr.io/x"]),
            },
        ),
        "nodeType": st.fixed_dictionaries({}, optional={"canEdit": st.booleans()}),
        "backoffLimit": st.fixed_dictionaries(
            {}, optional={"min": st.integers(0, 2), "max": st.integers(2, 5)}
        ),
    },
)
DEFAULTS = st.fixed_dictionaries(
    {},
    optional={
        "image": st.sampled_from(["a", "ghcr.io/x"]),
        "nodeType": st.just("b"),
        "backoffLimit": st.just(2),
        "compute": st.fixed_dictionaries(
            {},
            optional={
                "cpuCoreRequest": st.sampled_from([1, 2]),
                "cpuMemoryLimit": st.just("1Gi"),
                "extendedResources": st.fixed_dictionaries(
                    {
                        "instances": st.just(
                            [{"resource": "x/a", "quantity": 1}, {"resource": "x/b"}]
                        )
                    },
                    optional={"attributes": st.just({"quantity": 3})},
                ),
            },
        ),
    },
)


def named_paths(defaults: dict[str, Any]) -> list[tuple[str, ...]]:
    """The paths in `spec` that a policy's defaults name; system policies name two more."""
    found: list[tuple[str, ...]] = [("security",), ("terminationGracePeriodSeconds",)]
    for key, value in defaults.items():
        found += [("compute", inner) for inner in value] if key == "compute" else [(key,)]
    return found


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(defaults=DEFAULTS, rules=SECTIONS, spec=TRAININGS)
def test_what_is_allowed_stays_as_it_is_and_only_named_paths_are_touched(
    defaults: dict[str, Any], rules: dict[str, Any], spec: dict[str, Any]
) -> None:
    snapshot = make_snapshot(make_workload_policy(defaults=defaults, rules=rules))
    document = make_training(**copy.deepcopy(spec))

    answer = submit(snapshot, copy.deepcopy(document))

    places = ["/spec/" + "/".join(named) for named in named_paths(defaults)]
    if "'exclude': True" in repr(spec):
        # What the submitter excludes is taken out, whatever policies name.
        places.append("/spec/compute/extendedResources")
    for operation in answer.patch:
        path = f"{operation['path']}/"
        assert path.startswith("/metadata/annotations/") or any(
            path.startswith(f"{place}/") or f"{place}/".startswith(path) for place in places
        )
    if answer.allowed:
        again = submit(snapshot, answer.document)
        assert again.allowed
        assert again.patch == []
        for key, value in spec.items():
            if (key,) not in named_paths(defaults) and key != "compute":
                after = lookup(answer.document, ("spec", key))
                assert orjson.dumps(after) == orjson.dumps(value)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(defaults=DEFAULTS, rules=SECTIONS, spec=TRAININGS)
def test_an_object_that_did_not_change_is_left_alone(
    defaults: dict[str, Any], rules: dict[str, Any], spec: dict[str, Any]
) -> None:
    """However badly it breaks what came after it."""
    snapshot = make_snapshot(make_workload_policy(defaults=defaults, rules=rules))
    document = make_training(**copy.deepcopy(spec))
    touched = copy.deepcopy(document)
    touched["metadata"]["labels"] = {"a": "b"}

    answer = submit(snapshot, touched, old=document)

    assert answer.allowed
    assert answer.patch == []


CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "image": TEXTS,
            "resources": st.one_of(
                st.none(),
                st.just({}),
                st.fixed_dictionaries(
                    {},
                    optional={
                        "limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNTS),
                        "requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNTS),
                    },
                ),
            ),
            "securityContext": st.one_of(st.none(), st.just({"privileged": True})),
        },
    ),
    max_size=3,
)
RULES = [
    make_rule("resourceLimits", "allContainers", {"default": {"key": "cpu", "value": 2}}),
    make_rule("resourceLimits", "allContainers", {"max": {"key": "memory", "value": "512Mi"}}),
    make_rule("resourceRequests", "mainContainer", {"set": {"key": "cpu", "value": "500m"}}),
    make_rule("image", "allContainers", {"required": True}, {"pattern": ["ghcr.io/*"]}),
    make_rule("privileged", "allContainers", {"set": False}),
    make_rule("capabilitiesDrop", "mainContainer", {"set": ["ALL"]}),
    make_rule("labels", "metadata", {"default": {"key": "a.b/c", "value": "d"}}),
    make_rule("runAsNonRoot", "podSpec", {"default": True}),
]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    rules=st.lists(st.sampled_from(RULES), unique_by=id, max_size=5),
    containers=CONTAINERS,
    init=st.one_of(st.none(), CONTAINERS),
)
def test_any_pod_is_decided_and_patched_once(
    rules: list[Any], containers: list[Any], init: list[Any] | None
) -> None:
    snapshot = make_snapshot(make_gvk_policy(*rules))
    pod = make_pod(containers=containers, initContainers=init)

    answer = submit(snapshot, pod)

    assert answer.allowed or answer.decision.violations
