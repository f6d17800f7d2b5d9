"""What policies write at one selector may be a place of another, which then counts as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import (
    JsonObject,
    make_gvk_policy,
    make_request,
    make_rule,
    make_snapshot,
    make_workload_policy,
)
from tests.jq import ACME, Jq, make_acme_job, make_formatter, make_group, make_mapping
from webhook.admission.review import review
from webhook.errors import EvaluationError
from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits
from webhook.mapping.patterns import EACH
from webhook.mapping.uncovering import Uncovering, WrittenPath, uncovering
from webhook.model.decision import Rule
from webhook.model.kinds import GroupVersionKind
from webhook.model.request import Phase
from webhook.model.scopes import Branch
from webhook.model.values import FieldType
from webhook.policy.enforce import enforcer
from webhook.store.snapshot import Snapshot

FIELDS = {
    "sidecarImage": {"specRef": "sidecar.image", "type": "string"},
    "sidecar": {"specRef": "sidecar", "type": "object"},
    "sidecarName": {"specRef": "sidecar", "type": "string"},
    "image": {"specRef": "image", "type": "string"},
    "pull": {"specRef": "policy.pull", "type": "string"},
    "limit": {"specRef": "limit", "type": "integer"},
    "request": {"specRef": "request", "type": "integer"},
    "on": {"specRef": "on", "type": "boolean"},
    "policy": {"specRef": "policy", "type": "object"},
    "shown": {"formatter": "acme"},
    "hosts": {"type": "strings", "itemSelectors": ["startingWith"]},
}
FORMATTER = make_formatter(
    {
        "shown": {
            "getExpr": ".sidecar.shown?",
            "setExpr": "{sidecar: {shown: $ARGS.named.value}}",
            "argsInfo": {"value": "string"},
        }
    }
)
GROUP = make_group(
    FIELDS,
    itemSelectors={
        "startingWith": {
            "query": "startswith($args.named.prefix)",
            "argsInfo": {"prefix": "string"},
        }
    },
)
TOP = {"query": ".spec", "dependency": {"path": "spec"}}
SIDECAR = {"query": ".spec.sidecar"}
A_SIDECAR = make_rule("sidecarImage", "top", {"default": "busybox"})


@pytest.fixture(scope="module")
def jq() -> Iterator[Jq]:
    with JqWorker(WorkerLimits(evaluate_ms=20_000)) as worker:
        yield Jq(worker)


def snapshot_of(jq: Jq, selectors: JsonObject, *rules: JsonObject, **more: Any) -> Snapshot:
    """A mapping of AcmeJob with *selectors*, beside `top`, and one policy of *rules*."""
    mapping = make_mapping()
    mapping["spec"]["specSelectors"] = {
        name: {"fieldGroups": ["own"], **selector}
        for name, selector in {"top": TOP, **selectors}.items()
    }
    policy = make_gvk_policy(*rules, kind=ACME, **more)
    return jq.snapshot(FORMATTER, GROUP, mapping, policy)


def uncovers(snapshot: Snapshot) -> Uncovering:
    plan = snapshot.plan(GroupVersionKind(**ACME), Branch())
    assert plan is not None
    return plan.uncovers


# --- what is written and judged -------------------------------------------------------------------


@pytest.mark.parametrize(
    "creating",
    [
        pytest.param(A_SIDECAR, id="default"),
        pytest.param(make_rule("sidecarImage", "top", {"set": "busybox"}), id="set"),
        pytest.param(
            make_rule("sidecar", "top", {"default": {"image": "busybox"}}), id="whole-object"
        ),
    ],
)
def test_the_rules_of_a_place_that_a_policy_makes_act_at_once(jq: Jq, creating: Any) -> None:
    snapshot = snapshot_of(
        jq,
        {"side": SIDECAR},
        creating,
        make_rule("limit", "side", {"default": 5}),
        make_rule("request", "side", {"set": 1}),
    )

    answer = jq.submit(snapshot, make_acme_job())

    assert answer.allowed
    assert answer.at("/spec/sidecar") == {"image": "busybox", "limit": 5, "request": 1}
    assert [change.selector for change in answer.decision.changes] == ["top", "side", "side"]


@pytest.mark.parametrize("selector", ["side", "policy"], ids=["there", "further-in"])
@pytest.mark.parametrize(
    "old",
    [
        pytest.param(None, id="create"),
        pytest.param(
            {
                "limit": 1,
                "policy": {
                    "limit": 1,
                    "policy": {"pull": "x"},
                    "sidecar": {"shown": "no"},
                    "hosts": ["db.old"],
                },
                "sidecar": {"shown": "no"},
                "hosts": ["db.old"],
            },
            id="update",
        ),
    ],
)
@pytest.mark.parametrize(
    ("written", "rule"),
    [
        pytest.param("limit", {"default": 5}, id="beside"),
        pytest.param("limit", {"set": 5}, id="set"),
        pytest.param("pull", {"default": "Always"}, id="below"),
        pytest.param("policy", {"default": {"a": 1}}, id="object"),
        pytest.param("policy", {"set": {"a": 1}}, id="set-object"),
        pytest.param("shown", {"default": "yes"}, id="by-a-formatter"),
        pytest.param("shown", {"set": "yes"}, id="set-by-a-formatter"),
        pytest.param("hosts", {"default": "db.local"}, id="item"),
    ],
)
def test_a_text_that_takes_the_place_of_an_object_takes_all_that_is_in_it(
    jq: Jq, written: str, rule: JsonObject, old: JsonObject | None, selector: str
) -> None:
    """Nothing is written into what is out of the object: no patch could say that."""
    chosen = {"itemSelector": "startingWith", "selectorParams": {"prefix": "db."}}
    snapshot = snapshot_of(
        jq,
        {"side": SIDECAR, "policy": {"query": ".spec.sidecar.policy"}},
        make_rule("sidecarName", "top", {"set": "none"}),
        make_rule(written, selector, rule, **(chosen if written == "hosts" else {})),
    )
    request = make_request(
        make_acme_job(sidecar={"image": "busybox", "policy": {}}),
        old=None if old is None else make_acme_job(sidecar=old),
    )

    decision = jq.decide(request, Phase.REVIEW, snapshot)

    assert decision.patch == [{"op": "replace", "path": "/spec/sidecar", "value": "none"}]
    assert request.object is not None
    assert request.object["spec"]["sidecar"] == "none"
    assert [change.field for change in decision.changes] == ["sidecarName"]


def test_what_it_lacks_is_asked_for(jq: Jq) -> None:
    snapshot = snapshot_of(
        jq, {"side": SIDECAR}, A_SIDECAR, make_rule("limit", "side", {"required": True})
    )
    request = make_request(make_acme_job())

    decision = review(request, Phase.REVIEW, snapshot)

    assert [(v.field, v.rule) for v in decision.violations] == [("limit", Rule.REQUIRED)]


def chain_of_five(jq: Jq) -> Snapshot:
    """Each of four selectors has its place where the default of the one before makes it."""
    selectors = {f"s{depth}": {"query": ".spec" + ".sidecar" * depth} for depth in range(1, 5)}
    rules = [make_rule("sidecarImage", name, {"default": name}) for name in ("top", *selectors)]
    return snapshot_of(jq, selectors, *reversed(rules))


def test_a_chain_of_places_is_followed_to_its_end(jq: Jq) -> None:
    answer = jq.submit(chain_of_five(jq), make_acme_job())

    images = [answer.at(f"/spec{'/sidecar' * depth}/image") for depth in range(1, 6)]
    assert images == ["top", "s1", "s2", "s3", "s4"]


def test_a_place_below_one_that_was_made_may_be_created(jq: Jq) -> None:
    """Its parent has no `dependency`: it has a place only once the sidecar is there."""
    below = {
        "query": ".spec.sidecar.policy",
        "dependency": {"specSelector": "side", "path": "policy"},
    }
    snapshot = snapshot_of(
        jq,
        {"below": below, "side": SIDECAR},
        A_SIDECAR,
        make_rule("limit", "below", {"default": 1}),
    )

    answer = jq.submit(snapshot, make_acme_job())

    assert answer.at("/spec/sidecar") == {"image": "busybox", "policy": {"limit": 1}}


def test_the_items_of_a_list_that_was_made_are_places(jq: Jq) -> None:
    snapshot = snapshot_of(
        jq,
        {"job": {"query": ".spec.sidecar.jobs[]?"}},
        make_rule("sidecar", "top", {"default": {"jobs": [{"image": "a"}, {}]}}),
        make_rule("image", "job", {"default": "b"}),
    )

    answer = jq.submit(snapshot, make_acme_job())

    assert answer.at("/spec/sidecar/jobs") == [{"image": "a"}, {"image": "b"}]


def test_of_a_value_that_is_written_twice_the_last_is_told(jq: Jq) -> None:
    """The set of the place that was made counts; what stood there is what was submitted."""
    snapshot = snapshot_of(
        jq, {"side": SIDECAR}, A_SIDECAR, make_rule("image", "side", {"set": "alpine"})
    )

    answer = jq.submit(snapshot, make_acme_job())

    assert answer.at("/spec/sidecar/image") == "alpine"
    told = [(c.field, c.rule, c.old, c.new) for c in answer.decision.changes]
    assert told == [("image", Rule.SET, None, "alpine")]


def test_an_update_completes_a_place_that_is_new(jq: Jq) -> None:
    snapshot = snapshot_of(
        jq, {"side": SIDECAR}, A_SIDECAR, make_rule("limit", "side", {"default": 5})
    )

    old = make_acme_job(sidecar={"image": "x", "limit": 1})
    answer = jq.submit(snapshot, make_acme_job(limit=1), old=old)

    assert answer.at("/spec/sidecar") == {"image": "busybox", "limit": 5}


def test_a_policy_that_is_only_tried_tells_all_that_it_would_do(jq: Jq) -> None:
    policy = make_gvk_policy(A_SIDECAR, make_rule("limit", "side", {"default": 5}), kind=ACME)
    policy["spec"]["mode"] = "Audit"
    mapping = make_mapping()
    mapping["spec"]["specSelectors"] = {
        "top": {"fieldGroups": ["own"], **TOP},
        "side": {"fieldGroups": ["own"], **SIDECAR},
    }
    snapshot = jq.snapshot(FORMATTER, GROUP, mapping, policy)

    decision = review(make_request(make_acme_job()), Phase.MUTATE, snapshot)

    (preview,) = decision.previews
    assert [change.field for change in preview.changes] == ["sidecarImage", "limit"]


BORROWING = {
    "whole": {"query": "."},
    "master": {"query": ".master", "sameAs": {"specSelector": "top", "when": "on"}},
}


def test_places_that_a_written_flag_lends_are_judged_at_once(jq: Jq) -> None:
    snapshot = snapshot_of(
        jq,
        BORROWING,
        make_rule("on", "whole", {"default": True}),
        make_rule("limit", "master", {"max": 4}),
    )

    decision = jq.decide(make_request(make_acme_job(limit=5)), Phase.REVIEW, snapshot)

    assert [(v.path, v.selector) for v in decision.violations] == [(("spec", "limit"), "master")]


# --- where it takes jq ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param(".spec.sidecar | objects", {"limit": 5}, id="outline"),
        pytest.param('.spec.sidecar | select(.image == "busybox")', {"limit": 5}, id="condition"),
        pytest.param('.spec.sidecar | select(.image == "alpine")', {}, id="condition-not-met"),
        pytest.param(".spec[] | objects | select(length == 1)", {"limit": 5}, id="unknown-form"),
    ],
)
def test_jq_is_asked_again_about_what_was_made(jq: Jq, query: str, want: JsonObject) -> None:
    snapshot = snapshot_of(
        jq, {"side": {"query": query}}, A_SIDECAR, make_rule("limit", "side", {"default": 5})
    )
    # `select(length == 1)` no longer finds it when it has a limit, and nothing is undone.

    answer = jq.submit(snapshot, make_acme_job())

    assert answer.at("/spec/sidecar") == {"image": "busybox", **want}


def test_a_condition_on_what_is_written_is_looked_at_again(jq: Jq) -> None:
    """No object is new here: `on` decides which one is a place."""
    snapshot = snapshot_of(
        jq,
        {"enabled": {"query": ".spec.sidecar | select(.on)"}, "side": SIDECAR},
        make_rule("on", "side", {"set": True}),
        make_rule("limit", "enabled", {"default": 5}),
    )

    answer = jq.submit(snapshot, make_acme_job(sidecar={"on": False}))

    assert answer.at("/spec/sidecar") == {"on": True, "limit": 5}


# KServe takes the first container of this name for the main one, else the first.
SERVER = "kserve-container"
SERVICE = {"group": "serving.kserve.io", "version": "v1beta1", "kind": "InferenceService"}


def renaming(jq: Jq, **policy: Any) -> Snapshot:
    """A policy that names the containers, and a hierarchical one for the main container."""
    return jq.snapshot(
        make_gvk_policy(
            make_rule("name", "predictorContainers", {"set": SERVER}), kind=SERVICE, name="names"
        ),
        make_workload_policy(workload_type=SERVICE, **policy),
    )


def make_service(*containers: JsonObject) -> JsonObject:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "one", "namespace": "team-a"},
        "spec": {"predictor": {"containers": [*containers]}},
    }


def test_a_name_that_makes_a_container_the_main_one_is_looked_at_again(jq: Jq) -> None:
    """The same containers are there: only which one is meant by default is another."""
    snapshot = renaming(jq, defaults={"workingDir": "/srv"})

    answer = jq.submit(snapshot, make_service({"name": "a"}, {"name": SERVER}))

    # That of the submitter's own stays: it was the main one when it was filled.
    served = {"name": SERVER, "workingDir": "/srv"}
    assert answer.at("/spec/predictor/containers") == [served, served]


def test_a_container_that_is_given_an_old_name_goes_with_the_old_one(jq: Jq) -> None:
    """As `/validate` sees it, which knows the new name only. Another main one has it looked at."""
    snapshot = renaming(jq, rules={"workingDir": {"options": [{"value": "/srv"}]}})
    old = make_service({"name": SERVER, "workingDir": "/old"})
    service = make_service({"name": "a", "workingDir": "/old"}, {"name": SERVER})

    answer = jq.submit(snapshot, service, old=old)

    assert answer.broken == []
    assert answer.at("/spec/predictor/containers/0/name") == SERVER


def test_what_the_new_main_container_lacks_is_asked_for(jq: Jq) -> None:
    """Here nobody has asked which one it is before the name was written."""
    snapshot = renaming(jq, rules={"workingDir": {"required": True}})
    service = make_service({"name": "a"}, {"name": SERVER, "workingDir": "/srv"})

    decision = jq.decide(make_request(service), Phase.REVIEW, snapshot)

    (violation,) = decision.violations
    assert violation.path == ("spec", "predictor", "containers", 0, "workingDir")


def test_what_a_formatter_writes_may_be_a_place(jq: Jq) -> None:
    snapshot = snapshot_of(
        jq,
        {"side": SIDECAR},
        make_rule("shown", "top", {"default": "yes"}),
        make_rule("limit", "side", {"default": 5}),
    )

    answer = jq.submit(snapshot, make_acme_job())

    assert answer.allowed
    assert answer.at("/spec/sidecar") == {"shown": "yes", "limit": 5}


def test_places_without_an_end_are_an_error(jq: Jq) -> None:
    """Each place that is found has another one made below it."""
    snapshot = snapshot_of(
        jq, {"any": {"query": ".spec | .. | objects"}}, make_rule("pull", "any", {"default": "x"})
    )

    with pytest.raises(EvaluationError, match="again and again"):
        jq.submit(snapshot, make_acme_job())


def test_a_chain_that_is_longer_than_any_should_be_is_an_error(
    jq: Jq, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written in part would be judged by rules that had no say in it."""
    monkeypatch.setattr(enforcer, "_MAX_PASSES", 2)
    snapshot = chain_of_five(jq)

    with pytest.raises(EvaluationError, match="other places for them again and again"):
        jq.submit(snapshot, make_acme_job())


