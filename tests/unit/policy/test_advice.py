"""What lint says of policies that are sound, and of documents that have no effect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import make_gvk_policy, make_rule, make_snapshot, make_training, submit
from tests.builders import make_workload_policy as policy
from webhook.model.kinds import NATIVE_KINDS

JsonObject = dict[str, Any]

TRAINING = {
    "group": NATIVE_KINDS["training"].group,
    "version": NATIVE_KINDS["training"].version,
    "kind": "Training",
}


def advice_of(*documents: JsonObject) -> list[str]:
    """Every warning; there is no error."""
    problems = make_snapshot(*documents).problems
    assert [str(problem) for problem in problems if not problem.warning] == []
    return [str(problem) for problem in problems]


def variables(*names: str) -> JsonObject:
    return {"environmentVariables": {"instances": [{"name": name, "value": "x"} for name in names]}}


def locked(*names: str) -> JsonObject:
    return {"environmentVariables": {"instances": {"locked": list(names)}}}


# -- shipped rules ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        pytest.param(
            {"terminationGracePeriodSeconds": {"required": True}}, "max: 300", id="grace-period"
        ),
        pytest.param(
            {"security": {"privileged": {"required": True}}}, "canEdit: false", id="privileged"
        ),
    ],
)
def test_a_rule_that_drops_a_shipped_one_is_told(rules: JsonObject, gone: str) -> None:
    (warning,) = advice_of(policy(rules=rules, workload_type=["training", "workspace"]))

    assert "test.yaml#0: spec.rules." in warning
    assert f": {gone} holds no more" in warning


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param({"terminationGracePeriodSeconds": {"max": 600}}, id="another-maximum"),
        pytest.param({"terminationGracePeriodSeconds": {"max": 300, "min": 5}}, id="kept"),
        pytest.param({"security": {"privileged": {"canEdit": True}}}, id="allowed-on-purpose"),
        pytest.param({"image": {"required": True}}, id="another-field"),
    ],
)
def test_a_rule_in_place_of_a_shipped_one_is_nothing_to_tell(rules: JsonObject) -> None:
    assert advice_of(policy(rules=rules)) == []


def test_a_default_beside_a_shipped_rule_is_nothing_to_tell() -> None:
    assert advice_of(policy(defaults={"terminationGracePeriodSeconds": 60})) == []


@pytest.mark.parametrize("scope", ["system", "tenant", "project"])
def test_can_edit_true_takes_the_place_of_the_shipped_rule(scope: str) -> None:
    unit = "team-a" if scope == "project" else ""
    allowing = policy(rules={"security": {"privileged": {"canEdit": True}}}, scope=scope, unit=unit)
    privileged = make_training(security={"privileged": True})

    assert not submit(make_snapshot(), privileged).allowed
    assert submit(make_snapshot(allowing), privileged).allowed


def test_can_edit_true_holds_no_slot() -> None:
    """What asks for nothing keeps nobody from asking."""
    rules = {"image": {"canEdit": True}}
    asking = policy(name="b", rules={"image": {"pattern": ["x/*"]}}, scope="project", unit="team-a")
    snapshot = make_snapshot(policy(name="a", rules=rules), asking)

    assert snapshot.problems == ()
    assert submit(snapshot, make_training(image="y/z")).broken == [("/spec/image", "pattern")]


def test_a_shipped_default_that_is_outranked_is_told_to_the_author() -> None:
    flat = make_gvk_policy(make_rule("security.privileged", "spec", {"set": False}), kind=TRAINING)

    (warning,) = advice_of(flat)

    assert warning.startswith("test.yaml#0: spec.rules[0].enforcements[0]: counts in place of")


# -- locked keys --------------------------------------------------------------------------------


def test_a_locked_key_that_no_item_has_is_told() -> None:
    (warning,) = advice_of(policy(defaults=variables("HOME"), rules=locked("HOME", "HOEM")))

    assert warning.startswith(
        "test.yaml#0: spec.rules.environmentVariables.instances.locked[1]: locks nothing:"
    )
    assert warning.endswith("'HOEM'; did you mean \"HOME\"?")


def test_the_item_that_is_locked_may_be_of_another_policy() -> None:
    giving = policy(name="a", defaults=variables("HOME"))
    locking = policy(name="b", rules=locked("HOME"), scope="project", unit="p")

    assert advice_of(giving, locking) == []


# -- what waits, and what is no document of ours ------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(policy(imposedAssets=["gone"]), id="asset"),
        pytest.param(
            policy(workload_type={"group": "a.io", "version": "v1", "kind": "A"}), id="mapping"
        ),
    ],
)
def test_what_a_missing_reference_costs_is_told(document: JsonObject) -> None:
    (warning,) = advice_of(document)

    assert warning.endswith("until it is there, nothing of this document is enforced")


@pytest.mark.parametrize(
    ("document", "told"),
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap"}, "v1/ConfigMap is no document", id="kind"
        ),
        pytest.param(
            {"apiVersion": "kueue.x-k8s.io/v1", "kind": "Queue"},
            "KAI's are of scheduling.run.ai",
            id="queue-of-others",
        ),
        pytest.param(
            {"apiVersion": "policy.example.com/v1", "kind": "GVKPolicy"},
            "is not ours",
            id="policy-of-others",
        ),
    ],
)
def test_a_document_without_effect_is_told(document: JsonObject, told: str) -> None:
    (warning,) = advice_of({**document, "metadata": {"name": "a"}})

    assert told in warning


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Namespace"),
        ("scheduling.run.ai/v2", "Queue"),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
        ("apps/v1", "Deployment"),
    ],
)
def test_what_may_stand_beside_policies_is_nothing_to_tell(api_version: str, kind: str) -> None:
    assert advice_of({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}) == []
