"""Certificates in a directory: those of a laptop, and those that `gatewright certs` makes."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from webhook.errors import CertificateError
from webhook.model.files import load_bytes
from webhook.tls.held import (
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE,
    KEY,
    NAMES,
    is_issued_by,
    read_held,
)
from webhook.tls.issue import (
    Issued,
    certificate_hosts,
    is_host,
    issued_at,
    make_ca,
    make_leaf,
    normal_host,
    renewal_time,
)
from webhook.tls.rotation import Forced, Lifetimes, Step, next_step

DEVELOPMENT_HOSTS = ("localhost", "127.0.0.1", "::1")

_KEYS = (CA_KEY, KEY)


@dataclass(frozen=True, slots=True)
class CertificatePaths:
    """Where a server's files are: the authority to trust, the certificate, its key."""

    ca: Path
    certificate: Path
    key: Path


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
        ValueError: a host is no name that a certificate can carry.
    """
    now = now or datetime.now(UTC)
    paths = CertificatePaths(directory / CA_CERTIFICATE, directory / CERTIFICATE, directory / KEY)
    with _locked(directory):
        leaf = _read_development_leaf(paths, now)
        present = certificate_hosts(leaf.certificate) if leaf else ()
        wanted = tuple(map(normal_host, hosts))
        if leaf and set(wanted) <= set(present) and now < renewal_time(leaf.certificate):
            return paths
        ca = make_ca("gatewright development CA", now=now)
        made = make_leaf(ca, [*wanted, *filter(is_host, present)], now=now)
        _write(
            directory,
            {
                CA_CERTIFICATE: ca.certificate_pem,
                KEY: made.key_pem,
                CERTIFICATE: made.certificate_pem,
            },
        )
    return paths


def make_certificates(
    directory: Path, hosts: Sequence[str], lifetimes: Lifetimes, *, now: datetime | None = None
) -> Step:
    """
    Have an authority and a certificate for *hosts* in *directory*; a set that is good stays.

    Unlike those of a laptop they come with the authority's key, so that they can be renewed
    without telling callers.

    Raises:
        CertificateError: files are there that were not made here, and can't be used as they are.
        OSError: *directory* cannot be made or written.
        ValueError: a host is no name that a certificate can carry.
    """
    now = now or datetime.now(UTC)
    with _locked(directory):
        data = read_directory(directory)
        held = read_held(data, now)
        if data and CA_KEY not in data:
            due = _due(held.leaf, hosts)
            if now >= due:
                raise _foreign(directory)
            return Step(None, (), due)
        step = next_step(held, now, lifetimes, hosts)
        if step.data is not None:
            _write(directory, step.data)
    return step


def rotate_certificates(
    directory: Path, *, force: Forced = Forced.LEAF, now: datetime | None = None
) -> Step:
    """
    Replace what *force* says in *directory*, and whatever is due. Hosts and lifetimes stay.

    Raises:
        CertificateError: there is no certificate, or not the key of its authority.
        OSError: *directory* cannot be read or written.
    """
    now = now or datetime.now(UTC)
    if not directory.is_dir():
        raise CertificateError(f"{directory} is no directory")
    with _locked(directory):
        data = read_directory(directory)
        if CA_KEY not in data:
            raise _foreign(directory)
        held = read_held(data, now)
        if held.leaf is None or held.signer is None:
            problems = "; ".join(held.problems)
            raise CertificateError(
                f"{directory}: {problems}; make them anew: gatewright certs make"
            )
        hosts = certificate_hosts(held.leaf.certificate)
        step = next_step(held, now, _lifetimes(held.leaf, held.signer), hosts, force=force)
        if step.data is not None:
            _write(directory, step.data)
    return step


def read_directory(directory: Path) -> dict[str, bytes]:
    """
    The files of certificates and keys that are in *directory*, by their names.

    Raises:
        OSError: one can't be read.
    """
    found = {}
    for name in NAMES:
        try:
            found[name] = load_bytes(directory / name)
        except FileNotFoundError:
            continue
    return found


def authority_life(leaf: timedelta) -> timedelta:
    """How long the authority lives that is made with a certificate that lives for *leaf*."""
    return 2 * leaf


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """
    Put *content* at *path*, in one step for whoever reads it.

    Raises:
        OSError: that can't be done; what was there is still there.
    """
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


def _read_development_leaf(paths: CertificatePaths, now: datetime) -> Issued | None:
    """The certificate of *paths*, or None unless all three files are good and fit together."""
    try:
        held = read_held(read_directory(paths.ca.parent), now)
        is_private = paths.key.stat().st_mode & 0o077 == 0
    except OSError:
        return None
    leaf = held.leaf
    if leaf is None or not is_private or now < leaf.certificate.not_valid_before_utc:
        return None
    return leaf


def _write(directory: Path, data: Mapping[str, bytes]) -> None:
    # The authority's key first: it tells that the set was made here, so whatever is missing after
    # an end in between can be made anew. Then authorities: callers know them before they meet
    # what those have signed. Then the key: a server that looks in between finds a pair that does
    # not match, keeps what it has, and looks again.
    for name in (CA_KEY, CA_CERTIFICATE, KEY, CERTIFICATE):
        if name in data:
            mode = 0o600 if name in _KEYS else 0o644
            replace_file(directory / name, data[name], mode=mode)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    # One that is there already is left as it is: it may be shared. The keys are not, anyway.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A lock that the kernel drops with the process, so that a crash leaves none behind.
    with (directory / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _due(leaf: Issued | None, hosts: Sequence[str]) -> datetime:
    """When *leaf* has to be replaced: long ago, if it is not for all of *hosts*."""
    present = set(map(normal_host, certificate_hosts(leaf.certificate))) if leaf else set()
    if leaf is None or not set(map(normal_host, hosts)) <= present:
        return datetime.min.replace(tzinfo=UTC)
    return renewal_time(leaf.certificate)


def _lifetimes(leaf: Issued, signer: Issued) -> Lifetimes:
    """Those that *leaf* and *signer* were made with."""
    authority = life_of(signer)
    # A leaf that ends when its authority does was cut short.
    lasts = leaf.certificate.not_valid_after_utc < signer.certificate.not_valid_after_utc
    is_whole = lasts and is_issued_by(leaf.certificate, signer.certificate)
    return Lifetimes(life_of(leaf) if is_whole else authority / 2, authority)


def life_of(issued: Issued) -> timedelta:
    """How long it was made for."""
    return issued.certificate.not_valid_after_utc - issued_at(issued.certificate)


def _foreign(directory: Path) -> CertificateError:
    return CertificateError(
        f"{directory} holds no {CA_KEY}, so its certificates are not from gatewright certs make and"
        " are left as they are; name another directory"
    )
