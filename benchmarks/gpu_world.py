"""
Stands for an API server and a Prometheus, for `gpu_round`; in a process of its own.

The API server lists in chunks, watches, takes what is written, and replaces a pod that is evicted.
Prometheus answers the queries of the reconciler, and has as many series as the pods have containers
with GPUs. How much load there is, and what was asked and written, is told at `/control`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import orjson
from aiohttp import web

from benchmarks.gpu_objects import (
    PLURALS,
    build_documents,
    build_namespaces,
    build_workloads,
)
from webhook.model.probes import PROBED
from webhook.tls.issue import make_ca, make_leaf

JsonObject = dict[str, Any]
Key = tuple[str, str]

_PATH: Final = re.compile(
    r"(?P<group>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>[^/]+))?"
)
_QUERY: Final = re.compile(
    r'max by \(.*\) \((?P<function>\w+)\((?P<metric>\w+)\{namespace="(?P<namespace>.*)"\}\[.*\]\)\)'
)
# Resources that are there without having objects.
_SERVED: Final = (
    *PLURALS.values(),
    "/apis/apps/v1/daemonsets",
    "/apis/batch/v1/cronjobs",
    "/api/v1/limitranges",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/policy.gatewright.io/v1alpha1/gpurecommendations",
    "/apis/rightsizing.kubex.ai/v1alpha1/automationstrategies",
    "/apis/rightsizing.kubex.ai/v1alpha1/gpureactivepolicies",
    "/apis/rightsizing.kubex.ai/v1alpha1/policyevaluations",
)
_METADATA_ALONE: Final = "as=PartialObjectMetadata"


class World:
    """What the cluster holds, who watches it, and what happened since somebody asked last."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[Key, JsonObject]] = {path: {} for path in _SERVED}
        self.load_percent = 0
        # Whether our webhook mutates the pods by which it is tried.
        self.is_mutated = False
        self.version = 1000
        self.calls: Counter[str] = Counter()
        self.queries: Counter[str] = Counter()
        self._watches: dict[str, set[asyncio.Queue[tuple[str, JsonObject]]]] = defaultdict(set)
        # By namespace: pod, container and how many percent of a GPU it has.
        self._series: dict[str, list[tuple[str, str, int]]] = defaultdict(list)

    def fill(self, objects: Iterable[JsonObject]) -> None:
        for each in objects:
            self.store(PLURALS[each["kind"]], each)
            if each["kind"] == "Pod":
                self._series[each["metadata"]["namespace"]] += _series(each)

    def store(self, path: str, manifest: JsonObject) -> JsonObject:
        """Create or replace it; the watches hear of it."""
        metadata = manifest["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("uid", f"uid-{self.version}")
        metadata.setdefault("generation", 1)
        event = "MODIFIED" if key in self.objects[path] else "ADDED"
        self.objects[path][key] = manifest
        self._tell(path, event, manifest)
        return manifest

    def evict(self, key: Key) -> None:
        """Its controller makes another pod, which is as it was, and has the same load."""
        path = PLURALS["Pod"]
        pod = self.objects[path].pop(key)
        self.version += 1
        version = {"resourceVersion": str(self.version)}
        self._tell(path, "DELETED", {**pod, "metadata": {**pod["metadata"], **version}})
        name = f"{key[1]}-{self.version}"
        again = {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"uid-{name}"}}
        self.store(path, again)
        series = self._series[key[0]]
        series[:] = [each for each in series if each[0] != key[1]]
        series += _series(again)

    def configure(self) -> None:
        """Let the settings say something new, which begins a round at once."""
        path = PLURALS["GlobalConfiguration"]
        for stored in list(self.objects[path].values()):
            metadata = dict(stored["metadata"])
            metadata["generation"] += 1
            self.store(path, {**stored, "metadata": metadata})

    def _tell(self, path: str, event: str, manifest: JsonObject) -> None:
        for watch in self._watches[path]:
            watch.put_nowait((event, manifest))

    def watch(self, path: str) -> asyncio.Queue[tuple[str, JsonObject]]:
        queue: asyncio.Queue[tuple[str, JsonObject]] = asyncio.Queue()
        self._watches[path].add(queue)
        return queue

    def vector(self, namespace: str, metric: str, function: str) -> list[JsonObject]:
        """A mean and a maximum about the load; each series has its own."""
        peak = 1.1 if function == "max_over_time" else 1.0
        found = []
        for pod, container, gpu_percent in self._series[namespace]:
            # Compute is of a whole GPU, memory of what the container has.
            whole = gpu_percent if "utilization" in metric else 100
            own = 0.9 + crc32(f"{pod}/{container}/{metric}".encode()) % 1000 / 5000
            labels = {
                "namespace": namespace,
                "pod": pod,
                "container": container,
                "gpu_uuid": f"GPU-{crc32(pod.encode()):08x}-1b2c-4d5e-8f90-123456789abc",
            }
            value = whole * own * peak * self.load_percent / 100
            found.append({"metric": labels, "value": [1767268800.123, repr(value)]})
        return found


