"""May a pod be evicted now? Each thing that can be in the way, by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tests.builders import JsonObject, make_container
from tests.gpu import DEVICES, FRACTION, POLICY, make_gpu_container
from tests.gpu_cluster import make_cluster, make_object, make_running_pod
from tests.gpu_documents import make_policy
from webhook.catalog.pod_makers import PodMaker, pod_makers
from webhook.model.rightsizing.controls import PAUSE_UNTIL, SKIP_CONTAINERS, Controls
from webhook.model.rightsizing.injections import GpuRoom
from webhook.model.rightsizing.policies import (
    DocumentKey,
    Mode,
    SafetyChecks,
    Scheduler,
    Signal,
    Strategy,
    Window,
)
from webhook.model.rightsizing.recommendations import (
    Eviction,
    GpuRecommendation,
    PolicyState,
    RecommendationStatus,
    Selected,
    SignalEvaluation,
    SignalState,
)
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.reactive.observation.workloads import ObservedWorkload, observe
from webhook.reactive.recreation.holds import Surroundings
from webhook.reactive.recreation.permission import Recreation, may_evict, noted

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEY = DocumentKey("AutomationStrategy", "team-a", "gpu")
STRATEGY = Strategy(KEY, upsize=True, downsize=True)
TWO = {"main": Decimal(2)}
ROLLING = {"strategy": {"type": "RollingUpdate"}}
# Any number of its pods may be away.
ALL_AT_ONCE = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}


def make_workload(
    *pods: JsonObject, kind: str = "Deployment", replicas: int | None = None, **spec: Any
) -> ObservedWorkload:
    """One with *pods*; by default one that runs, ready, with one GPU."""
    template = spec.pop("template", {})
    count = len(pods or (1,)) if replicas is None else replicas
    made = {"replicas": count, **ROLLING, "template": template, **spec}
    workload = make_object(kind, spec=made)
    between = make_object("ReplicaSet", "llm-5d8", owner=workload)
    if kind == "CronJob":
        between = make_object("Job", "llm-29000000", owner=workload)
    owner = between if kind in ("Deployment", "CronJob") else workload
    cluster = make_cluster(
        make_policy(POLICY.name, namespace="team-a", scope={"workloadTypes": [kind]}),
        workload,
        between,
        *[owned(pod, owner) for pod in pods or (make_running_pod(),)],
    )
    (observed,) = observe(cluster)
    return observed


def owned(pod: JsonObject, owner: JsonObject) -> JsonObject:
    made = make_running_pod(owner=owner)["metadata"]["ownerReferences"]
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": made}}


def recommend(
    amounts: dict[str, str] | None = None, eviction: Eviction | None = None, **selected: Any
) -> GpuRecommendation:
    """Two GPUs for main, of a policy that has just seen next to nothing used."""
    decimals = {name: Decimal(text) for name, text in (amounts or {"main": "2"}).items()}
    allowed = {"upsize": True, "downsize": True}
    status = RecommendationStatus(
        evaluated_at=NOW,
        policies=(seen(),),
        selected=Selected(POLICY, KEY, decimals, **(allowed | selected)),
        eviction=eviction,
    )
    return GpuRecommendation("team-a", make_workload().workload.ref, status, "uid-1", "5")


def seen(usage: str | None = "0.1", **more: Any) -> PolicyState:
    """What the policy that is selected has seen of memory."""
    found = SignalEvaluation(
        80, 10 * MINUTE, None if usage is None else Decimal(usage), Decimal(2), "llm-0", **more
    )
    return PolicyState(
        POLICY, evaluated_at=NOW, signals={Signal.MEMORY: SignalState(scale_back=found)}
    )


def around(strategy: Strategy = STRATEGY, **more: Any) -> Surroundings:
    return Surroundings(strategies=(strategy,), **more)


def ask(
    observed: ObservedWorkload | None = None,
    recommendation: GpuRecommendation | None = None,
    surroundings: Surroundings | None = None,
    now: datetime = NOW,
) -> Recreation:
    return may_evict(
        observed or make_workload(), recommendation or recommend(), surroundings or around(), now
    )


def reason(*arguments: Any, **more: Any) -> str:
    """The only one; nothing may be evicted."""
    recreation = ask(*arguments, **more)
    assert recreation.pod is None
    (found,) = recreation.reasons
    return found


def checks(**more: Any) -> Strategy:
    return replace(STRATEGY, safety=SafetyChecks(**more))


# --- who is due ---


def test_a_pod_that_differs_is_evicted() -> None:
    recreation = ask()

    assert recreation.pod is not None
    assert recreation.pod.pod_name == "llm-0"
    assert recreation.reasons == ()


@pytest.mark.parametrize(
    ("pod", "amounts"),
    [
        pytest.param(make_running_pod(), {"main": "1"}, id="as-recommended"),
        pytest.param(make_running_pod(), {"main": "0.7"}, id="after-rounding"),
        pytest.param(make_running_pod(phase="Succeeded"), {"main": "2"}, id="ended"),
        pytest.param(make_running_pod(), {"main": "0"}, id="no-amount"),
    ],
)
def test_a_pod_into_which_nothing_would_be_written_stays(
    pod: JsonObject, amounts: dict[str, str]
) -> None:
    assert ask(make_workload(pod), recommend(amounts)) == Recreation()


def test_shares_that_round_to_the_same_are_the_same() -> None:
    """Or a load that moves a little would have pods restarted all day."""
    pod = make_running_pod(
        "llm-0", make_container("main"), annotations={FRACTION: "0.58"}, schedulerName="kai"
    )

    def is_due(amount: str) -> bool:
        wanted = recommend({"main": amount}, scheduler=Scheduler.KAI, scheduler_name="kai")
        return ask(make_workload(pod), wanted).pod is not None

    assert [is_due(amount) for amount in ("0.571", "0.5765", "0.58")] == [False] * 3
    assert is_due("0.581")


@pytest.mark.parametrize(
    ("selected", "want"),
    [
        ({"mode": Mode.RECOMMEND}, "the policy only recommends"),
        ({"automation_enabled": False}, "automation is switched off by the GlobalConfiguration"),
        ({"upsize": False}, "pod llm-0: the strategy allows no upsize"),
    ],
)
def test_what_is_not_to_be_written_evicts_nobody(selected: dict[str, Any], want: str) -> None:
    assert reason(None, recommend(**selected)) == want


def test_a_container_that_is_to_be_skipped_is_skipped() -> None:
    pod = make_running_pod(annotations={"rightsizing.kubex.ai/skip-containers": "main"})

    assert reason(make_workload(pod)) == "pod llm-0: container main is to be skipped"


def test_a_workload_for_which_nothing_is_selected_has_no_reasons() -> None:
    nothing = GpuRecommendation("team-a", make_workload().workload.ref)

    assert ask(recommendation=nothing) == Recreation()


@pytest.mark.parametrize(
    ("template", "namespace"),
    [
        pytest.param({}, Controls(pause_until="infinite"), id="namespace"),
        pytest.param(
            {"metadata": {"annotations": {"rightsizing.kubex.ai/pause-until": "infinite"}}},
            Controls(),
            id="template-of-the-next-pod",
        ),
    ],
)
def test_a_pause_around_a_pod_holds_it(template: JsonObject, namespace: Controls) -> None:
    workload = make_workload(template=template)

    assert reason(workload, None, around(namespace=namespace)) == "pod llm-0: it is paused"


def test_a_pause_that_is_over_holds_nobody() -> None:
    over = Controls(pause_until="2026-01-01T11:59:59Z")

    assert ask(None, None, around(namespace=over)).pod is not None


def test_a_pause_of_what_is_between_counts() -> None:
    between = {"team-a/llm-0": Controls(pause_until="infinite")}

    assert reason(None, None, around(between=between)) == "pod llm-0: it is paused"


# --- what the next pod will be ---


def injected(live: str, before: str, **annotations: str) -> JsonObject:
    """A pod with *live* GPUs, or a share, which was written with something else."""
    noted = {GPU_BEFORE: f"main={before}", **annotations}
    if "." in live:
        shared = {**noted, FRACTION: live}
        return make_running_pod("llm-0", make_container("main"), annotations=shared)
    container = make_gpu_container(limit=live, request=live)
    return make_running_pod("llm-0", container, annotations=noted)


KAI: dict[str, Any] = {"scheduler": Scheduler.KAI, "scheduler_name": "kai", "queue": "gpus"}
LEAVES_ONE = {"room": GpuRoom(Fraction(1))}


@pytest.mark.parametrize(
    ("pod", "amount", "selected", "around_it", "held"),
    [
        pytest.param(injected("4", "1"), "2", {}, {}, "", id="both-ways"),
        pytest.param(injected("2", "1"), "1", {"upsize": False}, {}, "", id="as-it-was-written"),
        pytest.param(injected("2", "1"), "1", {"downsize": False}, {}, "no downsize", id="kept"),
        pytest.param(injected("4", "1"), "2", {"upsize": False}, {}, "no upsize", id="no-upsize"),
        pytest.param(injected("4", "1"), "3", {}, LEAVES_ONE, "quota leaves", id="quota"),
        pytest.param(injected("4", "3"), "2", {}, LEAVES_ONE, "", id="less-than-written"),
        pytest.param(injected("2", "0"), "3", {}, {}, "no GPU where none", id="written-with-none"),
        pytest.param(injected("2", "0.5"), "0.7", KAI, {}, "", id="share-again"),
        pytest.param(injected("0.7", "2"), "0.5", KAI, {}, "", id="share-of-whole"),
        pytest.param(
            injected("0.7", "0.5*2", **{DEVICES: "2"}),
            "1.2",
            KAI,
            {},
            "",
            id="share-of-two-devices",
        ),
        pytest.param(
            injected("0.7", "0.5"),
            "0.6",
            {**KAI, "upsize": False},
            {},
            "no upsize",
            id="share-that-may-not-grow",
        ),
    ],
)
def test_a_pod_goes_where_the_next_one_is_given_what_is_recommended(
    pod: JsonObject,
    amount: str,
    selected: dict[str, Any],
    around_it: dict[str, Any],
    held: str,
) -> None:
    recreation = ask(
        make_workload(pod), recommend({"main": amount}, **selected), around(**around_it)
    )

    assert (recreation.pod is None) is bool(held)
    assert held in "".join(recreation.reasons)


@pytest.mark.parametrize("annotation", [PAUSE_UNTIL, SKIP_CONTAINERS])
def test_what_the_template_says_of_the_next_pod_counts(annotation: str) -> None:
    """This one says something else, by an annotation that goes with it."""
    own = {PAUSE_UNTIL: "2026-01-01T00:00:00Z", SKIP_CONTAINERS: "other"}[annotation]
    theirs = {PAUSE_UNTIL: "infinite", SKIP_CONTAINERS: "main"}[annotation]
    workload = make_workload(
        make_running_pod(annotations={annotation: own}),
        template={"metadata": {"annotations": {annotation: theirs}}},
    )

    assert "the next pod would not be given what is recommended" in reason(workload)


def raised(live: str, note: str) -> JsonObject:
    """A pod with *live* whole GPUs that was written as a share of several devices."""
    container = make_gpu_container(limit=live, request=live)
    return make_running_pod("llm-0", container, annotations={GPU_BEFORE: f"main={note}"})


@pytest.mark.parametrize(
    ("pod", "amount", "due"),
    [
        # As whole GPUs these are rounded up to as many as there are, or to others.
        pytest.param(raised("3", "0.9*2"), "1.8", True, id="back-to-its-share"),
        pytest.param(raised("2", "0.9*2"), "1.8", True, id="where-whole-ones-round-to-the-same"),
        pytest.param(raised("5", "0.65*4"), "2.6", True, id="four-devices"),
        pytest.param(raised("4", "0.67*3"), "2.01", True, id="three-devices"),
        pytest.param(raised("3", "0.9*2"), "2.5", False, id="as-many-as-recommended"),
        pytest.param(raised("3", "0.9*2"), "1.9", True, id="to-another-share"),
    ],
)
def test_a_share_of_several_devices_comes_back(pod: JsonObject, amount: str, due: bool) -> None:
    recreation = ask(make_workload(pod), recommend({"main": amount}, **KAI))

    assert (recreation.pod is not None) is due
    assert recreation.reasons == ()


def test_a_share_does_not_come_back_where_nothing_may_be_taken() -> None:
    workload = make_workload(raised("2", "0.9*2"))
    recommendation = recommend({"main": "1.8"}, **KAI, downsize=False)

    assert reason(workload, recommendation) == "pod llm-0: the strategy allows no downsize"


# --- what is not known ---


def knowing(state: PolicyState, amount: str = "1") -> GpuRecommendation:
    recommendation = recommend({"main": amount})
    status = replace(recommendation.status, policies=(state,))
    return replace(recommendation, status=status)


BEFORE = replace(seen(), evaluated_at=NOW - MINUTE)
SILENT = "pod llm-0: nothing is taken away, as samples are missing of pod llm-7 and 2 more"


@pytest.mark.parametrize(
    ("state", "held"),
    [
        pytest.param(seen(), "", id="measured"),
        pytest.param(seen(missing=("llm-7",), missing_count=3), SILENT, id="samples-are-missing"),
        pytest.param(
            seen(None), "pod llm-0: nothing is taken away, as no pod is measured", id="unmeasured"
        ),
        pytest.param(
            BEFORE, "pod llm-0: everything stays, as Prometheus did not answer", id="not-asked"
        ),
    ],
)
def test_nothing_is_taken_away_without_a_look(state: PolicyState, held: str) -> None:
    workload = make_workload(make_running_pod("llm-0", make_gpu_container(limit="2", request="2")))
    recreation = ask(workload, knowing(state))

    assert (recreation.pod is None) is bool(held)
    assert recreation.reasons == ((held,) if held else ())


@pytest.mark.parametrize(
    ("state", "due"),
    [
        pytest.param(seen(missing=("llm-7",), missing_count=1), True, id="samples-are-missing"),
        pytest.param(seen(None), True, id="not-old-enough-to-be-measured"),
        pytest.param(BEFORE, False, id="not-asked"),
    ],
)
def test_more_is_given_unless_prometheus_is_away(state: PolicyState, due: bool) -> None:
    """What was recommended is kept meanwhile, and so is what is there."""
    assert (ask(None, knowing(state, "2")).pod is not None) is due


# --- what would be asked for again ---


def measured(observed: ObservedWorkload, usage: str, direction: str) -> PolicyState:
    """Of the policy of *observed*: memory uses so much by the window of *direction*."""
    found = SignalEvaluation(0, 10 * MINUTE, Decimal(usage), Decimal(2), "llm-0")
    state = SignalState(upsize=found) if direction == "upsize" else SignalState(scale_back=found)
    return PolicyState(
        observed.policies[0].key,
        recommendation={"main": Decimal(1)},
        signals={Signal.MEMORY: state},
        evaluated_at=NOW,
    )


@pytest.mark.parametrize("direction", ["upsize", "scale_back"])
@pytest.mark.parametrize(
    ("usage", "amount", "held"),
    [
        pytest.param("1.2", "1", False, id="at-the-threshold"),
        pytest.param("1.21", "1", True, id="above-it"),
        pytest.param("1.21", "3", False, id="no-less-than-it-has"),
        pytest.param("1.21", "0.4", True, id="after-rounding"),
        pytest.param("1.8", "1.5", None, id="written-as-it-is"),
    ],
)
def test_nothing_is_taken_away_that_would_be_asked_for_again(
    direction: str, usage: str, amount: str, held: bool | None
) -> None:
    """The threshold of the policy is 120 %; the pod has two GPUs."""
    two = make_running_pod("llm-0", make_gpu_container(limit="2", request="2"))
    workload, recommendation = make_workload(two), recommend({"main": amount})
    states = (measured(workload, usage, direction),)
    status = replace(recommendation.status, policies=states)

    recreation = ask(workload, replace(recommendation, status=status))

    assert (recreation.pod is None) is (held is not False)
    said = ["more would be asked for again" in text for text in recreation.reasons]
    assert said == ([True] if held else [])


def test_a_policy_that_is_only_tried_holds_nobody() -> None:
    """Nor does one that is passed over: what it asks for is not written."""
    two = make_running_pod("llm-0", make_gpu_container(limit="2", request="2"))
    workload, recommendation = make_workload(two), recommend({"main": "1"})
    other = replace(POLICY, name="other")
    status = recommendation.status
    assert status.selected is not None
    status = replace(
        status,
        selected=replace(status.selected, policy=other),
        policies=(replace(seen(), policy=other), measured(workload, "1.9", "upsize")),
    )

    assert ask(workload, replace(recommendation, status=status)).pod is not None


# --- quotas ---


def test_a_quota_without_room_for_the_next_pod_holds_this_one() -> None:
    """The next one is made while this one still ends, and counts."""
    found = reason(None, None, around(room=GpuRoom(Fraction(1))))

    assert found == "pod llm-0: the namespace's quota leaves 1 GPUs, not 2"


def test_who_makes_one_after_the_other_has_the_room_of_the_old_one() -> None:
    stateful = make_workload(kind="StatefulSet", updateStrategy={"type": "RollingUpdate"})

    assert ask(stateful, None, around(room=GpuRoom(Fraction(1)))).pod is not None


def test_quotas_that_are_not_known_hold_everybody() -> None:
    assert "are not known" in reason(None, None, around(room=None))


# --- what the strategy says ---


@pytest.mark.parametrize(
    ("strategy", "want"),
    [
        pytest.param(
            replace(STRATEGY, eviction=False), "does not enable podEviction", id="eviction"
        ),
        pytest.param(
            replace(STRATEGY, inclusion_windows=(Window(0, 60),)),
            "does not let pods be recreated before 2026-01-02T00:00:00Z",
            id="inclusion",
        ),
        pytest.param(
            replace(STRATEGY, exclusion_windows=(Window(0, 1440),)),
            "does not let pods be recreated at any time",
            id="exclusion",
        ),
    ],
)
def test_a_strategy_may_forbid_it(strategy: Strategy, want: str) -> None:
    assert reason(None, None, around(strategy)) == f"AutomationStrategy team-a/gpu {want}"


def test_of_several_strategies_each_must_allow_it() -> None:
    strict = replace(STRATEGY, key=replace(KEY, name="strict"), eviction=False)
    surroundings = Surroundings(strategies=(STRATEGY, strict))

    assert "team-a/strict does not enable podEviction" in reason(None, None, surroundings)


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_pods_of_jobs_are_evicted_only_where_the_strategy_says_so(kind: str) -> None:
    job = make_workload(kind=kind)

    assert "does not let pods of Jobs be evicted" in reason(job)
    assert ask(job, None, around(replace(STRATEGY, evicts_jobs=True))).pod is not None


def test_what_an_analysis_run_measures_is_not_broken_off() -> None:
    run = make_workload(kind="AnalysisRun")

    assert "not made again" in reason(run, None, around(replace(STRATEGY, evicts_jobs=True)))


# --- kinds beyond the nine ---


def make_mapped(
    kind: str, api_version: str, *, role: str = "", owner: JsonObject | None = None
) -> ObservedWorkload:
    """One of such a kind, with a pod that it has made."""
    made = make_object(kind, api_version=api_version, owner=owner)
    pod = make_running_pod(owner=made)
    pod["metadata"]["labels"] = {"ray.io/node-type": role}
    type_ = f"{kind}.{api_version.partition('/')[0]}"
    cluster = make_cluster(
        make_policy(namespace="team-a", scope={"workloadTypes": [type_]}), made, pod
    )
    (observed,) = observe(cluster)
    return observed


def ask_of_kind(
    observed: ObservedWorkload, strategy: Strategy = STRATEGY, **maker: Any
) -> Recreation:
    known = pod_makers().get(observed.workload.type, PodMaker(**maker))
    return ask(observed, None, around(strategy, maker=known))


@pytest.mark.parametrize(
    ("kind", "api_version", "want"),
    [
        pytest.param(
            "PyTorchJob", "kubeflow.org/v1",
            "to a training job an evicted pod may be a failed one, and its other pods wait for it",
            id="a-training-job",
        ),
        pytest.param(
            "AcmeJob", "acme.example.com/v1",
            "nobody told that AcmeJob.acme.example.com makes an evicted pod again",
            id="a-users-own",
        ),
    ],
)  # fmt: skip
def test_of_a_kind_that_is_not_known_to_make_pods_again_none_is_evicted(
    kind: str, api_version: str, want: str
) -> None:
    found = ask_of_kind(make_mapped(kind, api_version))

    assert found == Recreation(reasons=(f"nothing is evicted of it: {want}",))


def test_pods_of_a_kind_that_makes_them_again_are_evicted() -> None:
    acme = make_mapped("AcmeJob", "acme.example.com/v1")

    assert ask_of_kind(acme, recreates=True).pod is not None


def test_a_ray_worker_is_evicted_and_a_ray_head_is_not() -> None:
    """With its head a cluster loses all that runs on it."""
    assert ask_of_kind(make_mapped("RayCluster", "ray.io/v1", role="worker")).pod is not None
    (told,) = ask_of_kind(make_mapped("RayCluster", "ray.io/v1", role="head")).reasons
    assert told == ("pod llm-0 is not evicted: with its head a RayCluster loses what runs on it")


def test_a_ray_cluster_of_a_job_is_a_part_of_it() -> None:
    job = make_object("RayJob", "train", api_version="ray.io/v1")
    of_job = make_mapped("RayCluster", "ray.io/v1", role="worker", owner=job)

    (told,) = ask_of_kind(of_job).reasons
    assert "does not let pods of Jobs be evicted" in told
    assert ask_of_kind(of_job, replace(STRATEGY, evicts_jobs=True)).pod is not None


def test_a_kind_of_the_name_of_a_job_is_none() -> None:
    """Volcano's; what is known of Kubernetes' own says nothing of it."""
    found = ask_of_kind(make_mapped("Job", "batch.volcano.sh/v1alpha1"))

    assert [text for text in found.reasons if "pods of Jobs" in text] == []
    assert "nobody told that Job.batch.volcano.sh" in found.reasons[0]


# --- what passes by itself ---


def waiting(
    observed: ObservedWorkload | None = None,
    eviction: Eviction | None = None,
    **safety: Any,
) -> timedelta | None:
    """When it is looked at again."""
    recreation = ask(observed, recommend(eviction=eviction), around(checks(**safety)))
    assert recreation.pod is None
    return recreation.retry_after


REFUSED = Eviction("llm-0", "uid-pod-llm-0", NOW, NOW - MINUTE, 1, problem="a disruption budget")


def test_a_refused_eviction_is_asked_for_again_after_the_interval_of_the_strategy() -> None:
    recommendation = recommend(eviction=REFUSED)
    five = around(checks(retry_interval=5 * MINUTE))

    told = reason(None, recommendation, five)
    assert told == (
        "pod llm-0 was not evicted: a disruption budget; it is tried again after"
        " 2026-01-01T12:05:00Z"
    )
    assert ask(None, recommendation, five, now=NOW + 5 * MINUTE).pod is not None
    assert ask(None, recommendation, around(), now=NOW + timedelta(seconds=30)).pod is not None


def test_of_several_strategies_the_most_patient_one_counts() -> None:
    patient = replace(checks(retry_interval=5 * MINUTE), key=replace(KEY, name="patient"))
    surroundings = Surroundings(strategies=(STRATEGY, patient))

    assert "after 2026-01-01T12:05:00Z" in reason(None, recommend(eviction=REFUSED), surroundings)


def test_a_refusal_of_the_future_holds_nobody() -> None:
    """Clocks differ."""
    later = replace(REFUSED, at=NOW + MINUTE)

    assert ask(None, recommend(eviction=later)).pod is not None


def test_what_passes_by_itself_is_looked_at_again_before_the_next_round() -> None:
    unready = make_workload(make_running_pod(conditions=[]))
    seconds = timedelta(seconds=7)

    assert waiting(unready, retry_interval=seconds) == seconds
    assert waiting(eviction=REFUSED, retry_interval=seconds) == seconds
    # It is ready since 11:31, so that one minute of thirty is left.
    assert waiting(min_ready=30 * MINUTE, retry_interval=seconds) == MINUTE


def test_what_somebody_has_to_change_waits_for_the_next_round() -> None:
    assert ask(None, None, around(replace(STRATEGY, eviction=False))).retry_after is None
    never = replace(REFUSED, retried=False)
    assert waiting(eviction=never) is None


@pytest.mark.parametrize(
    ("resizer", "ignored"),
    [
        ("HorizontalPodAutoscaler llm", checks(hpa=False)),
        ("VerticalPodAutoscaler llm", checks(vpa=False)),
    ],
)
def test_an_autoscaler_that_goes_by_gpus_holds_it(resizer: str, ignored: Strategy) -> None:
    assert reason(None, None, around(resizer=resizer)) == f"{resizer} goes by its GPUs"
    assert ask(None, None, around(ignored, resizer=resizer)).pod is not None


def test_what_holds_everybody_is_said_first() -> None:
    found = ask(None, None, around(replace(STRATEGY, eviction=False), obstacle="no webhook"))

    assert found.reasons[0] == "no webhook"
    assert len(found.reasons) == 2


# --- readiness ---


def test_a_pod_must_be_ready_for_so_long() -> None:
    """It is since 11:31."""
    assert ask(None, None, around(checks(min_ready=29 * MINUTE))).pod is not None
    assert (
        reason(None, None, around(checks(min_ready=30 * MINUTE)))
        == "pod llm-0 is not ready for 30m yet"
    )


def test_a_pod_that_is_ready_since_the_future_is_not_ready_long_enough() -> None:
    early = NOW - timedelta(hours=2)

    assert "yet" in reason(now=early)


def test_a_pod_that_is_not_ready_stays() -> None:
    workload = make_workload(make_running_pod(conditions=[]))

    assert "is not ready" in reason(workload, None, around(checks(respect_max_unavailable=False)))


def test_all_pods_must_be_ready_where_the_strategy_says_so() -> None:
    pods = (make_running_pod("llm-0"), make_running_pod("llm-1", conditions=[]))
    workload = make_workload(*pods, strategy=ALL_AT_ONCE)

    assert ask(workload).pod is not None
    assert reason(workload, None, around(checks(owner_pods_ready=True))) == (
        "1 of its 2 pods are not ready"
    )


def away(count: int, of: int, limit: int | str | None = None) -> ObservedWorkload:
    """A Deployment of which *count* pods are missing."""
    pods = [make_running_pod(f"llm-{number}") for number in range(of - count)]
    rolling = {} if limit is None else {"rollingUpdate": {"maxUnavailable": limit}}
    strategy = {"type": "RollingUpdate", **rolling}
    return make_workload(*pods, replicas=of, strategy=strategy)


@pytest.mark.parametrize(
    ("workload", "allowed"),
    [
        pytest.param(away(0, 3), True, id="all-there"),
        pytest.param(away(1, 3), False, id="one-away-of-three"),
        pytest.param(away(1, 8), True, id="a-quarter-may-be-away"),
        pytest.param(away(2, 8), False, id="and-no-more"),
        pytest.param(away(1, 3, 2), True, id="two-may-be-away"),
        pytest.param(away(0, 3, 0), True, id="none-may-means-one-here"),
        pytest.param(away(1, 4, "50%"), True, id="percent"),
    ],
)
def test_no_more_are_away_than_the_workload_allows(
    workload: ObservedWorkload, allowed: bool
) -> None:
    assert (ask(workload).pod is not None) is allowed
    lenient = around(checks(respect_max_unavailable=False))
    assert ask(workload, None, lenient).pod is not None


def unready(count: int, of: int, kind: str = "Deployment", **more: Any) -> ObservedWorkload:
    """One of which all pods are there, and *count* of them not ready."""
    pods = [
        make_running_pod(f"llm-{number}", conditions=[] if number < count else None)
        for number in range(of)
    ]
    return make_workload(*pods, kind=kind, **more)


@pytest.mark.parametrize(
    ("workload", "allowed"),
    [
        pytest.param(unready(8, 9), False, id="the-last-one-that-is-ready"),
        pytest.param(unready(1, 8), True, id="a-quarter-may-be-away"),
        pytest.param(unready(2, 8), False, id="and-no-more"),
        pytest.param(unready(1, 3), False, id="one-away-of-three"),
        pytest.param(unready(3, 12, "Rollout", strategy={"canary": {}}), False, id="argo-quarter"),
        pytest.param(
            unready(3, 12, "Rollout", strategy={"canary": {"maxUnavailable": 4}}), True, id="argo"
        ),
        pytest.param(unready(1, 9, "StrimziPodSet"), False, id="no-number-known"),
        pytest.param(unready(0, 9, "StrimziPodSet"), True, id="no-number-known-and-all-ready"),
        pytest.param(unready(1, 2, strategy=ALL_AT_ONCE), True, id="all-at-once"),
        pytest.param(unready(1, 2, strategy={"type": "Recreate"}), False, id="recreate"),
        pytest.param(unready(0, 2, strategy={"type": "Recreate"}), True, id="recreate-all-ready"),
        pytest.param(
            unready(2, 3, "StatefulSet", updateStrategy={"type": "OnDelete"}), False, id="on-delete"
        ),
    ],
)
def test_pods_that_are_there_but_not_ready_are_away(
    workload: ObservedWorkload, allowed: bool
) -> None:
    assert (ask(workload).pod is not None) is allowed
    lenient = around(checks(respect_max_unavailable=False))
    assert ask(workload, None, lenient).pod is not None


# --- what makes no pods any more ---


def ending(made: JsonObject) -> JsonObject:
    gone = {"deletionTimestamp": "2026-01-01T11:59:00Z", "finalizers": ["foregroundDeletion"]}
    return {**made, "metadata": {**made["metadata"], **gone}}


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "Job"])
def test_pods_of_a_workload_that_is_being_deleted_stay(kind: str) -> None:
    workload = ending(make_object(kind, spec={"replicas": 1, "completions": 1}))
    policy = make_policy(namespace="team-a", scope={"workloadTypes": [kind]})
    (observed,) = observe(make_cluster(policy, workload, make_running_pod(owner=workload)))

    found = ask(observed, None, around(replace(STRATEGY, evicts_jobs=True)))

    assert found.pod is None
    assert found.reasons[0] == f"{kind} llm is being deleted"


def test_a_pod_that_nobody_makes_again_stays_and_another_one_goes() -> None:
    workload = make_workload(make_running_pod("llm-0"), make_running_pod("llm-1"))
    last = {"team-a/llm-0": "ReplicaSet llm-5d8 makes no other pod: it is being deleted"}

    recreation = ask(workload, None, around(last=last))

    assert recreation.pod is not None
    assert recreation.pod.pod_name == "llm-1"
    both = {**last, "team-a/llm-1": last["team-a/llm-0"]}
    assert ask(workload, None, around(last=both)).reasons == (
        "ReplicaSet llm-5d8 makes no other pod: it is being deleted",
        "and so for 1 more",
    )


# --- one at a time ---


def evicted(ago: timedelta = 5 * MINUTE, **more: Any) -> Eviction:
    """Of a pod that is gone, out of one; what is selected is so since then."""
    given = {"pods": 1, "count": 1, **more}
    return Eviction("llm-x", "uid-pod-llm-x", NOW - ago, **{"since": NOW - ago, **given})


def test_a_pod_that_is_being_deleted_is_waited_for() -> None:
    pods = (make_running_pod("llm-0"), make_running_pod("llm-1", deleted=True))
    workload = make_workload(*pods, replicas=1)

    assert reason(workload) == "pod llm-1 is being deleted"


def test_the_successor_of_the_last_one_must_be_ready() -> None:
    pods = (make_running_pod("llm-0"), make_running_pod("llm-1", conditions=[]))
    workload = make_workload(*pods, strategy=ALL_AT_ONCE)
    recommendation = recommend(eviction=evicted(pods=2))

    assert reason(workload, recommendation) == (
        "pod llm-1 is not ready, after the eviction of pod llm-x"
    )


def test_the_last_one_must_be_replaced() -> None:
    workload = make_workload(replicas=3, strategy=ALL_AT_ONCE)

    assert reason(workload, recommend(eviction=evicted(pods=3))) == (
        "pod llm-x was evicted and is not replaced yet"
    )


def test_a_workload_that_was_made_smaller_waits_for_nobody() -> None:
    workload = make_workload(replicas=1)

    assert ask(workload, recommend(eviction=evicted(pods=3))).pod is not None


@pytest.mark.parametrize(("minutes", "waits"), [(14, True), (15, False)])
def test_one_whose_number_of_pods_is_not_known_is_not_waited_for_for_ever(
    minutes: int, waits: bool
) -> None:
    workload = make_workload(kind="StrimziPodSet")
    recommendation = recommend(eviction=evicted(minutes * MINUTE, pods=2))

    assert (ask(workload, recommendation).pod is None) is waits


def test_an_eviction_that_was_noted_is_waited_for_and_then_asked_for_again() -> None:
    """The leader may have been cut off between its note and the eviction, or just after."""

    def eviction(seconds: int) -> Eviction:
        noted_at = NOW - timedelta(seconds=seconds)
        return Eviction("llm-0", "uid-pod-llm-0", noted_at, noted_at, 1, 1)

    assert reason(recommendation=recommend(eviction=eviction(59))) == (
        "pod llm-0 was evicted a moment ago"
    )
    assert ask(recommendation=recommend(eviction=eviction(61))).pod is not None


def test_a_refused_eviction_is_asked_for_again_and_said_meanwhile() -> None:
    recreation = ask(recommendation=recommend(eviction=evicted(problem="the budget")))

    assert recreation.pod is not None
    assert recreation.reasons == ("pod llm-x was not evicted: the budget",)


@pytest.mark.parametrize("strategy", ["Recreate", "RollingUpdate"])
def test_nor_while_others_are_not_ready(strategy: str) -> None:
    """The eviction before the one that was refused may be why."""
    workload = unready(1, 3, strategy={"type": strategy})
    refused = recommend(eviction=evicted(problem="the budget", pods=3))

    recreation = ask(workload, refused)

    assert recreation.pod is None
    assert recreation.reasons[0] == "pod llm-0 is not ready, after a refused eviction"


def test_but_not_where_the_strategy_does_not_retry() -> None:
    refused = evicted(problem="the budget", retried=False)

    assert "does not let it be tried again" in reason(recommendation=recommend(eviction=refused))


@pytest.mark.parametrize("devices", ["two", "2.5", "", "0", "9" * 5000])
def test_a_pod_of_so_many_devices_as_nobody_can_tell_is_left_alone(devices: str) -> None:
    annotations = {FRACTION: "0.5", DEVICES: devices}
    pods = (
        make_running_pod("llm-0", make_container("main"), annotations=annotations),
        make_running_pod("llm-1"),
    )

    recreation = ask(make_workload(*pods))

    assert recreation.pod is not None
    assert recreation.pod.pod_name == "llm-1"


# --- pods that come back as they were ---


def made_after(eviction: Eviction) -> ObservedWorkload:
    started = (eviction.since + MINUTE).isoformat()
    return make_workload(make_running_pod(started=started))


@pytest.mark.parametrize(
    ("misses", "minutes"),
    [(0, 10), (1, 20), (2, 40), (7, 1280), (8, 1440), (1000, 1440)],
)
def test_a_pod_that_was_not_given_its_amount_is_tried_again_ever_later(
    misses: int, minutes: int
) -> None:
    soon = evicted((minutes - 2) * MINUTE, misses=misses)
    late = evicted(minutes * MINUTE, misses=misses)

    assert "not given what is recommended" in reason(made_after(soon), recommend(eviction=soon))
    recreation = ask(made_after(late), recommend(eviction=late))
    assert recreation.pod is not None
    assert recreation.is_miss


def test_a_pod_of_before_is_not_held_by_that() -> None:
    recreation = ask(recommendation=recommend(eviction=evicted(2 * MINUTE)))

    assert recreation.pod is not None
    assert not recreation.is_miss


def beside_a_miss(eviction: Eviction, *, given: bool = False) -> ObservedWorkload:
    """Two old pods, one that was made after *eviction*, and one made later that was *given* it."""
    pods = [make_running_pod(f"llm-{count}") for count in (0, 1)]
    pods.append(make_running_pod("llm-2", started=(eviction.since + MINUTE).isoformat()))
    if given:
        later = (eviction.since + 2 * MINUTE).isoformat()
        two = make_gpu_container(limit="2", request="2")
        note = {GPU_BEFORE: "main=1"}
        pods.append(make_running_pod("llm-3", two, annotations=note, started=later))
    return make_workload(*pods, strategy=ALL_AT_ONCE)


def test_where_the_last_one_was_not_given_its_amount_those_of_before_are_held_as_well() -> None:
    """Probes are mutated, and pods are not: each would be evicted for nothing."""
    soon, late = evicted(5 * MINUTE, pods=3), evicted(11 * MINUTE, pods=3)

    held = ask(beside_a_miss(soon), recommend(eviction=soon))
    assert held.pod is None
    assert held.reasons[0].startswith("pod llm-2 was made after the last eviction and not given")
    again = ask(beside_a_miss(late), recommend(eviction=late))
    assert again.pod is not None
    assert (again.pod.pod_name, again.is_miss) == ("llm-0", True)


def test_but_not_where_one_was_given_it_since() -> None:
    eviction = evicted(5 * MINUTE, pods=4)

    recreation = ask(beside_a_miss(eviction, given=True), recommend(eviction=eviction))

    assert recreation.pod is not None
    assert (recreation.pod.pod_name, recreation.is_miss) == ("llm-0", False)


@pytest.mark.parametrize(
    ("ago", "is_held"),
    [
        (5 * MINUTE, True),
        (20 * MINUTE, False),
        (-5 * MINUTE, False),
        (timedelta(days=-365), False),
    ],
)
def test_a_replacement_that_may_never_come_is_not_awaited_for_ever(
    ago: timedelta, is_held: bool
) -> None:
    """Of a Model nobody knows how many pods it wants. A time of the future counts for nothing."""
    workload = make_workload(make_running_pod("llm-0"), kind="Model")
    eviction = evicted(ago, pods=2, since=NOW - 60 * MINUTE)

    reasons = ask(workload, recommend(eviction=eviction)).reasons

    assert ("pod llm-x was evicted and is not replaced yet" in reasons) is is_held


def test_where_clocks_differ_evictions_still_come_to_an_end() -> None:
    """New pods seem to be older than the eviction before them."""
    eviction = evicted(2 * MINUTE, count=3)

    assert "not given what is recommended" in reason(recommendation=recommend(eviction=eviction))


@pytest.mark.slow
def test_pods_that_never_get_their_amount_are_evicted_a_dozen_times_a_week_at_most() -> None:
    """A policy that forbids the amount, say."""
    eviction: Eviction | None = None
    evictions = 0
    started = NOW - timedelta(hours=1)
    for minute in range(0, 7 * 24 * 60, 10):
        now = NOW + minute * MINUTE
        pod = make_running_pod(started=started.isoformat())
        pod["metadata"]["uid"] = f"uid-{evictions}"
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": started.isoformat()}
        pod["status"]["conditions"] = [ready]
        workload = make_workload(pod)
        recreation = ask(workload, recommend(eviction=eviction), now=now)
        if recreation.pod is not None:
            evictions += 1
            eviction = noted(recreation, eviction, 1, now, TWO)
            started = now + timedelta(seconds=1)

    assert 5 < evictions <= 14


# --- what is noted ---


def test_an_eviction_is_noted_with_what_it_was_for() -> None:
    first = noted(ask(), None, 2, NOW, TWO)

    assert first == Eviction("llm-0", "uid-pod-llm-0", NOW, NOW, pods=2, count=1, amounts=TWO)
    later = NOW + MINUTE
    again = noted(replace(ask(), is_miss=True), replace(first, problem="x"), 2, later, TWO)
    assert again == Eviction(
        "llm-0", "uid-pod-llm-0", later, NOW, pods=2, count=2, misses=1, amounts=TWO
    )
