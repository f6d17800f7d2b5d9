"""A Secret, kept as an API server keeps it, whose faults tests choose."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import orjson

from webhook.errors import KubeError


class Secrets:
    """One Secret with optimistic concurrency, as an API server keeps it, and its faults."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = None
        self.version = 0
        self.writes: list[str] = []
        self.fault: KubeError | None = None

    @property
    def data(self) -> dict[str, bytes]:
        assert self.secret is not None
        return {name: base64.b64decode(text) for name, text in self.secret["data"].items()}

    def put(self, labels: dict[str, str], **data: bytes) -> None:
        """As somebody with kubectl; `_` stands for a point."""
        self.version += 1
        encoded = {
            name.replace("_", "."): base64.b64encode(value).decode() for name, value in data.items()
        }
        kept = {} if self.secret is None else self.secret["data"]
        self.secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "certs", "labels": labels, "resourceVersion": str(self.version)},
            "data": {**kept, **encoded},
        }

    async def request(
        self, method: str, path: str, *, body: Any = None, timeout_s: float = 10.0
    ) -> bytes:
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        collection = "/api/v1/namespaces/gatewright/secrets"
        assert path == (collection if method == "POST" else f"{collection}/certs")
        if method == "GET":
            if self.secret is None:
                raise KubeError(404, "NotFound", "no secret")
            return orjson.dumps(self.secret)
        if method == "PUT" and self.secret is None:
            raise KubeError(404, "NotFound", "no secret")
        if (method == "POST") != (self.secret is None) or (
            method == "PUT" and body["metadata"]["resourceVersion"] != str(self.version)
        ):
            raise KubeError(409, "Conflict", "somebody else was faster")
        self.version += 1
        self.writes.append(method)
        self.secret = orjson.loads(orjson.dumps(body))
        assert self.secret is not None
        self.secret["metadata"]["resourceVersion"] = str(self.version)
        return orjson.dumps(self.secret)


async def become(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait until *condition* holds."""
    async with asyncio.timeout(within_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)
