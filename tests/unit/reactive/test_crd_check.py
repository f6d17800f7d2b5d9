"""Whether the CRDs that are installed know `scope.containers`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from webhook.errors import KubeError
from webhook.reactive.observation.crd_check import fetch_lacking_kinds, lacking_kinds

GROUP = "rightsizing.kubex.ai"


def schema(kind: str, scope: dict[str, Any], group: str = GROUP) -> dict[str, Any]:
    spec = {"properties": {"scope": {"properties": scope}}}
    return {
        "properties": {"spec": spec},
        "x-kubernetes-group-version-kind": [{"group": group, "kind": kind, "version": "v1alpha1"}],
    }


def document(*schemas: dict[str, Any]) -> dict[str, Any]:
    return {"components": {"schemas": {f"s{n}": each for n, each in enumerate(schemas)}}}


NEW = {"containers": {"type": "array"}}
OLD = {"labelSelector": {"type": "object"}}


class FakeApi:
    def __init__(self, answer: bytes | KubeError) -> None:
        self.answer = answer
        self.paths: list[str] = []

    async def request(self, method: str, path: str, *, timeout_s: float = 10.0) -> bytes:
        self.paths.append(path)
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(document(schema("GpuReactivePolicy", NEW)), [], id="new"),
        pytest.param(
            document(schema("GpuReactivePolicy", OLD), schema("ClusterGpuReactivePolicy", NEW)),
            ["GpuReactivePolicy"],
            id="one-is-old",
        ),
        pytest.param(document(schema("GpuReactivePolicy", OLD, "x.y")), [], id="another-group"),
        pytest.param(document(), [], id="not-installed"),
        pytest.param({}, [], id="empty"),
        pytest.param({"components": {"schemas": {"a": None}}}, [], id="odd"),
    ],
)
def test_kinds_without_the_field_are_found(found: Any, want: list[str]) -> None:
    assert list(lacking_kinds(found)) == want


async def test_what_is_served_is_asked() -> None:
    api = FakeApi(json.dumps(document(schema("GpuReactivePolicy", OLD))).encode())

    found = await fetch_lacking_kinds(api)

    assert api.paths == ["/openapi/v3/apis/rightsizing.kubex.ai/v1alpha1"]
    assert found.is_known
    assert "does not know scope.containers" in found.reasons["GpuReactivePolicy"]


@pytest.mark.parametrize("answer", [KubeError(0, "Unreachable", "away"), b"<html>"])
async def test_where_it_is_not_known_nothing_is_evicted(answer: bytes | KubeError) -> None:
    found = await fetch_lacking_kinds(FakeApi(answer))

    assert not found.is_known
    assert sorted(found.reasons) == ["ClusterGpuReactivePolicy", "GpuReactivePolicy"]
    assert all("it is not known" in reason for reason in found.reasons.values())
