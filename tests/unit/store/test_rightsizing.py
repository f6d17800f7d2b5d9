"""Documents of `rightsizing.kubex.ai` in files: judged as one set, and in no snapshot."""

from __future__ import annotations

from tests.gpu_documents import (
    JsonObject,
    make_cluster_policy,
    make_cluster_strategy,
    make_policy,
    make_strategy,
    with_value,
)
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import Manifest
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.rightsizing import RightsizingCheck, check_sources
from webhook.store.snapshot import ProblemReason

QUIET = with_value(make_policy(), "spec.metrics.compute.upsize.thresholdPercent", 90)


def file_of(*documents: JsonObject) -> SourceFile:
    return SourceFile(
        "gpu.yaml",
        tuple([Manifest("gpu.yaml", at, 1, each) for at, each in enumerate(documents)]),
    )


def check(*documents: JsonObject) -> RightsizingCheck:
    return check_sources([file_of(*documents)])


def lines(found: RightsizingCheck) -> list[str]:
    return [str(problem) for problem in found.problems]


def test_documents_of_a_set_find_one_another_in_any_order() -> None:
    assert check(QUIET, make_strategy()) == RightsizingCheck((), 2)


def test_a_strategy_that_is_in_no_file_is_a_warning() -> None:
    found = check(QUIET, make_cluster_strategy())

    (problem,) = found.problems
    assert problem.warning
    assert problem.reason is ProblemReason.REFERENCE_NOT_FOUND
    assert str(problem) == (
        "gpu.yaml#0: spec.automationStrategyRef.name: there is no AutomationStrategy default/gpu;"
        " until it is there, nothing is resized"
    )
    assert found.readable == 2


def test_one_that_is_wrong_is_not_readable() -> None:
    found = check(with_value(QUIET, "spec.weight", -1), make_strategy())

    assert lines(found) == ["gpu.yaml#0: spec.weight: must be at least 0, not -1"]
    assert found.readable == 1


def test_a_strategy_that_is_wrong_is_there_all_the_same() -> None:
    found = check(QUIET, with_value(make_strategy(), "spec.enablement.overrideScheduler", "x"))

    assert lines(found) == [
        "gpu.yaml#1: spec.enablement.overrideScheduler: must be none or kai, got x"
    ]


def test_two_of_one_name_are_told_apart_by_namespace_only() -> None:
    in_default = make_strategy(namespace="")
    found = check(make_strategy(), in_default, make_strategy(namespace="team-a"))

    assert lines(found) == ["gpu.yaml#1: metadata.name: gpu.yaml#0 has this name already"]
    assert found.readable == 2


def test_other_documents_are_left_to_others() -> None:
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    static = {**make_cluster_policy(), "kind": "ClusterStaticPolicy"}

    assert check(other, static) == RightsizingCheck((), 0)


def test_the_server_ignores_them_with_no_error() -> None:
    """The reconciler alone acts by them."""
    bad = with_value(make_policy(), "spec.weight", -1)
    snapshot = build_snapshot([file_of(bad, make_strategy())], EngineSettings())

    assert snapshot.problems == ()
    assert snapshot.documents == ()


def test_a_kind_that_is_misspelt_is_told_the_nearest_one() -> None:
    misspelt = {**make_policy(), "kind": "GpuReactivPolicy"}
    snapshot = build_snapshot([file_of(misspelt)], EngineSettings())

    assert [str(problem) for problem in snapshot.problems] == [
        "gpu.yaml#0: rightsizing.kubex.ai/v1alpha1/GpuReactivPolicy is no document of ours, and is"
        ' ignored; did you mean "GpuReactivePolicy"?'
    ]


def test_what_the_reconciler_keeps_and_simulate_replays_is_no_policy() -> None:
    kept = [
        {
            "apiVersion": "policy.gatewright.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": "a"},
            "spec": {},
        }
        for kind in ("GpuRecommendation", "GpuScenario")
    ]
    snapshot = build_snapshot([file_of(*kept)], EngineSettings())

    assert snapshot.problems == ()
    assert GroupVersionKind.of(kept[0]).group == "policy.gatewright.io"
