"""Does a Job make another pod in the place of one that is evicted?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import JsonObject
from tests.gpu_cluster import make_cluster, make_object, make_running_pod, see_workload
from tests.unit.reactive.fakes import NOW
from webhook.policy.gpu.pod import annotations_of
from webhook.reactive.observation.jobs import INDEX_FAILURES
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.rounds.evaluate import Rules
from webhook.reactive.rounds.facts import Facts, surroundings_of

COUNTS = "no pod of it may fail any more (backoffLimit)"


def make_job(spec: JsonObject, status: JsonObject | None = None, **more: Any) -> JsonObject:
    return make_object("Job", spec={"completions": 1, **spec}, status=status or {}, **more)


def refusal(job: JsonObject, **annotations: Any) -> str:
    retries = see_workload(job).retries
    assert retries is not None
    pod = make_running_pod(annotations=annotations)
    return retries.refusal(annotations_of(pod))


def rule(action: str, **more: Any) -> JsonObject:
    return {"action": action, **more}


def exits(operator: str, *values: int) -> JsonObject:
    return {"onExitCodes": {"operator": operator, "values": list(values)}}


DISRUPTED: JsonObject = {"onPodConditions": [{"type": "DisruptionTarget"}]}


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(make_job({}), "", id="six-by-default"),
        pytest.param(make_job({"backoffLimit": 0}), COUNTS, id="none-may-fail"),
        pytest.param(make_job({"backoffLimit": 1}), "", id="one-may-fail"),
        pytest.param(make_job({"backoffLimit": 2}, {"failed": 1}), "", id="one-more-may"),
        pytest.param(make_job({"backoffLimit": 2}, {"failed": 2}), COUNTS, id="none-more-may"),
        pytest.param(
            make_job({"backoffLimit": 1}, {"uncountedTerminatedPods": {"failed": ["a"]}}),
            COUNTS,
            id="one-that-is-not-counted-yet",
        ),
        pytest.param(make_job({"suspend": True}), "it is suspended", id="suspended"),
        pytest.param(
            make_job({}, {"conditions": [{"type": "FailureTarget", "status": "True"}]}),
            "it ends",
            id="ending",
        ),
        pytest.param(
            make_job({}, {"conditions": [{"type": "Suspended", "status": "False"}]}),
            "",
            id="resumed",
        ),
        pytest.param(
            make_job({"completions": None, "parallelism": 2}, {"succeeded": 1}),
            "a pod of it has succeeded, and it gives no number of completions",
            id="work-queue-that-is-empty",
        ),
    ],
)
def test_it_makes_so_many_as_it_says(job: JsonObject, want: str) -> None:
    assert refusal(job) == want


@pytest.mark.parametrize(
    ("rules", "want"),
    [
        pytest.param([rule("Ignore", **DISRUPTED)], "", id="ignored"),
        pytest.param([rule("Count", **DISRUPTED)], COUNTS, id="counted"),
        pytest.param(
            [rule("FailJob", **DISRUPTED)],
            "its podFailurePolicy wants FailJob for an evicted pod",
            id="fails",
        ),
        pytest.param(
            [rule("FailJob", **exits("In", 42)), rule("Ignore", **DISRUPTED)],
            "",
            id="a-bug-is-another-code",
        ),
        pytest.param(
            [rule("FailJob", **exits("In", 1, 143)), rule("Ignore", **DISRUPTED)],
            "its podFailurePolicy wants FailJob for an evicted pod",
            id="the-code-of-a-signal",
        ),
        pytest.param(
            [rule("FailJob", **exits("NotIn", 42)), rule("Ignore", **DISRUPTED)],
            "its podFailurePolicy wants FailJob for an evicted pod",
            id="any-other-code",
        ),
        pytest.param(
            [rule("FailJob", **exits("NotIn", 137, 143)), rule("Ignore", **DISRUPTED)],
            "",
            id="any-but-those-of-signals",
        ),
        pytest.param(
            [rule("Ignore", onPodConditions=[{"type": "DisruptionTarget", "status": "False"}])],
            COUNTS,
            id="not-disrupted",
        ),
        pytest.param([rule("Ignore", onPodConditions=[{"type": "Mine"}])], COUNTS, id="another"),
        pytest.param([], COUNTS, id="no-rules"),
    ],
)
def test_its_failure_policy_comes_before_the_count(rules: list[JsonObject], want: str) -> None:
    assert refusal(make_job({"backoffLimit": 0, "podFailurePolicy": {"rules": rules}})) == want


@pytest.mark.parametrize(
    ("limit", "failed", "want"),
    [
        (0, None, "no pod of its index may fail any more (backoffLimitPerIndex)"),
        (2, "1", ""),
        (2, "2", "no pod of its index may fail any more (backoffLimitPerIndex)"),
        (2, "many", f"{INDEX_FAILURES} of the pod is no number (backoffLimitPerIndex)"),
        (2, "9" * 5000, f"{INDEX_FAILURES} of the pod is no number (backoffLimitPerIndex)"),
    ],
)
def test_of_an_indexed_job_each_index_counts(limit: int, failed: str | None, want: str) -> None:
    """All together may then fail as often as they like."""
    annotations = {} if failed is None else {INDEX_FAILURES: failed}
    job = make_job({"backoffLimitPerIndex": limit}, {"failed": 100})

    assert refusal(job, **annotations) == want


# --- what a pod is told of what made it ---


def ending(made: JsonObject) -> JsonObject:
    gone = {"deletionTimestamp": "2026-01-01T11:59:00Z"}
    return {**made, "metadata": {**made["metadata"], **gone}}


CRON_JOB = make_object("CronJob")
DEPLOYMENT = make_object("Deployment")
REPLICA_SET = make_object("ReplicaSet", "llm-5d8", owner=DEPLOYMENT)


@pytest.mark.parametrize(
    ("workload", "between", "want"),
    [
        pytest.param(CRON_JOB, make_job({}, name="llm-29", owner=CRON_JOB), "", id="job"),
        pytest.param(
            CRON_JOB,
            make_job({"backoffLimit": 0}, name="llm-29", owner=CRON_JOB),
            f"Job llm-29 makes no other pod: {COUNTS}",
            id="job-that-may-not-fail",
        ),
        pytest.param(
            CRON_JOB,
            ending(make_job({}, name="llm-29", owner=CRON_JOB)),
            "Job llm-29 makes no other pod: it is being deleted",
            id="job-that-ends",
        ),
        pytest.param(DEPLOYMENT, REPLICA_SET, "", id="replica-set"),
        pytest.param(
            DEPLOYMENT,
            ending(REPLICA_SET),
            "ReplicaSet llm-5d8 makes no other pod: it is being deleted",
            id="replica-set-that-ends",
        ),
    ],
)
def test_what_is_between_a_pod_and_its_workload_may_make_no_other(
    workload: JsonObject, between: JsonObject, want: str
) -> None:
    pod = make_running_pod(owner=between)
    cluster = make_cluster(workload, between, pod, rooms={})
    facts = Facts(cluster, Rules({}, cluster.settings, {}), NOW)
    observed = ObservedWorkload(see_workload(workload), (), tuple(cluster.pods.values()))

    around = surroundings_of(facts, observed, ())

    assert around.last == ({"team-a/llm-0": want} if want else {})
