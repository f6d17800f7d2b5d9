"""Lists of a cluster's objects: in chunks, each object once, and why one can't be had."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from webhook.clients.listing import ListCalls, ListedResource, ObjectLister, group_versions
from webhook.errors import KubeError
from webhook.model.kinds import GroupVersionKind

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
POD = GroupVersionKind("", "v1", "Pod")
PODS = ListedResource(POD, "pods", namespaced=True)
OLD_NOTEBOOK = GroupVersionKind("kubeflow.org", "v1beta1", "Notebook")
NOTEBOOK = GroupVersionKind("kubeflow.org", "v1", "Notebook")

EXPIRED = KubeError(410, "Expired", "the continue token is too old")


def resource(name: str, kind: str, *, namespaced: bool = True, verbs: str = "get list") -> Any:
    return {"name": name, "kind": kind, "namespaced": namespaced, "verbs": verbs.split()}


def page(*names: str, token: str = "") -> dict[str, Any]:
    items = [{"metadata": {"name": name, "uid": f"uid-{name}"}} for name in names]
    return {"metadata": {"continue": token}, "items": items}


class FakeApiServer:
    """Answers by path; where it has several answers to one, each call takes the next."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = {
            path: list(answer) if isinstance(answer, list) else [answer]
            for path, answer in answers.items()
        }
        self.calls: list[tuple[str, dict[str, str]]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> bytes:
        assert method == "GET"
        self.calls.append((path, dict(params or {})))
        answers = self._answers.get(path)
        if answers is None:
            raise KubeError(404, "NotFound", "the server could not find the requested resource")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


async def names(client: ListCalls, resource: ListedResource = PODS, namespace: str = "") -> Any:
    lister = ObjectLister(client, first_chunk=2, chunk_bytes=1)
    return [found["metadata"]["name"] async for found in lister.objects(resource, namespace)]


async def test_all_chunks_are_read_one_after_another() -> None:
    server = FakeApiServer({"/api/v1/pods": [page("a", "b", token="2"), page("c")]})

    assert await names(server) == ["a", "b", "c"]
    assert [params.get("continue") for _, params in server.calls] == [None, "2"]


def padded(count: int, size: int, token: str) -> dict[str, Any]:
    found = page(*[f"{token}-{index}" for index in range(count)], token=token)
    found["items"][0]["spec"] = "x" * size
    return found


async def test_chunks_are_as_large_as_what_is_in_them_allows() -> None:
    pages = [padded(25, 0, "1"), padded(50, 0, "2"), padded(100, 0, "3"), padded(100, 8 << 20, "4")]
    server = FakeApiServer({"/api/v1/pods": [*pages, page("last")]})

    async for _ in ObjectLister(server).objects(PODS):
        pass

    # At most twice as many at a time, and 4 MiB of what came last.
    assert [params["limit"] for _, params in server.calls] == ["25", "50", "100", "100", "49"]


async def test_an_object_says_what_it_is_though_its_list_does_not() -> None:
    lister = ObjectLister(FakeApiServer({"/apis/apps/v1/deployments": page("web")}))
    resource = ListedResource(DEPLOYMENT, "deployments", namespaced=True)

    (found,) = [each async for each in lister.objects(resource)]

    assert (found["apiVersion"], found["kind"]) == ("apps/v1", "Deployment")


async def test_a_list_that_grew_too_old_is_begun_anew_and_no_object_comes_twice() -> None:
    chunks = [page("a", "b", token="2"), EXPIRED, page("a", "b", token="4"), page("c")]

    assert await names(FakeApiServer({"/api/v1/pods": chunks})) == ["a", "b", "c"]


async def test_a_list_that_always_grows_too_old_is_given_up() -> None:
    with pytest.raises(KubeError, match="too old"):
        await names(FakeApiServer({"/api/v1/pods": EXPIRED}))


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_list_that_is_refused_says_by_which_status(status: int) -> None:
    server = FakeApiServer({"/api/v1/pods": KubeError(status, "Refused", "no")})

    with pytest.raises(KubeError) as caught:
        await names(server)

    assert caught.value.status == status


class HeavyObjects(FakeApiServer):
    """So large that a page with more than *most* of them is not read."""

    def __init__(self, answers: Mapping[str, Any], most: int) -> None:
        super().__init__(answers)
        self._most = most

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> bytes:
        if int((params or {})["limit"]) > self._most:
            self.calls.append((path, dict(params or {})))
            raise KubeError(0, "TooLarge", "the answer is larger than 1 byte")
        return await super().request(method, path, params=params, timeout_s=timeout_s)


async def test_objects_that_are_too_large_together_come_fewer_at_a_time() -> None:
    pages = [page("a", "b", "c", token="2"), page("d")]
    server = HeavyObjects({"/api/v1/pods": pages}, most=7)
    lister = ObjectLister(server)

    assert [found["metadata"]["name"] async for found in lister.objects(PODS)] == [*"abcd"]
    assert [(call.get("continue"), call["limit"]) for _, call in server.calls] == [
        (None, "25"),
        (None, "12"),
        (None, "6"),
        ("2", "12"),
        ("2", "6"),
    ]


async def test_one_object_that_is_too_large_is_an_error() -> None:
    with pytest.raises(KubeError, match="TooLarge"):
        await names(HeavyObjects({}, most=0))


async def test_objects_are_had_as_they_are_written_too() -> None:
    server = FakeApiServer({"/x": b'{"metadata": {}, "items": [{"metadata":{},  "a": 1.50}]}'})

    found = [raw async for raw in ObjectLister(server).raw_objects("/x")]

    assert found == [b'{"metadata":{},  "a": 1.50}']


async def test_an_answer_that_is_no_list_is_an_error() -> None:
    with pytest.raises(KubeError, match="no answer of an API server"):
        await names(FakeApiServer({"/api/v1/pods": b"<html>"}))


async def test_one_namespace_is_asked_for_by_its_path() -> None:
    server = FakeApiServer({"/api/v1/namespaces/team-a/pods": page("a")})

    assert await names(server, namespace="team-a") == ["a"]


async def test_what_lies_in_no_namespace_is_in_none() -> None:
    resource = ListedResource(NAMESPACE, "namespaces", namespaced=False)

    assert await names(FakeApiServer({}), resource, namespace="team-a") == []


async def test_an_object_that_nests_too_deep_is_cut_and_the_others_come_all_the_same() -> None:
    deep = '{"metadata":{"name":"deep","uid":"1"},"spec":' + '{"a":' * 3000 + "1" + "}" * 3001
    body = '{"metadata":{},"items":[' + deep + ',{"metadata":{"name":"b","uid":"2"}}]}'

    assert await names(FakeApiServer({"/api/v1/pods": body.encode()})) == ["deep", "b"]


async def test_a_kind_is_found_by_what_is_served() -> None:
    resources = [
        resource("pods/log", "Pod"),
        resource("bindings", "Pod", verbs="create"),
        resource("pods", "Pod"),
    ]
    server = FakeApiServer({"/api/v1": {"resources": resources}})
    lister = ObjectLister(server)

    assert await lister.find(POD) == PODS
    assert await lister.find(NAMESPACE) is None
    assert len(server.calls) == 1


async def test_a_group_that_is_not_served_holds_nothing() -> None:
    lister = ObjectLister(FakeApiServer({}))

    assert await lister.find(DEPLOYMENT) is None
    assert await lister.find_preferred([DEPLOYMENT]) is None


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        pytest.param([OLD_NOTEBOOK, NOTEBOOK], "v1", id="the-preferred-of-two"),
        pytest.param([OLD_NOTEBOOK], "v1beta1", id="the-only-one-that-is-wanted"),
    ],
)
async def test_a_kind_is_listed_in_one_version_only(
    wanted: list[GroupVersionKind], version: str
) -> None:
    served = {"resources": [resource("notebooks", "Notebook")]}
    lister = ObjectLister(
        FakeApiServer(
            {
                "/apis/kubeflow.org": {"versions": [{"version": "v1"}, {"version": "v1beta1"}]},
                "/apis/kubeflow.org/v1": served,
                "/apis/kubeflow.org/v1beta1": served,
            }
        )
    )

    [versions] = group_versions(wanted)
    found = await lister.find_preferred(versions)

    assert found is not None
    assert found.kind.version == version
    assert found.path("team-a") == f"/apis/kubeflow.org/{version}/namespaces/team-a/notebooks"
