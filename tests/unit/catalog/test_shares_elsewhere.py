"""Shares of a GPU where the annotations of a pod do not stand beside its spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import Answer, JsonObject, submit
from tests.unit.catalog.contract import contracts
from tests.unit.catalog.test_native_homes import (
    DYNAMO_GRAPH,
    INFERENCE_SERVICE,
    LLM_INFERENCE_SERVICE,
    manifest,
    under,
)
from webhook.admission.review import review
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.locate import answer_by_jq
from webhook.model.decision import Decision
from webhook.model.request import AdmissionRequest, Phase
from webhook.policy.native.native_fields import NativeFields
from webhook.store.snapshot import Snapshot

LLM_V1ALPHA2 = "serving.kserve.io/v1alpha2/LLMInferenceService"

SIDE: JsonObject = {"name": "side", "image": "ghcr.io/a/side:1"}
SERVER: JsonObject = {"name": "kserve-container", "image": "ghcr.io/a/model:1"}
WHOLE: JsonObject = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
MODEL: JsonObject = {"modelFormat": {"name": "huggingface"}}

PREDICTOR = "/spec/predictor/annotations"
GRAPH = "/spec/services/Decode/extraPodMetadata/annotations"
NAME = "gpu-fraction-container-name"


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    with JqWorker() as worker:
        yield worker


def make(kind: str, spec: JsonObject) -> JsonObject:
    version, _, name = kind.rpartition("/")
    return {
        "apiVersion": version,
        "kind": name,
        "metadata": {"name": "one", "namespace": "team-a"},
        "spec": spec,
    }


def send(document: JsonObject, worker: JqWorker, **policy: Any) -> Answer:
    """What becomes of *document* under one hierarchical policy for its kind."""
    snapshot = under(f"{document['apiVersion']}/{document['kind']}", **policy)
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []

    def decide(request: AdmissionRequest, phase: Phase, snapshot: Snapshot) -> Decision:
        assert request.object is not None
        return answer_by_jq(
            worker, request.object, lambda answers: review(request, phase, snapshot, answers)
        )

    return submit(snapshot, document, decide=decide)


def predictor(**component: Any) -> JsonObject:
    return make(INFERENCE_SERVICE, {"predictor": component})


def llm(**spec: Any) -> JsonObject:
    return make(LLM_INFERENCE_SERVICE, spec)


def graph(**service: Any) -> JsonObject:
    return make(DYNAMO_GRAPH, {"services": {"Decode": service}})


def shared(annotations: JsonObject | None = None) -> JsonObject:
    return {"gpu-fraction": "0.5", **(annotations or {})}


SHARES = [
    pytest.param(predictor(model=MODEL), {PREDICTOR: shared()}, id="a-model-server"),
    pytest.param(
        predictor(model=MODEL, containers=[SIDE]),
        {PREDICTOR: shared({NAME: "kserve-container"})},
        id="a-model-server-and-another",
    ),
    pytest.param(predictor(containers=[SERVER, SIDE]), {PREDICTOR: shared()}, id="server-in-front"),
    pytest.param(
        predictor(containers=[SIDE, SERVER]),
        {PREDICTOR: shared({NAME: "kserve-container"})},
        id="server-behind",
    ),
    pytest.param(
        make(
            INFERENCE_SERVICE,
            {
                "predictor": {"model": MODEL, "workerSpec": {"containers": [SIDE]}},
                "transformer": {"containers": [SIDE]},
                "explainer": {"art": {"type": "SquareAttack"}},
            },
        ),
        {
            PREDICTOR: shared(),
            "/spec/transformer/annotations": shared(),
            "/spec/explainer/annotations": shared(),
        },
        id="each-component",
    ),
    pytest.param(llm(template={"containers": [SIDE]}), {"/spec/annotations": shared()}, id="llm"),
    pytest.param(
        make(LLM_V1ALPHA2, {"template": {"containers": [SIDE]}}),
        {"/spec/annotations": shared()},
        id="llm-of-the-later-version",
    ),
    pytest.param(
        llm(
            template={"containers": [SIDE]},
            worker={"containers": [SIDE]},
            prefill={"template": {"containers": [SIDE]}},
        ),
        {"/spec/annotations": shared(), "/spec/prefill/annotations": shared()},
        id="each-llm-workload",
    ),
    pytest.param(graph(), {GRAPH: shared()}, id="graph"),
    pytest.param(
        graph(extraPodSpec={"mainContainer": {"image": "a"}}),
        {GRAPH: shared()},
        id="graph-with-a-main-container",
    ),
    pytest.param(
        graph(extraPodSpec={"containers": [SIDE]}),
        {GRAPH: shared({NAME: "main"})},
        id="graph-with-a-container-in-front",
    ),
]


@pytest.mark.parametrize(("document", "want"), SHARES)
def test_a_share_is_written_where_the_pod_has_its_annotations(
    document: JsonObject, want: dict[str, JsonObject], worker: JqWorker
) -> None:
    """The container that it is for is named where it isn't the first of the pod."""
    answer = send(document, worker, defaults={"compute": {"gpuPortionRequest": 0.5}})

    assert answer.allowed
    assert {place: answer.at(place) for place in want} == want
    # One change for each pod, and nothing beside it.
    assert len(answer.decision.changes) == len(want)