def _series(pod: JsonObject) -> list[tuple[str, str, int]]:
    name = pod["metadata"]["name"]
    if "gpu-fraction" in pod["metadata"].get("annotations", {}):
        return [(name, pod["spec"]["containers"][0]["name"], 50)]
    return [
        (name, container["name"], 100)
        for container in pod["spec"]["containers"]
        if "nvidia.com/gpu" in container["resources"]["limits"]
    ]


# --- the API server ---


async def _answer(request: web.Request) -> web.StreamResponse:
    world = request.app[_WORLD]
    found = _PATH.fullmatch(request.path)
    if found is None:
        return _status(404, "NotFound")
    path = f"{found['group']}/{found['plural']}"
    if path not in world.objects:
        return _status(404, "NotFound")
    key = (found["namespace"] or "", found["name"] or "")
    if request.method != "GET":
        what = "/".join(filter(None, [found["plural"], found["part"]]))
        world.calls[f"{request.method} {what}"] += 1
        return await _write(request, path, key, found["part"] or "")
    if found["name"]:
        stored = world.objects[path].get(key)
        return _status(404, "NotFound") if stored is None else _json(stored)
    if "watch" in request.query:
        return await _watch(request, path)
    return _list(request, path)


def _list(request: web.Request, path: str) -> web.Response:
    world = request.app[_WORLD]
    stored = list(world.objects[path].values())
    start = int(request.query.get("continue", "0"))
    end = start + int(request.query.get("limit", len(stored) or 1))
    metadata = {"resourceVersion": str(world.version)}
    if end < len(stored):
        metadata["continue"] = str(end)
    alone = _METADATA_ALONE in request.headers.get("Accept", "")
    # Items of a list don't say what they are, unless only their metadata is sent.
    items = [
        _metadata_of(each)
        if alone
        else {key: value for key, value in each.items() if key not in ("apiVersion", "kind")}
        for each in stored[start:end]
    ]
    return _json({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})


async def _watch(request: web.Request, path: str) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    queue = request.app[_WORLD].watch(path)
    alone = _METADATA_ALONE in request.headers.get("Accept", "")
    await answer.prepare(request)
    while True:
        event, manifest = await queue.get()
        told = {"type": event, "object": _metadata_of(manifest) if alone else manifest}
        await answer.write(orjson.dumps(told) + b"\n")


async def _write(request: web.Request, path: str, key: Key, part: str) -> web.Response:
    world = request.app[_WORLD]
    body = orjson.loads(await request.read())
    if part == "eviction":
        world.evict(key)
        return _status(201, "Created")
    if request.method == "POST":
        body["metadata"].setdefault("namespace", key[0])
        if "dryRun" in request.query:
            body["metadata"]["annotations"] = {PROBED: "true"} if world.is_mutated else {}
            return _json(body, 201)
        name = (key[0], body["metadata"]["name"])
        if name in world.objects[path]:
            return _status(409, "AlreadyExists")
        # What a subresource is for, the object itself is not.
        body.pop("status", None)
        return _json(world.store(path, body), 201)
    stored = world.objects[path].get(key)
    if stored is None:
        if request.method != "PATCH" or part:
            return _status(404, "NotFound")
        return _json(world.store(path, body), 201)
    version = body.get("metadata", {}).get("resourceVersion")
    if version not in (None, "", stored["metadata"]["resourceVersion"]):
        return _status(409, "Conflict")
    if request.method == "PUT":
        parts = (part,) if part else tuple(each for each in body if each != "metadata")
        changed = {**stored, **{each: body.get(each) for each in parts}}
    else:
        changed = _merged(stored, body)
    changed["metadata"] = dict(stored["metadata"])
    return _json(world.store(path, changed))


