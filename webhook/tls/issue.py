"""Make certificates: an authority, and leaves for servers."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks of a cluster's machines differ; a certificate from the future is refused.
BACKDATED = timedelta(hours=1)

# Apple's libraries refuse a leaf of more than 398 days.
LEAF_LIFE = timedelta(days=365)
# A day more, so that no leaf outlives its authority.
CA_LIFE = LEAF_LIFE + timedelta(days=1)

# Users of other webhooks ask for 2/3: a third of the life is left to notice that it failed.
RENEW_AFTER = 2 / 3

DEVELOPMENT_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: CertificateIssuerPrivateKeyTypes

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


@dataclass(frozen=True, slots=True)
class CertificatePaths:
    """Where a server's files are: the authority to trust, the certificate, its key."""

    ca: Path
    certificate: Path
    key: Path


def make_ca(
    common_name: str = "gatewright-ca", *, life: timedelta = CA_LIFE, now: datetime | None = None
) -> Issued:
    """A self-signed authority (ECDSA P-256) that may sign leaves and nothing below them."""
    now = now or datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    builder = (
        _builder(name, name, key.public_key(), now, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
    )
    return Issued(builder.sign(key, hashes.SHA256()), key)


def make_leaf(
    ca: Issued,
    hosts: Sequence[str],
    *,
    common_name: str = "gatewright",
    life: timedelta = LEAF_LIFE,
    is_client: bool = False,
    now: datetime | None = None,
) -> Issued:
    """
    A certificate (ECDSA P-256) for *hosts*: DNS names and IP addresses.

    It identifies a server, or a caller of one if *is_client*. It never outlives *ca*.

    Raises:
        ValueError: *hosts* is empty, or one is no name that a certificate can carry.
    """
    if not hosts:
        raise ValueError("a certificate needs at least one host")
    now = now or datetime.now(UTC)
    life = min(life, ca.certificate.not_valid_after_utc - now)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
    subject_key_id = ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    builder = (
        _builder(_name(common_name), ca.certificate.subject, key.public_key(), now, life)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_key_id.value),
            critical=False,
        )
    )
    return Issued(builder.sign(ca.key, hashes.SHA256()), key)


def ensure_development_certificate(
    directory: Path, hosts: Sequence[str] = DEVELOPMENT_HOSTS, *, now: datetime | None = None
) -> CertificatePaths:
    """
    A certificate for *hosts* in *directory*, made unless a good one is there.

    `ca.crt`, `tls.crt` and `tls.key` are always made together. The authority's key is never
    written: whoever trusts `ca.crt` must not fear that somebody signs with it later, and a new
    authority costs no more than a new leaf. The set is made anew after 2/3 of its life, and
    when a file is missing, broken, or does not fit the others. Hosts that it already had stay.

    Raises:
        OSError: *directory* cannot be made or written.
    """
    now = now or datetime.now(UTC)
    paths = CertificatePaths(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
    # One that is there already is left as it is: it may be shared. The key is not, anyway.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(directory / ".lock"):
        leaf = _read_set(paths, now)
        present = certificate_hosts(leaf) if leaf else ()
        if leaf and set(map(_normal, hosts)) <= set(present) and now < renewal_time(leaf):
            return paths

        ca = make_ca("gatewright development CA", now=now)
        made = make_leaf(ca, [*map(_normal, hosts), *present], now=now)
        # The key first: a server that looks in between finds a pair that does not match, keeps
        # what it has, and looks again.
        _replace(paths.key, made.key_pem, mode=0o600)
        _replace(paths.certificate, made.certificate_pem, mode=0o644)
        _replace(paths.ca, ca.certificate_pem, mode=0o644)
    return paths


def renewal_time(certificate: x509.Certificate) -> datetime:
    """When 2/3 of the certificate's life are over."""
    start = certificate.not_valid_before_utc
    return start + (certificate.not_valid_after_utc - start) * RENEW_AFTER


def certificate_hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and IP addresses that *certificate* is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def _read_set(paths: CertificatePaths, now: datetime) -> x509.Certificate | None:
    """The certificate of *paths*, or None unless all three files are good and fit together."""
    try:
        ca = x509.load_pem_x509_certificate(paths.ca.read_bytes())
        leaf = x509.load_pem_x509_certificate(paths.certificate.read_bytes())
        key = serialization.load_pem_private_key(paths.key.read_bytes(), password=None)
        leaf.verify_directly_issued_by(ca)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return None
    is_private = paths.key.stat().st_mode & 0o077 == 0
    in_time = leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc
    return leaf if is_private and in_time and key.public_key() == leaf.public_key() else None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # A lock that the kernel drops with the process, so that a crash leaves none behind.
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _replace(path: Path, content: bytes, *, mode: int) -> None:
    # mkstemp makes it readable by the owner alone from the start.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _normal(host: str) -> str:
    """One spelling per host: addresses as Python writes them, names in lower case."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