def test_sets_that_undo_each_other_are_an_error(jq: Jq) -> None:
    """Each makes the condition of the other true: there is nothing that both agree to."""
    snapshot = snapshot_of(
        jq,
        {
            "off": {"query": ".spec.sidecar | select(.on | not)"},
            "enabled": {"query": ".spec.sidecar | select(.on)"},
        },
        make_rule("on", "off", {"set": True}),
        make_rule("on", "enabled", {"set": False}),
    )

    with pytest.raises(EvaluationError, match="other places for them again and again"):
        jq.submit(snapshot, make_acme_job(sidecar={"on": True}))


# --- which plans it is looked at in -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("selectors", "rules", "want"),
    [
        pytest.param({"side": SIDECAR}, [A_SIDECAR], Uncovering.NOTHING, id="nothing-enforced"),
        pytest.param(
            {"side": SIDECAR},
            [A_SIDECAR, make_rule("limit", "side", {"max": 4})],
            Uncovering.BY_OBJECTS,
            id="parent-of-a-value",
        ),
        pytest.param(
            {"side": SIDECAR},
            [make_rule("limit", "top", {"default": 1}), make_rule("limit", "side", {"max": 4})],
            Uncovering.NOTHING,
            id="another-value",
        ),
        pytest.param(
            {"side": {**SIDECAR, "dependency": {"specSelector": "top", "path": "sidecar"}}},
            [A_SIDECAR, make_rule("limit", "side", {"max": 4})],
            Uncovering.NOTHING,
            id="created-by-its-own-dependency",
        ),
        pytest.param(
            {"side": {"query": ".spec.sidecar.image"}},
            [A_SIDECAR, make_rule("limit", "side", {"max": 4})],
            Uncovering.BY_VALUES,
            id="a-value-in-the-way",
        ),
        pytest.param(
            {"side": {"query": ".spec.jobs[]? | select(.on) | .sidecar"}},
            [A_SIDECAR, make_rule("limit", "side", {"max": 4})],
            Uncovering.NOTHING,
            id="a-condition-elsewhere",
        ),
        pytest.param(
            {"side": {"query": ".spec | select(.on) | .job"}},
            [make_rule("on", "top", {"set": True}), make_rule("limit", "side", {"max": 4})],
            Uncovering.BY_VALUES,
            id="a-condition-on-a-value",
        ),
        pytest.param(
            BORROWING,
            [make_rule("on", "whole", {"set": True}), make_rule("limit", "master", {"max": 4})],
            Uncovering.BY_VALUES,
            id="a-flag-that-lends-places",
        ),
        pytest.param(
            BORROWING,
            [make_rule("on", "top", {"set": True}), make_rule("limit", "master", {"max": 4})],
            Uncovering.NOTHING,
            id="its-name-elsewhere",
        ),
        pytest.param(
            {"side": SIDECAR},
            [make_rule("limit", "top", {"max": 4}), make_rule("limit", "side", {"max": 4})],
            Uncovering.NOTHING,
            id="nothing-written",
        ),
    ],
)
def test_a_plan_says_what_its_writes_can_uncover(
    jq: Jq, selectors: JsonObject, rules: list[JsonObject], want: Uncovering
) -> None:
    assert uncovers(snapshot_of(jq, selectors, *rules)) is want


