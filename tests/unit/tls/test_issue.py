from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from webhook.tls.issue import certificate_hosts, issued_at, make_ca, make_leaf, renewal_time

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


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


@pytest.mark.parametrize("life", [timedelta(days=30), timedelta(hours=2), timedelta(seconds=40)])
def test_renewal_is_due_after_two_thirds_of_the_life(life: timedelta) -> None:
    """Of the life after it was made: what lies before that is for clocks that are behind."""
    leaf = make_leaf(make_ca(now=NOW), ["localhost"], life=life, now=NOW)

    assert issued_at(leaf.certificate) == NOW
    due = renewal_time(leaf.certificate)
    assert abs(due - (NOW + life * 2 / 3)) < timedelta(milliseconds=1)


def test_what_lives_for_less_than_an_hour_is_backdated_by_as_much() -> None:
    life = timedelta(minutes=2)
    ca = make_ca(life=life, now=NOW)

    for issued in (ca, make_leaf(ca, ["localhost"], life=life, now=NOW)):
        assert issued.certificate.not_valid_before_utc == NOW - life


@pytest.mark.parametrize("behind", [timedelta(0), timedelta(minutes=5), timedelta(minutes=59)])
def test_a_verifier_whose_clock_is_behind_accepts_a_new_pair(behind: timedelta) -> None:
    ca = make_ca(now=NOW)
    host = "gatewright.gatewright.svc"
    leaf = make_leaf(ca, [host, "gatewright", "gatewright.gatewright"], now=NOW)

    builder = PolicyBuilder().store(Store([ca.certificate])).time(NOW - behind)
    chain = builder.build_server_verifier(x509.DNSName(host)).verify(leaf.certificate, [])

    assert chain == [leaf.certificate, ca.certificate]
