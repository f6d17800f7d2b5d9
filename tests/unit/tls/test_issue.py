from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from webhook.tls.issue import (
    CertificatePaths,
    certificate_hosts,
    ensure_development_certificate,
    make_ca,
    make_leaf,
    renewal_time,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def contents(paths: CertificatePaths) -> tuple[bytes, bytes, bytes]:
    return paths.ca.read_bytes(), paths.certificate.read_bytes(), paths.key.read_bytes()


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("webhook.gatewright.svc", x509.DNSName("webhook.gatewright.svc")),
        ("127.0.0.1", x509.IPAddress(ip_address("127.0.0.1"))),
        ("::1", x509.IPAddress(ip_address("::1"))),
    ],
)
def test_a_leaf_is_accepted_by_a_strict_verifier_that_trusts_the_ca(
    host: str, name: x509.DNSName | x509.IPAddress
) -> None:
    ca = make_ca(now=NOW)
    leaf = make_leaf(ca, [host], now=NOW)

    verifier = PolicyBuilder().store(Store([ca.certificate])).time(NOW).build_server_verifier(name)

    assert verifier.verify(leaf.certificate, []) == [leaf.certificate, ca.certificate]


def test_both_are_valid_an_hour_before_they_are_made() -> None:
    ca = make_ca(now=NOW)
    leaf = make_leaf(ca, ["localhost"], now=NOW)

    for issued in (ca, leaf):
        assert issued.certificate.not_valid_before_utc == NOW - timedelta(hours=1)


def test_a_leaf_never_outlives_its_ca() -> None:
    ca = make_ca(life=timedelta(days=10), now=NOW)

    leaf = make_leaf(ca, ["localhost"], life=timedelta(days=365), now=NOW)

    assert leaf.certificate.not_valid_after_utc == ca.certificate.not_valid_after_utc


def test_a_ca_may_sign_leaves_and_no_further_authorities() -> None:
    extensions = make_ca().certificate.extensions

    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    assert usage.value.key_cert_sign
    assert not usage.value.digital_signature


def test_a_leaf_may_serve_and_nothing_else() -> None:
    extensions = make_leaf(make_ca(), ["localhost"]).certificate.extensions

    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    extended = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert usage.digital_signature
    assert not usage.key_cert_sign
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_keys_are_p256_and_serial_numbers_differ() -> None:
    ca = make_ca()
    leaves = [make_leaf(ca, ["localhost"]) for _ in range(2)]

    for issued in (ca, *leaves):
        key = issued.certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"
    assert len({issued.certificate.serial_number for issued in (ca, *leaves)}) == 3


def test_a_certificate_for_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one host"):
        make_leaf(make_ca(), [])


def test_names_and_addresses_are_told_apart() -> None:
    leaf = make_leaf(make_ca(), ["b.example", "10.0.0.1", "a.example", "::1", "b.example"])

    assert certificate_hosts(leaf.certificate) == ("b.example", "a.example", "10.0.0.1", "::1")


def test_renewal_is_due_after_two_thirds_of_the_life() -> None:
    leaf = make_leaf(make_ca(now=NOW), ["localhost"], life=timedelta(days=30), now=NOW)

    due = renewal_time(leaf.certificate)

    assert due == NOW - timedelta(hours=1) + timedelta(days=30, hours=1) * 2 / 3


# --- the development certificate ---


def test_a_development_certificate_is_for_this_machine(tmp_path: Path) -> None:
    paths = ensure_development_certificate(tmp_path / "certs")

    leaf = load(paths.certificate)
    leaf.verify_directly_issued_by(load(paths.ca))
    assert set(certificate_hosts(leaf)) == {"localhost", "127.0.0.1", "::1"}


def test_the_key_is_for_the_owner_alone_and_the_authoritys_is_not_kept(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "certs"

    paths = ensure_development_certificate(directory)

    assert directory.stat().st_mode & 0o777 == 0o700
    assert paths.key.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in directory.iterdir()} == {".lock", "ca.crt", "tls.crt", "tls.key"}
    assert b"PRIVATE KEY" not in paths.ca.read_bytes()


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    ensure_development_certificate(tmp_path)

    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_good_set_is_used_again(tmp_path: Path) -> None:
    first = contents(ensure_development_certificate(tmp_path, now=NOW))

    again = contents(ensure_development_certificate(tmp_path, now=NOW + timedelta(days=240)))

    assert again == first


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(timedelta(days=244), id="past-two-thirds-of-its-life"),
        pytest.param(timedelta(days=400), id="ended"),
        pytest.param(-timedelta(hours=2), id="not-yet-valid"),
    ],
)
def test_a_set_that_is_not_good_any_more_is_made_anew(tmp_path: Path, later: timedelta) -> None:
    first = contents(ensure_development_certificate(tmp_path, now=NOW))

    again = contents(ensure_development_certificate(tmp_path, now=NOW + later))

    assert not set(first) & set(again)


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"\xff\xfe"])
def test_a_set_with_a_bad_file_is_made_anew(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    ensure_development_certificate(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)

    paths = ensure_development_certificate(tmp_path)

    load(paths.certificate).verify_directly_issued_by(load(paths.ca))


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key"])
def test_files_of_two_sets_are_not_mixed(tmp_path: Path, name: str) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    ensure_development_certificate(mine)
    ensure_development_certificate(other)
    (mine / name).write_bytes((other / name).read_bytes())
    mixed = contents(CertificatePaths(mine / "ca.crt", mine / "tls.crt", mine / "tls.key"))

    paths = ensure_development_certificate(mine)

    assert not set(mixed) & set(contents(paths))


def test_a_key_that_others_may_read_is_replaced(tmp_path: Path) -> None:
    paths = ensure_development_certificate(tmp_path)
    known = paths.key.read_bytes()
    paths.key.chmod(0o644)

    paths = ensure_development_certificate(tmp_path)

    assert paths.key.read_bytes() != known
    assert paths.key.stat().st_mode & 0o777 == 0o600


def test_more_hosts_are_added_and_the_others_stay(tmp_path: Path) -> None:
    """Two servers with different addresses must not take the certificate from each other."""
    ensure_development_certificate(tmp_path, ["localhost", "10.0.0.1"])

    paths = ensure_development_certificate(tmp_path, ["localhost", "10.0.0.2"])

    assert set(certificate_hosts(load(paths.certificate))) == {"localhost", "10.0.0.1", "10.0.0.2"}
    kept = contents(paths)
    assert contents(ensure_development_certificate(tmp_path, ["10.0.0.1"])) == kept


@pytest.mark.parametrize("host", ["LOCALHOST", "0:0:0:0:0:0:0:1"])
def test_another_spelling_of_a_host_is_the_same_host(tmp_path: Path, host: str) -> None:
    first = contents(ensure_development_certificate(tmp_path))

    assert contents(ensure_development_certificate(tmp_path, [host])) == first


@pytest.mark.slow
def test_processes_that_start_together_end_with_one_set(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path;"
        "from webhook.tls.issue import ensure_development_certificate as ensure;"
        "sys.stdout.buffer.write(ensure(Path(sys.argv[1])).certificate.read_bytes())"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(3)
    ]

    seen = {process.communicate(timeout=60)[0] for process in processes}

    paths = ensure_development_certificate(tmp_path)
    assert seen == {paths.certificate.read_bytes()}


def test_a_failed_write_leaves_no_half_of_a_key(tmp_path: Path) -> None:
    (tmp_path / "tls.key").mkdir()

    with pytest.raises(OSError, match=r"tls\.key"):
        ensure_development_certificate(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {".lock", "tls.key"}