# What writes can uncover in the catalog's own mappings, by kind: the whole list.
CATALOG = {
    # podTemplates has the head's and the workers' templates, which their own selectors may create.
    "RayCluster": Uncovering.BY_OBJECTS,
    "RayJob": Uncovering.BY_OBJECTS,
    "RayService": Uncovering.BY_OBJECTS,
    # The labels of a component's own pod spec are at a place that only the pod's may create.
    "DevWorkspace": Uncovering.BY_OBJECTS,
    # `.spec.components` and `.spec.domain.memory` are places of their own as soon as they are there.
    "Milvus": Uncovering.BY_VALUES,
    "VirtualMachineInstance": Uncovering.BY_VALUES,
    # Which container is the main one depends on the names of containers.
    "DynamoGraphDeployment": Uncovering.BY_VALUES,
    "InferenceService": Uncovering.BY_VALUES,
    # A formatter may write anything below `.spec`, where other places are.
    "SparkApplication": Uncovering.BY_VALUES,
    "NIMService": Uncovering.BY_VALUES,
    "NIMPipeline": Uncovering.BY_VALUES,
    # The paths of its pod templates are values of the object.
    "AppWrapper": Uncovering.BY_VALUES,
}


def test_of_most_kinds_of_the_catalog_no_write_uncovers_anything() -> None:
    """Were every field written at every selector: the answer of most reviews is found in one go."""
    found: dict[str, Uncovering] = {}
    for kind, mapping in make_snapshot().mappings.items():
        name = "native" if kind.group == "workload.gatewright.io" else kind.kind
        found[name] = max(found.get(name, Uncovering.NOTHING), of_all_fields(mapping))
    assert {kind: what for kind, what in found.items() if what} == CATALOG


def of_all_fields(mapping: CompiledMapping) -> Uncovering:
    written = [
        WrittenPath(
            selector.name,
            (EACH,) if field.formatter else (*field.ref, *(["key"] if field.is_map else [])),
            field.home.above,
            is_open=field.type in (None, FieldType.OBJECT, FieldType.ITEMIZED),
        )
        for selector in mapping.selectors.values()
        for field in (*selector.fields.values(), *selector.native.values())
    ]
    return uncovering(mapping, written, mapping.selectors.values())
