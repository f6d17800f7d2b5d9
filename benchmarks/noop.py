"""
The floor: a server of aiohttp over TLS that reads each body and answers the same bytes.

    python -m benchmarks.noop --port PORT --ops-port PORT --cert-dir DIRECTORY

It is what any answer of a Python server costs here: TLS, HTTP and the loop, with nothing decided.
`/echo/mutate` and `/echo/validate` are for an API server, which wants its uid back: they admit
everything but what has a label `refuse` with the name of the one that is asked, which tells that it
is.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import ssl
from pathlib import Path

from aiohttp import web

from webhook.cli.process import loop_factory

_ECHO = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{%s}}'
_ANSWER = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
    b'"response":{"uid":"3d0f4a7e-6c1b-4f0e-9a55-21a3b8c4d5e6","allowed":true}}'
)


# The review's own comes first.
_UID = re.compile(rb'"uid":"([^"]+)"')


async def answer(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=_ANSWER, content_type="application/json")


async def echo(request: web.Request) -> web.Response:
    body = await request.read()
    uid = _UID.search(body)
    if uid is None:
        raise web.HTTPBadRequest
    refused = f'"refuse":"{request.match_info["phase"]}"'.encode() in body
    own = b'"uid":"%s","allowed":%s' % (uid[1], b"false" if refused else b"true")
    return web.Response(body=_ECHO % own, content_type="application/json")


async def ready(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def serve(port: int, ops_port: int, certificates: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
    for number, tls in ((port, context), (ops_port, None)):
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.add_routes(
            [
                web.post("/mutate", answer),
                web.post("/echo/{phase}", echo),
                web.get("/readyz", ready),
            ]
        )
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=600)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", number, ssl_context=tls).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noop")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ops-port", type=int, required=True)
    parser.add_argument("--cert-dir", type=Path, required=True)
    args = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(args.port, args.ops_port, args.cert_dir))


if __name__ == "__main__":
    main()
