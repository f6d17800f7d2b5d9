"""How much GPU each container of a pod has, and when that can't be told."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.builders import JsonObject
from tests.gpu import CONTAINER, DEVICES, FRACTION, MEMORY, make_gpu_container, make_gpu_pod
from webhook.reactive.observation.allocations import GpuAllocation, read_allocation

MAIN = make_gpu_container()
SIDECAR = make_gpu_container("sidecar")


def amounts(**texts: str | None) -> dict[str, Decimal | None]:
    return {name: None if text is None else Decimal(text) for name, text in texts.items()}


@pytest.mark.parametrize(
    ("container", "want"),
    [
        pytest.param(make_gpu_container(limit="2", request="2"), "2", id="both"),
        pytest.param(make_gpu_container(limit="2"), "2", id="limit-only"),
        pytest.param(make_gpu_container(request="2"), "2", id="request-only"),
        pytest.param(make_gpu_container(limit=1), "1", id="a-number"),
        pytest.param(make_gpu_container(limit="1000m"), "1", id="thousandths"),
        pytest.param(make_gpu_container(limit="0", request="0"), None, id="zero-is-none"),
        pytest.param(make_gpu_container(), None, id="without"),
        pytest.param({"name": "main", "image": "x"}, None, id="without-resources"),
        pytest.param(make_gpu_container(limit="1", resource="amd.com/gpu"), None, id="another"),
    ],
)
def test_a_container_has_the_whole_gpus_that_it_asks_for(
    container: JsonObject, want: str | None
) -> None:
    assert read_allocation(make_gpu_pod(container)) == GpuAllocation(amounts(main=want))


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({FRACTION: "0.5"}, {"main": "0.5", "sidecar": None}, id="of-the-first"),
        pytest.param({FRACTION: "5e-1"}, {"main": "0.5", "sidecar": None}, id="with-exponent"),
        pytest.param(
            {FRACTION: "0.3", CONTAINER: "sidecar"},
            {"main": None, "sidecar": "0.3"},
            id="of-the-one-that-is-named",
        ),
        pytest.param(
            {FRACTION: "0.333333333333333333333333333333"},
            {"main": "0.333333", "sidecar": None},
            id="as-it-is-stored",
        ),
    ],
)
def test_a_share_is_that_of_one_container(
    annotations: dict[str, str], want: dict[str, str | None]
) -> None:
    pod = make_gpu_pod(MAIN, SIDECAR, annotations=annotations)

    assert read_allocation(pod) == GpuAllocation(amounts(**want))


def test_a_share_of_several_devices_tells_how_many_these_are() -> None:
    pod = make_gpu_pod(MAIN, SIDECAR, annotations={FRACTION: "0.35", DEVICES: "4"})

    want = GpuAllocation(amounts(main="1.4", sidecar=None), devices={"main": 4})
    assert read_allocation(pod) == want


def test_init_containers_count_if_they_run_beside_the_others() -> None:
    """In the end, whatever their place, as in the order of the pod's containers."""
    pod = make_gpu_pod(
        make_gpu_container(limit="2"),
        make_gpu_container("web"),
        initContainers=[
            make_gpu_container("download", limit="4"),
            make_gpu_container("proxy", limit="1", restartPolicy="Always"),
        ],
    )

    found = read_allocation(pod)

    assert found == GpuAllocation(amounts(main="2", web=None, proxy="1"))
    assert list(found.amounts) == ["main", "web", "proxy"]


def test_a_share_may_be_that_of_an_init_container_that_goes_on() -> None:
    proxy = make_gpu_container("proxy", restartPolicy="Always")
    pod = make_gpu_pod(
        MAIN, annotations={FRACTION: "0.5", CONTAINER: "proxy"}, initContainers=[proxy]
    )

    assert read_allocation(pod) == GpuAllocation(amounts(main=None, proxy="0.5"))


def test_a_share_of_an_init_container_that_ends_is_nobodys() -> None:
    pod = make_gpu_pod(
        MAIN,
        annotations={FRACTION: "0.5", CONTAINER: "load"},
        initContainers=[make_gpu_container("load")],
    )

    assert read_allocation(pod) == GpuAllocation(
        amounts(main=None), "its share is that of load, an init container that ends"
    )


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(
            make_gpu_pod(MAIN, annotations={MEMORY: "4096"}),
            "what part of a GPU its gpu-memory is, depends on the node",
            id="gpu-memory",
        ),
        pytest.param(
            make_gpu_pod(make_gpu_container(limit="1", resource="nvidia.com/mig-1g.10gb")),
            "main asks for nvidia.com/mig-1g.10gb",
            id="mig",
        ),
        pytest.param(
            make_gpu_pod(make_gpu_container(limit="3000", resource="nvidia.com/gpumem")),
            "main asks for nvidia.com/gpumem",
            id="hami",
        ),
        pytest.param(
            make_gpu_pod(make_gpu_container(limit="1", resource="nvidia.com/gpu.shared")),
            "main asks for nvidia.com/gpu.shared",
            id="time-slices",
        ),
        pytest.param(
            make_gpu_pod(MAIN, resourceClaims=[{"name": "gpu"}]),
            "the GPUs of its claims can't be counted",
            id="claims",
        ),
        pytest.param(
            make_gpu_pod(MAIN, annotations={"nvidia.com/container.main.gpu-memory.limit": "8Gi"}),
            "it limits GPU memory or compute by container",
            id="limits-by-container",
        ),
        pytest.param(
            make_gpu_pod(MAIN, annotations={"nvidia.com/gpu-memory.container.main.limit": "8Gi"}),
            "it limits GPU memory or compute by container",
            id="limits-by-container-in-the-older-order",
        ),
        pytest.param(
            make_gpu_pod(make_gpu_container(limit="1"), annotations={FRACTION: "0.5"}),
            "it asks for a share and for whole GPUs",
            id="share-and-whole",
        ),
        pytest.param(
            make_gpu_pod(MAIN, annotations={FRACTION: "1"}),
            "its gpu-fraction is none that KAI accepts",
            id="a-share-that-is-all",
        ),
        pytest.param(
            make_gpu_pod(MAIN, annotations={FRACTION: "NaN"}),
            "its gpu-fraction is none that KAI accepts",
            id="a-share-that-is-no-number",
        ),
        pytest.param(
            make_gpu_pod(MAIN, annotations={FRACTION: "0.5", DEVICES: "0"}),
            "its gpu-fraction-num-devices is no number of devices",
            id="of-no-device",
        ),
        pytest.param(
            make_gpu_pod(MAIN, annotations={FRACTION: "0.5", CONTAINER: "gone"}),
            "its gpu-fraction-container-name names no container",
            id="of-no-container",
        ),
    ],
)
def test_what_can_not_be_told_is_no_allocation_and_is_said(pod: JsonObject, reason: str) -> None:
    assert read_allocation(pod) == GpuAllocation(amounts(main=None), reason)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({}, id="empty"),
        pytest.param({"spec": None}, id="null"),
        pytest.param({"spec": []}, id="a-list"),
        pytest.param({"spec": {"containers": {}}}, id="containers-that-are-none"),
        pytest.param({"spec": {"containers": ["main", {"name": 1}]}}, id="containers-of-text"),
    ],
)
def test_a_pod_that_is_none_has_no_containers(pod: dict[str, Any]) -> None:
    assert read_allocation(pod).amounts == {}