def _merged(stored: Mapping[str, Any], patch: Mapping[str, Any]) -> JsonObject:
    merged = dict(stored)
    for key, value in patch.items():
        before = merged.get(key)
        is_deep = isinstance(value, dict) and isinstance(before, dict)
        merged[key] = _merged(before or {}, value) if is_deep else value
    return merged


def _metadata_of(manifest: JsonObject) -> JsonObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": manifest["metadata"],
    }


def _status(code: int, reason: str) -> web.Response:
    status = "Success" if code < 400 else "Failure"
    return _json({"kind": "Status", "code": code, "reason": reason, "status": status}, code)


def _json(body: Any, code: int = 200) -> web.Response:
    return web.Response(
        body=orjson.dumps(body), status=code, headers={"Content-Type": "application/json"}
    )


# --- Prometheus, and the control of both ---


async def _query(request: web.Request) -> web.Response:
    world = request.app[_WORLD]
    promql = str((await request.post())["query"])
    asked = _QUERY.fullmatch(promql)
    if asked is None:
        return _json({"status": "error", "errorType": "bad_data", "error": promql}, 400)
    world.queries[asked["namespace"]] += 1
    result = world.vector(asked["namespace"], asked["metric"], asked["function"])
    return _json({"status": "success", "data": {"resultType": "vector", "result": result}})


async def _tell(request: web.Request) -> web.Response:
    """What happened since the last time."""
    world = request.app[_WORLD]
    told = {"queries": max(world.queries.values(), default=0), "calls": dict(world.calls)}
    world.queries.clear()
    world.calls.clear()
    return _json(told)


async def _set(request: web.Request) -> web.Response:
    world = request.app[_WORLD]
    world.is_mutated = request.query["mutated"] == "yes"
    if "load" in request.query:
        world.load_percent = int(request.query["load"])
        world.configure()
    return _status(200, "OK")


async def _describe(request: web.Request) -> web.Response:
    """Of a kind without a schema nothing is known to be lacking."""
    return _json({"openapi": "3.0.0", "components": {"schemas": {}}})


_WORLD: Final = web.AppKey("world", World)


def serve(pods: int, connection: Connection) -> None:
    """Tell *connection* both URLs and the authority, then serve until the process is ended."""
    asyncio.run(_serve(pods, connection))


async def _serve(pods: int, connection: Connection) -> None:
    world = World()
    app = web.Application(client_max_size=2**24)
    app[_WORLD] = world
    app.router.add_get("/control", _tell)
    app.router.add_put("/control", _set)
    app.router.add_get("/openapi/v3/{path:.*}", _describe)
    app.router.add_post("/prometheus/api/v1/query", _query)
    app.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    ca, tls = _make_tls()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    secure, plain = [f"127.0.0.1:{address[1]}" for address in runner.addresses]
    prometheus = f"http://{plain}/prometheus"
    world.fill(build_documents(prometheus))
    world.fill(build_namespaces(pods))
    world.fill(build_workloads(pods))
    connection.send((f"https://{secure}", f"http://{plain}", ca))
    await asyncio.Event().wait()


def _make_tls() -> tuple[str, ssl.SSLContext]:
    authority = make_ca()
    leaf = make_leaf(authority, ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as name:
        certificate, key = Path(name, "tls.crt"), Path(name, "tls.key")
        certificate.write_bytes(leaf.certificate_pem)
        key.write_bytes(leaf.key_pem)
        context.load_cert_chain(certificate, key)
    return authority.certificate_pem.decode(), context
