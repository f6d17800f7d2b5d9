"""`gatewright certs`: make certificates in a directory, look at them, replace them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from webhook.errors import CertificateError, ManifestError
from webhook.model.files import load_bytes, read_whole
from webhook.model.manifests import load_documents
from webhook.tls.directory import (
    DEVELOPMENT_HOSTS,
    authority_life,
    life_of,
    make_certificates,
    read_directory,
    rotate_certificates,
)
from webhook.tls.held import (
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE,
    KEY,
    NAMES,
    is_issued_by,
    read_certificates,
    read_held,
    secret_data,
)
from webhook.tls.issue import certificate_hosts, normal_host, renewal_time
from webhook.tls.rotation import Forced, Lifetimes, Step

NAME = "certs"
HELP = "certificates in a directory: make, inspect, rotate"
_DESCRIPTION = """
Makes, shows and replaces the certificates of a server in a directory, for where neither the server
nor cert-manager looks after them. No cluster is asked. COMMAND --help says more of each.
"""
_MAKE = """
Makes an authority and a certificate for a server: ca.crt, ca.key, tls.crt and tls.key. A set that
is there, good and for these hosts stays, whatever --days says; one that was made here is mended,
and stays for the hosts that it was for. For fewer hosts, or another life, name another directory.
Files from elsewhere, with no ca.key beside them, are never written. Exit code: 0, or 2 if that
can't be done.
"""
_INSPECT = """
Shows certificates, and says what is wrong with them; never a key. FILE holds certificates in PEM,
or a Secret (as kubectl get -o yaml prints it); - is standard input, and a directory is as with
--dir. Exit code: 0, all is well; 1, something is wrong or due; 2, there is nothing to look at.
"""
_ROTATE = """
Replaces tls.crt and tls.key, signed by the authority in the directory, for the same hosts and as
long. An authority that is due, or with --authority, gets a successor first: both are in ca.crt
then, and the next rotate signs with the new one. Exit code: 0, or 2 if that can't be done.
"""
_MAX_DAYS = 3650
_DAYS = 365
_KEYS = (CA_KEY, KEY)
_TIME = "%Y-%m-%d %H:%M:%SZ"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    make = commands.add_parser(
        "make", help="make an authority and a certificate", description=_MAKE
    )
    _add_directory(make, "where they go; it is made where it is not there")
    make.add_argument(
        "--host",
        metavar="NAME",
        dest="hosts",
        action="append",
        help="a DNS name or an IP address that the certificate is for; may be repeated, and is"
        f" added to those of one that is there (default: {', '.join(DEVELOPMENT_HOSTS)})",
    )
    make.add_argument(
        "--days",
        metavar="N",
        type=_days,
        help="how long a certificate lives that is made; its authority lives twice as long"
        f" (default {_DAYS})",
    )
    make.set_defaults(run=_run_make)

    inspect = commands.add_parser("inspect", help="show certificates", description=_INSPECT)
    source = inspect.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--dir",
        metavar="DIR",
        dest="directory",
        type=Path,
        help="a set of certificates, which has to fit together",
    )
    source.add_argument(
        "file", metavar="FILE", nargs="?", help="certificates in PEM, or a Secret; - reads stdin"
    )
    inspect.set_defaults(run=_run_inspect)

    rotate = commands.add_parser("rotate", help="replace a certificate", description=_ROTATE)
    _add_directory(rotate, "where they are, with the key of their authority")
    rotate.add_argument(
        "--authority", action="store_true", help="replace the authority although it is not due"
    )
    rotate.set_defaults(run=_run_rotate)


def _add_directory(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--dir", metavar="DIR", dest="directory", type=Path, required=True, help=what
    )


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MAX_DAYS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_MAX_DAYS}")
    return int(text)


# --- make and rotate ---


def _run_make(args: argparse.Namespace) -> int:
    leaf = timedelta(days=args.days or _DAYS)
    lifetimes = Lifetimes(leaf, authority_life(leaf))
    hosts = args.hosts or DEVELOPMENT_HOSTS
    step = _written(args.directory, lambda: make_certificates(args.directory, hosts, lifetimes))
    _tell(args.directory, step)
    for note in _differences(args.directory, hosts, args.days):
        print(f"note: {note}")
    return 0


def _differences(directory: Path, hosts: Sequence[str], days: int | None) -> Iterator[str]:
    """In what the set in *directory* is other than it was asked for: it was there before."""
    leaf = read_held(_read_directory(directory), datetime.now(UTC)).leaf
    if leaf is None:
        return
    wanted = set(map(normal_host, hosts))
    others = [host for host in certificate_hosts(leaf.certificate) if host not in wanted]
    if others:
        yield f"the certificate is for {', '.join(others)} as well, as it was before"
    life = life_of(leaf)
    # One that was signed by an authority near its end is shorter.
    if days is not None and round(life / timedelta(days=1)) != days:
        yield f"the certificate lives for {life / timedelta(days=1):.0f} days, as it was made"


def _run_rotate(args: argparse.Namespace) -> int:
    force = Forced.AUTHORITY if args.authority else Forced.LEAF
    step = _written(args.directory, lambda: rotate_certificates(args.directory, force=force))
    _tell(args.directory, step)
    if step.new_authority:
        print(
            f"give callers {args.directory / CA_CERTIFICATE}, then rotate once more:"
            " the new authority signs from then on"
        )
    return 0


def _written(directory: Path, work: Callable[[], Step]) -> Step:
    try:
        return work()
    except ValueError as error:
        raise CertificateError(f"no certificate can be made: {error}") from None
    except OSError as error:
        raise CertificateError(f"{directory}: {error.strerror or error}") from None


def _tell(directory: Path, step: Step) -> None:
    for why in step.why or ("kept as it is",):
        print(why)
    for name in (CA_CERTIFICATE, CERTIFICATE, KEY):
        print(directory / name)
    print(f"next renewal: {step.again.strftime(_TIME)}")


# --- inspect ---


def _run_inspect(args: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    directory = args.directory
    if directory is None and args.file != "-" and Path(args.file).is_dir():
        directory = Path(args.file)
    if directory is not None:
        source = str(directory)
        data, is_set = _read_directory(directory), True
    else:
        source = "standard input" if args.file == "-" else args.file
        data, is_set = _read_text(_read_file(args.file), source)
    if not any(name not in _KEYS for name in data):
        raise CertificateError(f"{source} holds no certificates")

    problems = []
    for name, text in data.items():
        if name in _KEYS:
            continue
        try:
            certificates = read_certificates(text)
        except ValueError as error:
            problems.append(f"{name} {error}")
            continue
        for certificate in certificates:
            problems += list(_show(name, certificate, data, now))
    if is_set:
        problems += list(_check_set(data, now))
    for problem in dict.fromkeys(problems):
        print(f"problem: {problem}")
    return 1 if problems else 0


def _show(
    name: str, certificate: x509.Certificate, data: Mapping[str, bytes], now: datetime
) -> Iterator[str]:
    """Print one certificate, and yield what is wrong with it by itself."""
    due = renewal_time(certificate)
    rows = {
        "subject": certificate.subject.rfc4514_string() or "(none)",
        "issuer": certificate.issuer.rfc4514_string(),
        "hosts": ", ".join(certificate_hosts(certificate)),
        "serial": f"{certificate.serial_number:x}",
        "not before": certificate.not_valid_before_utc.strftime(_TIME),
        "not after": certificate.not_valid_after_utc.strftime(_TIME),
        "renewal": f"{due.strftime(_TIME)} ({_distance(due - now)})",
    }
    print(f"{name}:")
    for row, text in rows.items():
        if text:
            print(f"  {row:<10}  {text}")
    if certificate.not_valid_after_utc <= now:
        yield f"{name} ended on {certificate.not_valid_after_utc.strftime(_TIME)}"
    elif now < certificate.not_valid_before_utc:
        yield f"{name} begins on {certificate.not_valid_before_utc.strftime(_TIME)} only"
    elif due <= now and not _has_successor(certificate, data, now):
        yield f"{name} is due to be renewed since {due.strftime(_TIME)}"


def _has_successor(certificate: x509.Certificate, data: Mapping[str, bytes], now: datetime) -> bool:
    """Whether it is an authority beside which there is a newer one already."""
    return certificate in read_held(data, now).authorities[1:]


def _check_set(data: Mapping[str, bytes], now: datetime) -> Iterator[str]:
    """Print what fits together, and yield what doesn't."""
    held = read_held(data, now)
    if held.leaf is not None:
        ca = held.leaf_authority
        print(f"{KEY} fits {CERTIFICATE}")
        print(f"{CERTIFICATE} is signed by {'a chain to ' if ca is None else ''}{CA_CERTIFICATE}")
    # The key of an authority need not be here; without a server's key there is no pair to check.
    optional = {name for name in (CA_KEY, KEY) if name not in data}
    for problem in held.problems:
        is_shown = " ended on " in problem or " begins on " in problem
        if not is_shown and problem not in {f"{name} is missing" for name in optional}:
            yield problem
    if KEY not in data and CERTIFICATE in data and CA_CERTIFICATE in data:
        yield from _check_signature(data)