KINDS = sorted(
    {
        str(contract.kind)
        for contract in contracts()
        if NativeFields(contract.mapping).homes("compute.gpuMemoryRequest")
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_with_a_home_for_shares_is_given_them_without_another_rule(
    kind: str, worker: JqWorker
) -> None:
    """Which container is the main one has to be asked for them alone, by jq in some kinds."""
    answer = send(manifest(kind), worker, defaults={"compute": {"gpuMemoryRequest": "1Gi"}})

    pods = [change.path for change in answer.decision.changes]
    assert pods or answer.decision.not_applied
    assert {path[-1] for path in pods} <= {"gpu-memory"}


OBSTACLES = [
    pytest.param(predictor(model={**MODEL, **WHOLE}), id="model-server"),
    pytest.param(predictor(containers=[{**SERVER, **WHOLE}]), id="container"),
    pytest.param(predictor(initContainers=[{**SIDE, **WHOLE}]), id="init-container"),
    pytest.param(
        predictor(model=MODEL, workerSpec={"containers": [{**SIDE, **WHOLE}]}), id="worker"
    ),
    pytest.param(llm(template={"containers": [{**SIDE, **WHOLE}]}), id="llm"),
    pytest.param(llm(worker={"containers": [{**SIDE, **WHOLE}]}), id="llm-worker"),
    pytest.param(graph(resources={"limits": {"gpu": "1"}}), id="graph"),
    pytest.param(graph(extraPodSpec={"mainContainer": WHOLE}), id="graph-main-container"),
    pytest.param(graph(extraPodSpec={"containers": [{**SIDE, **WHOLE}]}), id="graph-container"),
]


@pytest.mark.parametrize("document", OBSTACLES)
def test_no_share_is_given_to_a_pod_with_whole_gpus(document: JsonObject, worker: JqWorker) -> None:
    answer = send(document, worker, defaults={"compute": {"gpuPortionRequest": 0.5}})

    assert answer.patch == []
    assert [item.reason for item in answer.decision.not_applied] == [
        "a container asks for whole GPUs"
    ]


SHARING = [
    pytest.param(predictor(annotations=shared(), model=MODEL), PREDICTOR, id="model-server"),
    pytest.param(
        predictor(annotations=shared({NAME: "kserve-container"}), model=MODEL, containers=[SIDE]),
        PREDICTOR,
        id="model-server-by-name",
    ),
    pytest.param(
        predictor(annotations=shared({NAME: "kserve-container"}), containers=[SIDE, SERVER]),
        PREDICTOR,
        id="container-by-name",
    ),
    pytest.param(
        llm(annotations=shared(), template={"containers": [SIDE]}), "/spec/annotations", id="llm"
    ),
    pytest.param(
        llm(prefill={"annotations": shared(), "template": {"containers": [SIDE]}}),
        "/spec/prefill/annotations",
        id="llm-prefill",
    ),
    pytest.param(graph(extraPodMetadata={"annotations": shared()}), GRAPH, id="graph"),
    pytest.param(
        graph(
            extraPodMetadata={"annotations": shared({NAME: "main"})},
            extraPodSpec={"mainContainer": {"image": "a"}, "containers": [SIDE]},
        ),
        GRAPH,
        id="graph-by-name",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("document", "annotations"), SHARING)
@pytest.mark.parametrize(
    ("rules", "broken"),
    [
        pytest.param(
            {"gpuPortionRequest": {"max": 0.25}}, [("/gpu-fraction", "max")], id="portion"
        ),
        pytest.param({"gpuRequestType": {"options": ["memory"]}}, [("", "options")], id="type"),
        pytest.param({"gpuMemoryRequest": {"min": "1Gi"}}, [], id="a-share-of-another-type"),
        pytest.param({"gpuDevicesRequest": {"min": 1, "max": 1}}, [], id="it-is-of-one-device"),
        pytest.param(
            {"gpuDevicesRequest": {"min": 2}},
            [("/gpu-fraction-num-devices", "min")],
            id="fewer-devices-than-asked-for",
        ),
    ],
)
def test_a_share_is_judged(
    document: JsonObject,
    annotations: str,
    rules: JsonObject,
    broken: list[tuple[str, str]],
    worker: JqWorker,
) -> None:
    answer = send(document, worker, rules={"compute": rules})

    assert answer.broken == [(f"{annotations}{name}", rule) for name, rule in broken]


@pytest.mark.parametrize(("document", "annotations"), SHARING)
def test_more_devices_of_a_share_stand_in_an_annotation(
    document: JsonObject, annotations: str, worker: JqWorker
) -> None:
    answer = send(document, worker, defaults={"compute": {"gpuDevicesRequest": 2}})

    assert answer.at(f"{annotations}/gpu-fraction-num-devices") == "2"
    assert len(answer.patch) == 1


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            predictor(annotations=shared({NAME: "side"}), model=MODEL, containers=[SIDE]),
            id="model-server",
        ),
        pytest.param(predictor(annotations=shared(), containers=[SIDE, SERVER]), id="container"),
        pytest.param(
            graph(
                extraPodMetadata={"annotations": shared()},
                extraPodSpec={"mainContainer": {"image": "a"}, "containers": [SIDE]},
            ),
            id="graph",
        ),
    ],
)
def test_the_main_container_gets_no_whole_gpus_where_another_has_the_share(
    document: JsonObject, worker: JqWorker
) -> None:
    answer = send(document, worker, defaults={"compute": {"gpuDevicesRequest": 2}})

    assert answer.patch == []
    assert {item.reason for item in answer.decision.not_applied} == {
        "another container of the pod has a share of a GPU"
    }
