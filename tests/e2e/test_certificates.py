"""One Secret with the certificates of all servers: made, followed, renewed, lost, broken."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.api.gate import JSON
from tests.builders import make_pod
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.gate import START_TIMEOUT_S
from tests.unit.admission.builders import make_review
from webhook.tls.held import read_certificates
from webhook.tls.issue import make_ca

BODY = orjson.dumps(make_review(object=make_pod()))
SECRET = "gatewright-certs"
# Two looks of a server at its Secret, and what a busy machine adds.
FOLLOW_S = 20.0


class Place:
    """A namespace, the Secret in it, and the servers that keep it."""

    def __init__(self, plane: ControlPlane, namespace: str, directory: Path) -> None:
        self._plane = plane
        self._directory = directory
        self.namespace = namespace
        self.servers: list[ClusterGate] = []
        plane.kubectl_checked("create", "namespace", namespace)

    def server(self, *flags: str) -> ClusterGate:
        directory = self._directory / f"{self.namespace}-{len(self.servers)}"
        directory.mkdir()
        server = ClusterGate(
            directory,
            self._plane.kubeconfig(),
            *("--own-namespace", self.namespace, "--cert-secret", SECRET),
            "--write-status=false",
            *flags,
        )
        self.servers.append(server)
        return server

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def kubectl(self, *arguments: str) -> str:
        return self._plane.kubectl_checked("--namespace", self.namespace, *arguments)

    def secret(self) -> dict[str, bytes]:
        """What the Secret holds; empty if there is none."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{SECRET}"
        answer = self._plane.request("GET", path)
        data = answer.json()["data"] if answer.status == 200 else {}
        return {name: base64.b64decode(text) for name, text in data.items()}

    def authorities(self) -> list[x509.Certificate]:
        return list(read_certificates(self.secret()["ca.crt"]))

    def written(self) -> float:
        """How often the servers have written the Secret."""
        name = "gatewright_certificate_writes_total"
        return sum(server.metric(name, outcome="written") for server in self.servers)


@pytest.fixture
def places(plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    made: list[Place] = []

    def make(namespace: str) -> Place:
        made.append(Place(plane, namespace, tmp_path))
        return made[-1]

    try:
        yield make
    finally:
        for place in made:
            place.stop()


def trusting(bundle: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=bundle.decode())


class Caller:
    """One connection to a server, by a name that its certificate is for."""

    def __init__(self, server: ClusterGate, bundle: bytes) -> None:
        port = int(server.url.rpartition(":")[2])
        self._connection = http.client.HTTPSConnection(
            "localhost", port, timeout=10, context=trusting(bundle)
        )

    def ask(self) -> None:
        self._connection.request("POST", "/validate", BODY, JSON)
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        assert json.loads(text)["response"]["allowed"]

    def close(self) -> None:
        self._connection.close()

    @property
    def certificate(self) -> x509.Certificate:
        assert isinstance(self._connection.sock, ssl.SSLSocket)
        der = self._connection.sock.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der)


def call(server: ClusterGate, bundle: bytes) -> x509.Certificate:
    """One review over a connection of its own; the certificate that was served."""
    caller = Caller(server, bundle)
    try:
        caller.ask()
        return caller.certificate
    finally:
        caller.close()


def ready(servers: list[ClusterGate]) -> None:
    for server in servers:
        wait_until(partial(is_ready, server), START_TIMEOUT_S, "the server")


def is_ready(server: ClusterGate) -> bool:
    return server.ops("/readyz")[0] == 200


def served_alike(place: Place) -> bool:
    """Whether every server serves what the Secret holds."""
    secret = place.secret()
    if not secret:
        return False
    (leaf,) = read_certificates(secret["tls.crt"])
    return {call(server, secret["ca.crt"]).serial_number for server in place.servers} == {
        leaf.serial_number
    }


def call_all(place: Place, times: int) -> None:
    """Calls, spread over all servers, by whoever knows the bundle of the Secret."""
    bundle = place.secret()["ca.crt"]
    for number in range(times):
        call(place.servers[number % len(place.servers)], bundle)


