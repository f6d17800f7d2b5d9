"""`gatewright selftest`: submits what must be refused, and fails if it is not."""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

from webhook.cli.cluster import add_access_flags, open_client
from webhook.errors import KubeError
from webhook.model.kinds import VERSION, WORKLOAD_GROUP
from webhook.model.printable import printable

NAME = "selftest"
HELP = "submit a workload to a cluster that must be refused; fails if it is admitted"
_DESCRIPTION = """
Submits a privileged Training, as a server-side dry run: nothing is made. The policy that is shipped
refuses it, unless one of scope system allows it. A new installation needs a moment until the API
server calls it, so it is tried again until it is refused or the time is over. The chart's `helm
test` runs it. Exit code: 0, refused by Gatewright; 1, admitted; 2, it could not be tried.
"""

_RETRY_S = 1.0
_MESSAGE_MAX_CHARS = 500
# How the API server says who refused (Kubernetes: admission webhooks, "the request").
_REFUSED_BY_US = re.compile(r'admission webhook "[a-z]+\.gatewright\.io" denied the request')


class SubmitCalls(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(
        self, method: str, path: str, *, params: dict[str, str] | None = None, body: Any = None
    ) -> bytes: ...


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        default="default",
        help="where to submit it; not one that is left out of the webhooks (default: default)",
    )
    add_access_flags(parser)
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="how long to try (default: 60)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    async def test() -> int:
        client = open_client(args)
        try:
            return await selftest(client, namespace=args.namespace, timeout_s=args.timeout)
        finally:
            await client.close()

    return asyncio.run(test())


async def selftest(
    client: SubmitCalls,
    *,
    namespace: str,
    timeout_s: float,
    say: Callable[[str], object] = lambda line: print(printable(line), flush=True),
    clock: Callable[[], float] = time.monotonic,
    pause_s: float = _RETRY_S,
) -> int:
    """The exit code. *say* is told how it went, in a line."""
    deadline = clock() + timeout_s
    while True:
        code, told = await _try(client, namespace)
        if code == 0 or clock() >= deadline:
            say(told)
            return code
        await asyncio.sleep(pause_s)


async def _try(client: SubmitCalls, namespace: str) -> tuple[int, str]:
    path = f"/apis/{WORKLOAD_GROUP}/{VERSION}/namespaces/{quote(namespace, safe='')}/trainings"
    try:
        await client.request("POST", path, params={"dryRun": "All"}, body=build_forbidden())
    except KubeError as error:
        told = " ".join(error.message.split())[:_MESSAGE_MAX_CHARS]
        if error.status == HTTPStatus.FORBIDDEN and _REFUSED_BY_US.search(error.message):
            return 0, f"refused, as it must be: {told}"
        return 2, f"it could not be tried: {error.reason or error.status}: {told}"
    return 1, (
        f"a privileged Training was admitted in namespace {namespace}: the API server does not ask"
        " Gatewright, or a policy of scope system allows it"
    )


def build_forbidden() -> dict[str, Any]:
    """A Training that the shipped system policy refuses."""
    return {
        "apiVersion": f"{WORKLOAD_GROUP}/{VERSION}",
        "kind": "Training",
        "metadata": {"generateName": "gatewright-selftest-"},
        "spec": {"image": "gatewright-selftest", "security": {"privileged": True}},
    }
