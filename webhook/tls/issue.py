"""Make certificates: an authority, and leaves for servers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
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

# RFC 1123, with the wildcard of RFC 6125. What else a certificate can carry nobody asks for, and
# with a number at the end it is a mistyped address.
_HOST = re.compile(
    r"(?=.{1,253}\Z)(?!(?:.*\.)?[0-9]+\Z)(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*"
    r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?",
    re.ASCII | re.IGNORECASE,
)


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
    builder = (
        _builder(_name(common_name), ca.certificate.subject, key.public_key(), now, life)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(_authority_key_identifier(ca.certificate), critical=False)
    )
    return Issued(builder.sign(ca.key, hashes.SHA256()), key)


def issued_at(certificate: x509.Certificate) -> datetime:
    """
    When *certificate* was made, as far as its own times tell: those made here are backdated.

    Of one made elsewhere this is up to an hour late, which is little of a life of days.
    """
    start = certificate.not_valid_before_utc
    return start + min(BACKDATED, (certificate.not_valid_after_utc - start) / 2)


def renewal_time(certificate: x509.Certificate) -> datetime:
    """When 2/3 of the certificate's life are over."""
    start = issued_at(certificate)
    return start + (certificate.not_valid_after_utc - start) * RENEW_AFTER


def certificate_hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and IP addresses that *certificate* is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def normal_host(host: str) -> str:
    """One spelling per host: addresses as Python writes them, names in lower case."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def check_hosts(hosts: Sequence[str]) -> None:
    """
    Pass if a certificate can be for all of *hosts*.

    Raises:
        ValueError: one is neither a DNS name nor an IP address.
    """
    for host in hosts:
        _general_name(host)


def is_host(host: str) -> bool:
    """Whether a certificate can be for *host*."""
    try:
        check_hosts([host])
    except ValueError:
        return False
    return True


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
        # No more than it lives, or two thirds of its life would be over when it is made.
        .not_valid_before(now - min(BACKDATED, life))
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _authority_key_identifier(ca: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        found = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        # An authority that somebody else has made.
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())  # type: ignore[arg-type]  # those that sign
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found.value)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is neither a DNS name nor an IP address")
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
