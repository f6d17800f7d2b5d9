from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from webhook.errors import SettingsError
from webhook.tls.context import ServerTls
from webhook.tls.issue import Issued, make_ca, make_leaf


class Pair:
    """A certificate and key on disk, with the authority that signed it."""

    def __init__(self, directory: Path) -> None:
        self.ca = make_ca()
        self.directory = directory
        self.certificate = directory / "tls.crt"
        self.key = directory / "tls.key"
        self.write(self.issue())

    def issue(self, hosts: Sequence[str] = ("localhost", "127.0.0.1")) -> Issued:
        return make_leaf(self.ca, hosts)

    def write(self, leaf: Issued) -> None:
        """Replace both files, as Kubernetes does: another inode, atomically."""
        for path, content in ((self.key, leaf.key_pem), (self.certificate, leaf.certificate_pem)):
            temporary = path.with_suffix(".new")
            temporary.write_bytes(content)
            temporary.replace(path)

    @property
    def serial(self) -> int:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).serial_number


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def serving(tls: ServerTls) -> AsyncIterator[int]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=tls.context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def serial(self) -> int:
        der = self._writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(der).serial_number

    @property
    def protocol(self) -> str | None:
        found: str | None = self._writer.get_extra_info("ssl_object").selected_alpn_protocol()
        return found

    async def say(self, text: bytes) -> bytes:
        self._writer.write(text + b"\n")
        await self._writer.drain()
        return (await self._reader.readline()).strip()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def trusting(*authorities: Issued) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cadata="".join(ca.certificate_pem.decode() for ca in authorities)
    )
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@asynccontextmanager
async def connected(
    port: int, context: ssl.SSLContext, host: str = "localhost"
) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname=host
    )
    connection = Connection(reader, writer)
    try:
        yield connection
    finally:
        await connection.close()


def load(pair: Pair, client_ca: Path | None = None) -> ServerTls:
    return ServerTls(pair.certificate, pair.key, client_ca=client_ca)


# An address is asked for without a server name: the exchange must not depend on one.
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_changed_pair_is_served_to_new_connections_and_drops_none(
    pair: Pair, host: str
) -> None:
    tls = load(pair)
    context = trusting(pair.ca)
    async with serving(tls) as port, connected(port, context, host) as before:
        first = before.serial
        pair.write(pair.issue())

        assert tls.reload()

        async with connected(port, context, host) as after:
            assert after.serial == pair.serial != first
            assert await after.say(b"new") == b"new"
        assert await before.say(b"old") == b"old"


async def test_a_pair_of_another_authority_is_taken_over_too(pair: Pair) -> None:
    tls = load(pair)
    pair.ca = make_ca()
    pair.write(pair.issue())

    assert tls.reload()

    async with serving(tls) as port, connected(port, trusting(pair.ca)) as connection:
        assert connection.serial == pair.serial


async def test_the_watch_finds_a_change_by_itself(pair: Pair) -> None:
    chains: asyncio.Queue[Sequence[x509.Certificate]] = asyncio.Queue()
    tls = ServerTls(pair.certificate, pair.key, on_change=chains.put_nowait)
    first = chains.get_nowait()[0]
    watch = asyncio.create_task(tls.watch(interval_s=0.01))
    try:
        pair.write(make_leaf(pair.ca, ["localhost"], life=timedelta(days=7)))
        second = (await asyncio.wait_for(chains.get(), timeout=5))[0]
    finally:
        watch.cancel()

    assert second.not_valid_after_utc < first.not_valid_after_utc


async def test_http_1_1_is_what_is_spoken(pair: Pair) -> None:
    async with serving(load(pair)) as port, connected(port, trusting(pair.ca)) as connection:
        assert connection.protocol == "http/1.1"