def _check_signature(data: Mapping[str, bytes]) -> Iterator[str]:
    try:
        leaf, bundle = (read_certificates(data[name]) for name in (CERTIFICATE, CA_CERTIFICATE))
    except ValueError:
        return
    if not any(is_issued_by(leaf[0], ca) for ca in bundle):
        yield f"{CERTIFICATE} is signed by no authority in {CA_CERTIFICATE}"


def _read_directory(directory: Path) -> dict[str, bytes]:
    if not directory.is_dir():
        raise CertificateError(f"{directory} is no directory")
    try:
        return read_directory(directory)
    except OSError as error:
        raise CertificateError(f"{error.filename}: {error.strerror}") from None


def _read_file(name: str) -> bytes:
    try:
        return read_whole(sys.stdin.buffer, name) if name == "-" else load_bytes(Path(name))
    except OSError as error:
        raise CertificateError(f"{name}: {error.strerror or error}") from None


def _read_text(text: bytes, source: str) -> tuple[dict[str, bytes], bool]:
    """
    What *text* holds: certificates under the name of *source*, or the data of a Secret. That is
    True for the latter: it has to fit together.
    """
    if b"-----BEGIN CERTIFICATE-----" in text:
        return {Path(source).name: text}, False
    try:
        documents: Sequence[object] = [each.value for each in load_documents(text, source)]
    except ManifestError:
        documents = ()
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "Secret":
            data = secret_data(document)
            return {name: data[name] for name in NAMES if data.get(name)}, True
    raise CertificateError(f"{source} holds neither certificates in PEM format nor a Secret")


def _distance(left: timedelta) -> str:
    seconds = abs(int(left.total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            text = f"{seconds // size} {unit}"
            break
    else:
        text = f"{seconds} s"
    return f"{text} ago" if left < timedelta() else f"in {text}"