def test_servers_that_start_together_agree_on_one_authority(
    places: Callable[[str], Place],
) -> None:
    place = places("certs-together")
    for _ in range(3):
        place.server()
    for server in place.servers:
        server.begin()
    ready(place.servers)

    first = place.secret()
    assert len(place.authorities()) == 1
    assert place.written() == 1
    assert served_alike(place)
    (leaf,) = read_certificates(first["tls.crt"])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "gatewright.certs-together.svc" in names.get_values_for_type(x509.DNSName)
    call_all(place, 300)

    # Lost while all run: what is served is written again, and no caller need know.
    place.kubectl("delete", "secret", SECRET)
    wait_until(place.secret, FOLLOW_S, "the Secret to be there again")
    assert place.secret() == first
    call_all(place, 300)
    # Long enough for each of them to have looked again.
    time.sleep(7.0)
    assert place.secret() == first
    assert place.written() == 2

    # One that is restarted takes what is there.
    place.servers[0].stop()
    place.servers[0].start()
    assert served_alike(place)
    assert place.secret() == first


def test_a_secret_of_somebody_else_is_left_alone_and_said(
    places: Callable[[str], Place], tmp_path: Path
) -> None:
    place = places("certs-foreign")
    place.kubectl("create", "secret", "generic", SECRET, "--from-literal=password=x")
    server = place.server().begin()

    wait_until(
        lambda: "is not ours" in server.ops("/readyz")[1], START_TIMEOUT_S, "readiness to say why"
    )
    assert server.ops("/readyz")[0] == 503
    assert server.ops("/healthz")[0] == 200
    assert place.secret() == {"password": b"x"}
    with pytest.raises(ConnectionRefusedError):
        call(server, make_ca().certificate_pem)

    place.kubectl("delete", "secret", SECRET)
    ready([server])
    assert served_alike(place)


class Traffic:
    """Callers in threads of their own, and what went wrong with them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._ended = threading.Event()
        self.failures: list[str] = []
        self.calls = 0
        self.served: dict[int, x509.Certificate] = {}
        # As a registration that follows: never older than a look at the Secret every half second.
        self._bundle = place.secret()["ca.crt"]

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._follow)]
        for server in self._place.servers:
            threads += [
                threading.Thread(target=self._keep, args=(server,)),
                threading.Thread(target=self._reconnect, args=(server,)),
            ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(0.5):
            self._bundle = self._place.secret().get("ca.crt") or self._bundle

    def _keep(self, server: ClusterGate) -> None:
        """One connection for all the time, through every renewal."""
        caller = Caller(server, self._bundle)
        while not self._ended.wait(0.05):
            self._count(caller.ask)
        caller.close()

    def _reconnect(self, server: ClusterGate) -> None:
        def reconnect() -> None:
            leaf = call(server, self._bundle)
            self.served[leaf.serial_number] = leaf

        while not self._ended.wait(0.05):
            self._count(reconnect)

    def _count(self, ask: Callable[[], Any]) -> None:
        self.calls += 1
        try:
            ask()
        except Exception as error:  # noqa: BLE001  Whatever it is, it is told.
            self.failures.append(f"{time.monotonic():.1f}: {error!r}")

    @property
    def signers(self) -> set[str]:
        return {leaf.issuer.rfc4514_string() for leaf in list(self.served.values())}


def test_certificates_are_renewed_under_callers_without_a_failed_call(
    places: Callable[[str], Place],
) -> None:
    """Lives of seconds: three renewals, and a new authority among them."""
    place = places("certs-renewed")
    flags = ("--cert-lifetime=12s", "--ca-lifetime=30s")
    for _ in range(2):
        place.server(*flags).begin()
    ready(place.servers)
    first = place.servers[0].metric("gatewright_certificate_not_after_timestamp_seconds")
    traffic = Traffic(place)
    with traffic.running():
        wait_until(
            lambda: len(traffic.served) >= 4 and len(traffic.signers) >= 2,
            60.0,
            "three renewals, one by a new authority",
        )
        # A key that does not fit, as when one of two files is replaced.
        other = make_ca().key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        patch = {"data": {"tls.key": base64.b64encode(other).decode()}}
        place.kubectl("patch", "secret", SECRET, "--type=merge", "-p", json.dumps(patch))
        said = "the one in use stays: tls.key does not fit tls.crt"
        wait_until(
            lambda: any(said in server.log_text for server in place.servers),
            FOLLOW_S,
            "the mismatch to be logged",
        )
        wait_until(lambda: place.secret()["tls.key"] != other, FOLLOW_S, "the key to be mended")

    assert traffic.failures == []
    assert traffic.calls > 300
    failures = "gatewright_certificate_reload_failures_total"
    assert sum(server.metric(failures) for server in place.servers) >= 1
    last = place.servers[0].metric("gatewright_certificate_not_after_timestamp_seconds")
    assert last > first