async def test_tls_1_2_is_the_oldest_that_is_spoken(pair: Pair) -> None:
    tls = load(pair)
    context = trusting(pair.ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    assert tls.context.minimum_version is ssl.TLSVersion.TLSv1_2
    async with serving(tls) as port:
        assert await is_answered(port, context)


def mismatch(pair: Pair) -> None:
    pair.key.write_bytes(pair.issue().key_pem)


def garbage(pair: Pair) -> None:
    pair.certificate.write_bytes(b"no certificate")


def missing(pair: Pair) -> None:
    pair.key.unlink()


def locked(pair: Pair) -> None:
    leaf = pair.issue()
    pair.certificate.write_bytes(leaf.certificate_pem)
    pair.key.write_bytes(
        leaf.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


def ended(pair: Pair) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=30)
    pair.write(
        make_leaf(make_ca(now=long_ago), ["localhost"], life=timedelta(days=1), now=long_ago)
    )


Fault = Callable[[Pair], None]

FAULTS: list[Fault] = [mismatch, garbage, missing, locked, ended]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_pair_that_is_not_usable_is_reported_once_and_the_old_one_stays(
    pair: Pair, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[None] = []
    tls = ServerTls(pair.certificate, pair.key, on_failure=lambda: failures.append(None))
    serial = pair.serial

    fault(pair)
    with caplog.at_level(logging.ERROR, "gatewright.tls"):
        tls.check()
        tls.check()

    assert len(failures) == len(caplog.records) == 1
    assert "the old one stays" in caplog.text
    async with serving(tls) as port, connected(port, trusting(pair.ca)) as connection:
        assert connection.serial == serial


@pytest.mark.parametrize("fault", FAULTS)
def test_who_asks_for_a_pair_is_told_that_it_is_not_usable(pair: Pair, fault: Fault) -> None:
    tls = load(pair)
    fault(pair)

    with pytest.raises(SettingsError, match=r"tls\.crt"):
        tls.reload()


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_pair_that_is_repaired_is_taken_over(pair: Pair, fault: Fault) -> None:
    tls = load(pair)
    fault(pair)
    tls.check()
    pair.write(pair.issue())

    assert tls.reload()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_does_not_start_with_a_pair_that_is_not_usable(pair: Pair, fault: Fault) -> None:
    fault(pair)

    with pytest.raises(SettingsError, match=r"tls\.crt"):
        load(pair)


def test_nothing_is_read_again_while_nothing_changes(pair: Pair) -> None:
    changes: list[Sequence[x509.Certificate]] = []
    tls = ServerTls(pair.certificate, pair.key, on_change=changes.append)

    assert not tls.reload()

    assert len(changes) == 1


def test_a_volume_of_kubernetes_is_followed_through_its_links(tmp_path: Path) -> None:
    """Secrets are mounted as links through `..data`, which is turned to a new directory."""
    volume = tmp_path / "volume"
    for name in ("one", "two"):
        (volume / name).mkdir(parents=True)
        Pair(volume / name)
    (volume / "..data").symlink_to("one")
    for name in ("tls.crt", "tls.key"):
        (volume / name).symlink_to(f"..data/{name}")
    tls = ServerTls(volume / "tls.crt", volume / "tls.key")

    (volume / "..new").symlink_to("two")
    os.replace(volume / "..new", volume / "..data")

    assert tls.reload()


# --- certificates of callers ---


@pytest.fixture
def client_ca(tmp_path: Path) -> Issued:
    ca = make_ca("callers")
    (tmp_path / "clients.crt").write_bytes(ca.certificate_pem)
    return ca


def presenting(context: ssl.SSLContext, leaf: Issued, directory: Path) -> ssl.SSLContext:
    (directory / "client.pem").write_bytes(leaf.certificate_pem + leaf.key_pem)
    context.load_cert_chain(directory / "client.pem")
    return context


async def is_answered(port: int, context: ssl.SSLContext) -> bool:
    # In TLS 1.3 a client learns only after its handshake that it was refused.
    try:
        async with connected(port, context) as connection:
            return await connection.say(b"hello") == b"hello"
    except (ssl.SSLError, ConnectionError):
        return False


async def test_a_caller_whose_certificate_is_signed_is_answered(
    pair: Pair, client_ca: Issued, tmp_path: Path
) -> None:
    leaf = make_leaf(client_ca, ["caller"], is_client=True)

    async with serving(load(pair, tmp_path / "clients.crt")) as port:
        assert await is_answered(port, presenting(trusting(pair.ca), leaf, tmp_path))


async def test_a_stranger_who_presents_a_certificate_is_refused(
    pair: Pair, client_ca: Issued, tmp_path: Path
) -> None:
    leaf = make_leaf(make_ca("callers"), ["caller"], is_client=True)

    async with serving(load(pair, tmp_path / "clients.crt")) as port:
        assert not await is_answered(port, presenting(trusting(pair.ca), leaf, tmp_path))


async def test_the_certificate_of_a_server_does_not_pass_for_a_callers(
    pair: Pair, client_ca: Issued, tmp_path: Path
) -> None:
    leaf = make_leaf(client_ca, ["caller"])

    async with serving(load(pair, tmp_path / "clients.crt")) as port:
        assert not await is_answered(port, presenting(trusting(pair.ca), leaf, tmp_path))


async def test_a_changed_authority_for_callers_is_taken_over(
    pair: Pair, client_ca: Issued, tmp_path: Path
) -> None:
    tls = load(pair, tmp_path / "clients.crt")
    new = make_ca("callers, renewed")
    (tmp_path / "clients.crt").write_bytes(new.certificate_pem)
    assert tls.reload()

    async with serving(tls) as port:
        for ca, want in ((client_ca, False), (new, True)):
            leaf = make_leaf(ca, ["caller"], is_client=True)
            context = presenting(trusting(pair.ca), leaf, tmp_path)
            assert await is_answered(port, context) is want


def converse(port: int, context: ssl.SSLContext, session: Any = None) -> tuple[bool, Any]:
    """Whether a session was gone on with, and the one that came of it; an error if refused."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as secured,
    ):
        secured.sendall(b"hello\n")
        if secured.recv(5) != b"hello":
            raise ConnectionError("closed")
        return bool(secured.session_reused), secured.session


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "is_gone_on_with"),
    [(ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, False)],
)
async def test_a_caller_whose_authority_counts_no_more_does_not_go_on_with_a_session(
    pair: Pair, client_ca: Issued, tmp_path: Path, version: ssl.TLSVersion, is_gone_on_with: bool
) -> None:
    tls = load(pair, tmp_path / "clients.crt")
    leaf = make_leaf(client_ca, ["caller"], is_client=True)
    context = presenting(trusting(pair.ca), leaf, tmp_path)
    context.minimum_version = context.maximum_version = version

    async with serving(tls) as port:
        _, session = await asyncio.to_thread(converse, port, context)
        reused, session = await asyncio.to_thread(converse, port, context, session)
        assert reused is is_gone_on_with
        (tmp_path / "clients.crt").write_bytes(make_ca("others").certificate_pem)
        assert tls.reload()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(converse, port, context, session)


async def test_without_client_certificates_sessions_outlive_a_change(pair: Pair) -> None:
    tls = load(pair)
    context = trusting(pair.ca)

    async with serving(tls) as port:
        _, session = await asyncio.to_thread(converse, port, context)
        pair.write(pair.issue())
        assert tls.reload()
        reused, _ = await asyncio.to_thread(converse, port, context, session)
    assert reused


def test_every_cipher_keeps_what_was_said_secret_when_the_key_is_lost(pair: Pair) -> None:
    context = load(pair).context

    agreed = {
        cipher["name"].partition("-")[0].partition("_")[0] for cipher in context.get_ciphers()
    }
    assert agreed <= {"TLS", "ECDHE", "DHE"}
    assert not [cipher for cipher in context.get_ciphers() if cipher["strength_bits"] < 128]
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION


async def test_a_client_authority_that_is_no_certificate_is_a_clear_error(pair: Pair) -> None:
    (pair.directory / "clients.crt").write_bytes(b"none")

    with pytest.raises(SettingsError, match=r"clients\.crt"):
        load(pair, pair.directory / "clients.crt")
