from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from webhook.errors import CertificateError
from webhook.tls.directory import (
    CertificatePaths,
    authority_life,
    ensure_development_certificate,
    make_certificates,
    read_directory,
    rotate_certificates,
)
from webhook.tls.held import read_certificates, read_held
from webhook.tls.issue import certificate_hosts
from webhook.tls.rotation import Forced, Lifetimes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def contents(paths: CertificatePaths) -> tuple[bytes, bytes, bytes]:
    return paths.ca.read_bytes(), paths.certificate.read_bytes(), paths.key.read_bytes()


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
        "from webhook.tls.directory import ensure_development_certificate as ensure;"
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

    assert {path.name for path in tmp_path.iterdir()} == {".lock", "ca.crt", "tls.key"}


# --- what `gatewright certs` makes and rotates ---

YEAR = timedelta(days=365)
LIFETIMES = Lifetimes(YEAR, authority_life(YEAR))
HOSTS = ["gate.example", "192.0.2.10"]


def test_a_set_that_is_made_has_the_key_of_its_authority(tmp_path: Path) -> None:
    make_certificates(tmp_path / "new", HOSTS, LIFETIMES, now=NOW)

    data = read_directory(tmp_path / "new")
    held = read_held(data, NOW)
    assert set(data) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert held.leaf is not None
    assert held.signer is not None
    assert certificate_hosts(held.leaf.certificate) == tuple(HOSTS)
    assert held.problems == ()
    for name in ("ca.key", "tls.key"):
        assert (tmp_path / "new" / name).stat().st_mode & 0o777 == 0o600


def test_a_set_that_is_good_is_left_alone(tmp_path: Path) -> None:
    make_certificates(tmp_path, HOSTS, LIFETIMES, now=NOW)
    before = read_directory(tmp_path)

    step = make_certificates(tmp_path, HOSTS[:1], LIFETIMES, now=NOW + timedelta(days=1))

    assert step.data is None
    assert read_directory(tmp_path) == before


def test_another_host_gets_a_certificate_of_the_same_authority(tmp_path: Path) -> None:
    make_certificates(tmp_path, HOSTS, LIFETIMES, now=NOW)
    before = read_directory(tmp_path)

    make_certificates(tmp_path, ["other.example"], LIFETIMES, now=NOW)

    after = read_directory(tmp_path)
    assert after["ca.crt"] == before["ca.crt"]
    leaf = load(tmp_path / "tls.crt")
    assert certificate_hosts(leaf) == ("other.example", *HOSTS)


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key"])
def test_a_set_of_our_own_that_is_broken_is_mended(tmp_path: Path, name: str) -> None:
    make_certificates(tmp_path, HOSTS, LIFETIMES, now=NOW)
    (tmp_path / name).write_bytes(b"broken")

    make_certificates(tmp_path, HOSTS, LIFETIMES, now=NOW)

    assert read_held(read_directory(tmp_path), NOW).problems == ()


@pytest.mark.parametrize(
    ("hosts", "later"),
    [
        pytest.param(["other.example"], timedelta(0), id="another-host"),
        pytest.param(["localhost"], timedelta(days=300), id="due"),
    ],
)
def test_files_of_somebody_else_are_never_written(
    tmp_path: Path, hosts: list[str], later: timedelta
) -> None:
    ensure_development_certificate(tmp_path, now=NOW)
    before = read_directory(tmp_path)

    with pytest.raises(CertificateError, match="left as they are"):
        make_certificates(tmp_path, hosts, LIFETIMES, now=NOW + later)
    with pytest.raises(CertificateError, match="left as they are"):
        rotate_certificates(tmp_path, now=NOW)

    assert read_directory(tmp_path) == before


def test_files_of_somebody_else_that_do_are_accepted(tmp_path: Path) -> None:
    ensure_development_certificate(tmp_path, now=NOW)

    assert make_certificates(tmp_path, ["localhost"], LIFETIMES, now=NOW).data is None


def test_rotating_gives_a_new_certificate_of_the_same_authority(tmp_path: Path) -> None:
    make_certificates(tmp_path, HOSTS, LIFETIMES, now=NOW)
    before, ca = load(tmp_path / "tls.crt"), (tmp_path / "ca.crt").read_bytes()

    rotate_certificates(tmp_path, now=NOW + timedelta(days=1))

    after = load(tmp_path / "tls.crt")
    assert after.serial_number != before.serial_number
    assert certificate_hosts(after) == tuple(HOSTS)
    assert after.not_valid_after_utc == before.not_valid_after_utc + timedelta(days=1)
    assert (tmp_path / "ca.crt").read_bytes() == ca


def test_an_authority_is_replaced_in_two_steps(tmp_path: Path) -> None:
    """Callers are given `ca.crt` in between: whatever is served, they know who signed it."""
    make_certificates(tmp_path, HOSTS, LIFETIMES, now=NOW)
    (old,) = read_certificates((tmp_path / "ca.crt").read_bytes())

    rotate_certificates(tmp_path, force=Forced.AUTHORITY, now=NOW)

    new, kept = read_certificates((tmp_path / "ca.crt").read_bytes())
    assert kept == old
    load(tmp_path / "tls.crt").verify_directly_issued_by(old)

    rotate_certificates(tmp_path, now=NOW + timedelta(minutes=1))

    load(tmp_path / "tls.crt").verify_directly_issued_by(new)
    assert list(read_certificates((tmp_path / "ca.crt").read_bytes())) == [new, old]


def test_rotating_does_not_shorten_lives(tmp_path: Path) -> None:
    """A certificate that ends with its authority was cut short; the next one is not."""
    make_certificates(tmp_path, HOSTS, LIFETIMES, now=NOW)
    now = NOW
    for _ in range(12):
        now += timedelta(days=200)
        make_certificates(tmp_path, HOSTS, LIFETIMES, now=now)
        rotate_certificates(tmp_path, now=now)

    held = read_held(read_directory(tmp_path), now)
    assert held.leaf is not None
    assert held.problems == ()
    rotate_certificates(tmp_path, now=now)
    rotate_certificates(tmp_path, now=now)
    leaf = load(tmp_path / "tls.crt")
    assert leaf.not_valid_after_utc - now == YEAR


def test_a_set_that_can_not_be_rotated_says_why(tmp_path: Path) -> None:
    make_certificates(tmp_path, HOSTS, LIFETIMES, now=NOW)
    (tmp_path / "tls.key").unlink()

    with pytest.raises(CertificateError, match=r"tls\.key is missing.*certs make"):
        rotate_certificates(tmp_path, now=NOW)
    with pytest.raises(CertificateError, match="is no directory"):
        rotate_certificates(tmp_path / "none", now=NOW)
