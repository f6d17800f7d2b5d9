"""What a Secret or a directory holds: authorities, a certificate, keys, and whether they fit."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from webhook.tls.issue import Issued, issued_at

# The names that Kubernetes and cert-manager use as well; `ca.key` is ours.
CA_CERTIFICATE, CA_KEY = "ca.crt", "ca.key"
CERTIFICATE, KEY = "tls.crt", "tls.key"
NAMES = (CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY)

_UNREADABLE = "holds a certificate that can't be read"

_SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Held:
    """
    What is of use in a Secret's data, at one time.

    *authorities* are those that have not ended, newest first. *signer* is the one that new
    certificates are signed by, with its key. *leaf* is there only if it can be served: its key
    fits, it has not ended, and one of *authorities* vouches for it. *problems* says what is not
    as it should be, and never what a key is. *leftovers*: the bundle has others as well, that
    have ended or are no authorities.
    """

    authorities: tuple[x509.Certificate, ...] = ()
    signer: Issued | None = None
    leaf: Issued | None = None
    problems: tuple[str, ...] = ()
    leftovers: bool = False

    @property
    def leaf_authority(self) -> x509.Certificate | None:
        """The one of *authorities* that signed *leaf* itself."""
        if self.leaf is None:
            return None
        return next(
            (ca for ca in self.authorities if is_issued_by(self.leaf.certificate, ca)), None
        )


def read_held(data: Mapping[str, bytes], now: datetime) -> Held:
    """What *data* (by the names above) holds *now*. Faults are told in `problems`."""
    problems: list[str] = []
    bundle = _read_chain(data, CA_CERTIFICATE, problems)
    # One that can't be read is no reason to lose the others.
    readable = [ca for ca in bundle if _is_readable(ca)]
    if len(readable) < len(bundle):
        problems.append(f"{CA_CERTIFICATE} {_UNREADABLE}")
    authorities = _choose_authorities(readable, now, problems)
    signer = _read_signer(data, authorities, problems)
    leaf = _read_leaf(data, authorities, now, problems)
    return Held(authorities, signer, leaf, tuple(problems), len(authorities) < len(bundle))


def secret_data(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """The values of a Secret; one that is no base64 is as good as none."""
    found = {}
    for name, text in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(text, validate=True)
        except (ValueError, TypeError):
            found[name] = b""
    return found


def bundle_pem(authorities: Iterable[x509.Certificate]) -> bytes:
    """*authorities* as one text in PEM."""
    return b"".join(ca.public_bytes(serialization.Encoding.PEM) for ca in authorities)


def read_certificates(text: bytes) -> Sequence[x509.Certificate]:
    """
    The certificates in *text* (PEM); a key in it is passed over.

    Raises:
        ValueError: there is none, or one can't be read.
    """
    found = _load(text)
    if not all(map(_is_readable, found)):
        raise ValueError(_UNREADABLE)
    return found


def _load(text: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        raise ValueError("holds no certificate in PEM format") from None


def _is_readable(certificate: x509.Certificate) -> bool:
    """
    Whether all that we ask of it can be told. The library reads a part when it is asked for, and
    so fails late: at a curve that it doesn't know, or at an extension that is no such thing.
    """
    try:
        certificate.public_key()
        certificate.extensions  # noqa: B018  # reads them
        certificate.subject.rfc4514_string()
        certificate.issuer.rfc4514_string()
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ):
        return False
    return True


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether *authority* has signed *certificate*."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def find_voucher(
    chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    """The one of *authorities* to which the signatures lead from the first of *chain*."""
    current, *between = chain
    while True:
        if current in authorities:
            return current
        if found := next((ca for ca in authorities if is_issued_by(current, ca)), None):
            return found
        above = next((each for each in between if is_issued_by(current, each)), None)
        if above is None:
            return None
        between.remove(above)
        current = above


def _choose_authorities(
    found: Sequence[x509.Certificate], now: datetime, problems: list[str]
) -> tuple[x509.Certificate, ...]:
    authorities = [ca for ca in found if _is_authority(ca)]
    if len(authorities) < len(found):
        problems.append(f"{CA_CERTIFICATE} holds a certificate that is no authority's")
    lasting = [ca for ca in authorities if now < ca.not_valid_after_utc]
    if authorities and not lasting:
        last = max(ca.not_valid_after_utc for ca in authorities)
        problems.append(f"the authority in {CA_CERTIFICATE} ended on {last:%F %T}Z")
    problems += [
        f"an authority in {CA_CERTIFICATE} begins on {ca.not_valid_before_utc:%F %T}Z only; do the"
        " machines' clocks agree?"
        for ca in lasting
        if now < ca.not_valid_before_utc
    ]
    return tuple(sorted(dict.fromkeys(lasting), key=issued_at, reverse=True))


def _read_signer(
    data: Mapping[str, bytes], authorities: Sequence[x509.Certificate], problems: list[str]
) -> Issued | None:
    key = _read_key(data, CA_KEY, problems)
    if key is None:
        return None
    if not isinstance(key, _SigningKey):
        problems.append(f"{CA_KEY} is neither an EC nor an RSA key")
        return None
    public = key.public_key()
    for ca in authorities:
        if ca.public_key() == public:
            return Issued(ca, key)
    if authorities:
        problems.append(f"{CA_KEY} fits no authority in {CA_CERTIFICATE}")
    return None


def _read_leaf(
    data: Mapping[str, bytes],
    authorities: Sequence[x509.Certificate],
    now: datetime,
    problems: list[str],
) -> Issued | None:
    chain = _read_chain(data, CERTIFICATE, problems)
    key = _read_key(data, KEY, problems)
    if not chain or key is None:
        return None
    if not all(map(_is_readable, chain)):
        problems.append(f"{CERTIFICATE} {_UNREADABLE}")
        return None
    leaf = chain[0]
    faults = []
    if not isinstance(key, _SigningKey):
        faults.append(f"{KEY} is neither an EC nor an RSA key")
    elif key.public_key() != leaf.public_key():
        faults.append(f"{KEY} does not fit {CERTIFICATE}")
    if leaf.not_valid_after_utc <= now:
        faults.append(
            f"the certificate in {CERTIFICATE} ended on {leaf.not_valid_after_utc:%F %T}Z"
        )
    if authorities and find_voucher(chain, authorities) is None:
        faults.append(f"{CERTIFICATE} is signed by no authority in {CA_CERTIFICATE}")
    problems += faults
    if now < leaf.not_valid_before_utc:
        # Nothing that we could mend: who made it has another clock, and would mend it back.
        problems.append(
            f"the certificate in {CERTIFICATE} begins on {leaf.not_valid_before_utc:%F %T}Z only;"
            " do the machines' clocks agree?"
        )
    if faults or not authorities or not isinstance(key, _SigningKey):
        return None
    return Issued(leaf, key)


def _read_chain(
    data: Mapping[str, bytes], name: str, problems: list[str]
) -> Sequence[x509.Certificate]:
    if not data.get(name):
        problems.append(f"{name} is missing")
        return ()
    try:
        return _load(data[name])
    except ValueError as error:
        problems.append(f"{name} {error}")
        return ()


def _read_key(data: Mapping[str, bytes], name: str, problems: list[str]) -> object:
    if not data.get(name):
        problems.append(f"{name} is missing")
        return None
    try:
        return serialization.load_pem_private_key(data[name], password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's own text may quote what it has read.
        problems.append(f"{name} holds no private key in PEM format, or one with a password")
        return None


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return found.value.ca
