"""Where the certificate of `serve` comes from."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import math
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.unit.tls.secrets import Secrets, become
from webhook.cli.certificates import Certificates, build_certificates
from webhook.cli.process import background
from webhook.errors import SettingsError
from webhook.settings import add_options, load_settings
from webhook.telemetry.metrics import Metrics
from webhook.tls.context import ServerTls
from webhook.tls.issue import Issued, make_ca, make_leaf
from webhook.tls.secret import LABELS

HOST = "gatewright.gatewright.svc"


def build(metrics: Metrics, *flags: str | Path, client: Secrets | None = None) -> Certificates:
    parser = argparse.ArgumentParser()
    add_options(parser)
    given = vars(parser.parse_args(list(map(str, flags))))
    return build_certificates(load_settings(given, {"HOME": "/home/ada"}), metrics, client)


def shown(metrics: Metrics, of: str) -> float:
    name = f"gatewright_certificate{of}_not_after_timestamp_seconds"
    return metrics.registry.get_sample_value(name) or 0.0


def end_of(issued: Issued) -> float:
    return issued.certificate.not_valid_after_utc.timestamp()


# --- files ---


class Files:
    """A certificate, its key and the authorities to register, as files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.signer, self.other = (
            make_ca(name, life=timedelta(days=days)) for name, days in (("a", 400), ("b", 900))
        )
        leaf = make_leaf(self.signer, [HOST])
        (directory / "tls.crt").write_bytes(leaf.certificate_pem)
        (directory / "tls.key").write_bytes(leaf.key_pem)

    def build(self, metrics: Metrics, authorities: Sequence[Issued]) -> Certificates:
        bundle = self.directory / "ca.crt"
        bundle.write_bytes(b"".join(each.certificate_pem for each in authorities))
        return build(
            metrics,
            *("--kubernetes", "true"),
            *("--tls-cert", self.directory / "tls.crt", "--tls-key", self.directory / "tls.key"),
            *("--ca-bundle", bundle),
        )


def test_of_several_authorities_the_end_of_the_signer_is_shown(tmp_path: Path) -> None:
    files, metrics = Files(tmp_path), Metrics()
    files.build(metrics, [files.other, files.signer])

    assert shown(metrics, "_authority") == end_of(files.signer)


def test_an_authority_that_is_not_known_has_no_end(tmp_path: Path) -> None:
    files, metrics = Files(tmp_path), Metrics()
    files.build(metrics, [files.other])

    assert math.isnan(shown(metrics, "_authority"))


# --- a Secret ---


@contextlib.asynccontextmanager
async def keeping(
    secrets: Secrets, directory: Path, *flags: str | Path
) -> AsyncIterator[tuple[Certificates, ServerTls]]:
    certificates = build(
        Metrics(),
        *("--kubernetes", "true", "--own-namespace", "gatewright", "--cert-secret", "certs"),
        # A look every two seconds or so.
        *("--cert-lifetime", "40s", "--cert-dir", directory, *flags),
        client=secrets,
    )
    async with background() as start, asyncio.timeout(20):
        yield certificates, await certificates.begin(start)


async def served_by(tls: ServerTls) -> x509.Certificate:
    """The certificate that a caller is shown."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=tls.context)
    port = server.sockets[0].getsockname()[1]
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with server:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
    return x509.load_der_x509_certificate(der)


def weak_pair(ca: Issued) -> Issued:
    """One that fits, and that TLS refuses: its key is too short."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(ca.certificate.subject)
        .issuer_name(ca.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    )
    return Issued(builder.sign(ca.key, hashes.SHA256()), key)


def put(secrets: Secrets, ca: Issued, leaf: Issued, labels: dict[str, str] = LABELS) -> None:
    secrets.put(
        labels,
        ca_crt=ca.certificate_pem,
        ca_key=ca.key_pem,
        tls_crt=leaf.certificate_pem,
        tls_key=leaf.key_pem,
    )


@pytest.mark.slow
async def test_a_pair_that_tls_refuses_changes_neither_certificate_nor_authorities(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Or callers would be told of an authority that has not signed what they are shown."""
    secrets = Secrets()
    mine, theirs = make_ca("mine"), make_ca("theirs")
    first = make_leaf(mine, [HOST])
    # Not ours to mend, so that it stays as it is.
    put(secrets, mine, first, labels={})
    async with keeping(secrets, tmp_path) as (certificates, tls):
        put(secrets, theirs, weak_pair(theirs), labels={})
        await become(lambda: "can't be served: ee key too small" in caplog.text)

        assert certificates.bundle.pem == mine.certificate_pem
        assert await served_by(tls) == first.certificate
        assert (tmp_path / "ca.crt").read_bytes() == mine.certificate_pem
        assert first.certificate_pem in (tmp_path / "serving.pem").read_bytes()

        # It is looked at again.
        second = make_leaf(theirs, [HOST])
        put(secrets, theirs, second, labels={})
        await become(lambda: certificates.bundle.pem == theirs.certificate_pem)

        assert await served_by(tls) == second.certificate
    assert sorted(os.listdir(tmp_path)) == ["ca.crt", "serving.pem"]


@pytest.mark.slow
@pytest.mark.parametrize("is_serving", [True, False], ids=["while-serving", "before-the-start"])
async def test_a_pair_of_ours_that_tls_refuses_is_replaced(
    tmp_path: Path, is_serving: bool
) -> None:
    secrets = Secrets()
    ca = make_ca()
    weak = weak_pair(ca)
    if not is_serving:
        put(secrets, ca, weak)
    async with keeping(secrets, tmp_path) as (certificates, tls):
        before = await served_by(tls)
        if is_serving:
            put(secrets, ca, weak)
        await become(lambda: secrets.data["tls.crt"] != weak.certificate_pem)

        assert certificates.bundle.pem == secrets.data["ca.crt"]
        assert await served_by(tls) == before
        assert before == x509.load_pem_x509_certificate(secrets.data["tls.crt"])


@pytest.mark.slow
async def test_where_a_good_pair_can_not_be_taken_over_the_authorities_stay_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = Secrets()
    mine, theirs = make_ca("mine"), make_ca("theirs")
    first, second = make_leaf(mine, [HOST]), make_leaf(theirs, [HOST])
    callers = tmp_path / "callers.crt"
    callers.write_bytes(mine.certificate_pem)
    put(secrets, mine, first, labels={})
    async with keeping(secrets, tmp_path / "certs", "--client-ca", callers) as (certificates, tls):
        with caplog.at_level(logging.ERROR, "gatewright.tls"):
            callers.write_bytes(b"no authority")
            put(secrets, theirs, second, labels={})
            await become(lambda: "has no usable certificate" in caplog.text)
        assert certificates.bundle.pem == mine.certificate_pem
        assert await served_by(tls) == first.certificate

        callers.write_bytes(mine.certificate_pem)
        await become(lambda: certificates.bundle.pem == theirs.certificate_pem)
        assert await served_by(tls) == second.certificate


def test_a_service_name_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="neither a DNS name nor an IP address"):
        build(
            Metrics(),
            *("--kubernetes", "true", "--own-namespace", "gatewright", "--cert-secret", "certs"),
            *("--cert-dir", tmp_path, "--service-name", "bad host"),
            client=Secrets(),
        )
