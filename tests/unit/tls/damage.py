"""Certificates that parse, and at which the library fails when it is asked for their parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.tls.issue import Issued

# Object identifiers in DER: P-256, and a curve that the library doesn't know.
_P256 = bytes.fromhex("06082a8648ce3d030107")
_P239 = bytes.fromhex("06082a8648ce3d030106")
# Of two extensions that nobody knows.
_ONE, _OTHER = x509.ObjectIdentifier("1.2.3.4.5"), x509.ObjectIdentifier("1.2.3.4.6")


def on_unknown_curve(issued: Issued, _signer: Issued) -> Issued:
    return _patched(issued, _P256, _P239)


def with_an_extension_twice(issued: Issued, signer: Issued) -> Issued:
    found = _built(issued, signer, _ONE, _OTHER)
    return _patched(found, b"\x06\x04\x2a\x03\x04\x06", b"\x06\x04\x2a\x03\x04\x05")


def with_a_malformed_name(issued: Issued, signer: Issued) -> Issued:
    return _built(issued, signer, x509.SubjectAlternativeName.oid)


DAMAGES: list[Callable[[Issued, Issued], Issued]] = [
    on_unknown_curve,
    with_an_extension_twice,
    with_a_malformed_name,
]


def twin_of(ca: Issued) -> Issued:
    """An authority of the same name, key and times."""
    return _built(ca, ca)


def _built(issued: Issued, signer: Issued, *broken: x509.ObjectIdentifier) -> Issued:
    """*issued* once more, signed by *signer*, with extensions that hold nothing of their kind."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(issued.certificate.subject)
        .issuer_name(signer.certificate.subject)
        .public_key(issued.certificate.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issued.certificate.not_valid_before_utc)
        .not_valid_after(issued.certificate.not_valid_after_utc)
    )
    for extension in issued.certificate.extensions:
        if extension.oid not in broken:
            builder = builder.add_extension(extension.value, extension.critical)
    for oid in broken:
        builder = builder.add_extension(x509.UnrecognizedExtension(oid, b"\x01"), critical=False)
    return Issued(builder.sign(signer.key, hashes.SHA256()), issued.key)


def _patched(issued: Issued, old: bytes, new: bytes) -> Issued:
    der = issued.certificate.public_bytes(Encoding.DER)
    assert old in der
    return dataclasses.replace(
        issued, certificate=x509.load_der_x509_certificate(der.replace(old, new))
    )
