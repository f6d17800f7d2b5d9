"""The application over real TLS."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientConnectorCertificateError, ClientResponse, ClientSession, TCPConnector
from aiohttp.test_utils import TestServer

from tests.api.gate import JSON, Gate, GateServer
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.api.app import build_app
from webhook.tls.context import ServerTls
from webhook.tls.directory import CertificatePaths, ensure_development_certificate
from webhook.tls.issue import make_ca, make_leaf

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))
BODY = orjson.dumps(make_review(object=make_pod()))


@pytest.fixture
def paths(tmp_path: Path) -> CertificatePaths:
    return ensure_development_certificate(tmp_path)


@pytest.fixture
def client_pem(tmp_path: Path) -> Path:
    """Certificate and key of a caller; `callers.crt` is the authority that signed it."""
    ca = make_ca("callers")
    leaf = make_leaf(ca, ["caller"], is_client=True)
    (tmp_path / "callers.crt").write_bytes(ca.certificate_pem)
    pem = tmp_path / "caller.pem"
    pem.write_bytes(leaf.certificate_pem + leaf.key_pem)
    return pem


async def call(server: TestServer, context: ssl.SSLContext, path: str = "/validate") -> Any:
    connector = TCPConnector(ssl=context)
    async with ClientSession(connector=connector) as session:
        answer: ClientResponse
        async with session.post(server.make_url(path), data=BODY, headers=JSON) as answer:
            return answer.status, await answer.json()


async def serve(gate: Gate, tls: ServerTls) -> TestServer:
    server = GateServer(build_app(gate.services))
    await server.start_server(ssl=tls.context, access_log=None)
    return server


async def test_a_review_is_answered_to_who_trusts_our_authority(paths: CertificatePaths) -> None:
    async with Gate(POLICY) as gate:
        server = await serve(gate, ServerTls(paths.certificate, paths.key))
        status, answer = await call(server, ssl.create_default_context(cafile=str(paths.ca)))
        await server.close()

    assert status == 200
    assert answer["response"]["allowed"]


@pytest.mark.slow
async def test_who_does_not_trust_it_does_not_send_anything(paths: CertificatePaths) -> None:
    async with Gate(POLICY) as gate:
        server = await serve(gate, ServerTls(paths.certificate, paths.key))
        with pytest.raises(ClientConnectorCertificateError):
            await call(server, ssl.create_default_context())
        await server.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_with_a_client_authority_only_its_callers_are_answered(
    paths: CertificatePaths, client_pem: Path, path: str
) -> None:
    stranger = ssl.create_default_context(cafile=str(paths.ca))
    caller = ssl.create_default_context(cafile=str(paths.ca))
    caller.load_cert_chain(client_pem)
    callers = client_pem.with_name("callers.crt")
    async with Gate(POLICY, client_certificate_required=True) as gate:
        server = await serve(gate, ServerTls(paths.certificate, paths.key, client_ca=callers))

        assert (await call(server, stranger, path))[0] == 403
        assert (await call(server, caller, path))[0] == 200
        await server.close()


async def test_without_tls_nobody_has_a_client_certificate() -> None:
    async with Gate(POLICY, client_certificate_required=True) as gate:
        assert (await gate.post("/validate", BODY)).status == 403
