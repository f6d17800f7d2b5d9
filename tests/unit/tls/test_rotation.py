from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from webhook.tls.held import Held, find_voucher, read_certificates, read_held
from webhook.tls.issue import Issued, certificate_hosts, make_ca, make_leaf
from webhook.tls.rotation import Forced, Lifetimes, Step, next_step

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTS = ("gatewright.gatewright.svc", "localhost")
USUAL = Lifetimes()
DAY = timedelta(days=1)


class Rotated:
    """A Secret's data and a clock."""

    def __init__(self, lifetimes: Lifetimes = USUAL, now: datetime = NOW) -> None:
        self.lifetimes = lifetimes
        self.now = now
        self.data: Mapping[str, bytes] = {}
        self.look()

    def look(self, hosts: tuple[str, ...] = HOSTS, force: Forced = Forced.NOTHING) -> Step:
        """Do what is due."""
        step = next_step(self.held, self.now, self.lifetimes, hosts, force=force)
        self.data = {**self.data, **(step.data or {})}
        return step

    def later(self, by: timedelta) -> Step:
        self.now += by
        return self.look()

    @property
    def held(self) -> Held:
        return read_held(self.data, self.now)

    @property
    def leaf(self) -> x509.Certificate:
        assert self.held.leaf is not None
        return self.held.leaf.certificate

    @property
    def signer(self) -> x509.Certificate:
        assert self.held.signer is not None
        return self.held.signer.certificate

    @property
    def bundle(self) -> list[x509.Certificate]:
        return list(read_certificates(self.data["ca.crt"]))


def pem(key: object) -> bytes:
    assert isinstance(key, ed25519.Ed25519PrivateKey)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


# --- the usual course ---


def test_where_nothing_is_an_authority_and_a_certificate_are_made() -> None:
    rotated = Rotated()

    assert rotated.held.problems == ()
    assert set(rotated.data) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert certificate_hosts(rotated.leaf) == HOSTS
    assert rotated.leaf.not_valid_after_utc == NOW + timedelta(hours=2160)
    assert rotated.signer.not_valid_after_utc == NOW + timedelta(hours=17520)
    for certificate in (rotated.leaf, rotated.signer):
        assert certificate.not_valid_before_utc == NOW - timedelta(hours=1)


def test_who_looks_again_finds_nothing_to_do() -> None:
    rotated = Rotated()

    step = rotated.look()

    assert (step.data, step.why) == (None, ())
    assert step.again == NOW + timedelta(days=60)


def test_after_two_thirds_of_its_life_a_certificate_is_signed_by_the_same_authority() -> None:
    rotated = Rotated()
    before = dict(rotated.data)
    assert rotated.later(60 * DAY - timedelta(seconds=1)).data is None

    step = rotated.later(timedelta(seconds=2))

    assert step.why == ("a new certificate: two thirds of the life of the one before are over",)
    assert rotated.data["tls.crt"] != before["tls.crt"]
    assert (rotated.data["ca.crt"], rotated.data["ca.key"]) == (before["ca.crt"], before["ca.key"])


def test_an_authority_is_replaced_in_steps() -> None:
    rotated = Rotated()
    old = rotated.signer
    due = NOW + timedelta(hours=17520) * 2 / 3
    # A certificate that has just been renewed has time.
    rotated.now = due - DAY
    rotated.look()
    leaf = rotated.leaf

    rotated.later(DAY + timedelta(seconds=1))
    new = rotated.signer
    assert rotated.bundle == [new, old]
    assert rotated.leaf == leaf

    assert rotated.later(timedelta(minutes=59)).data is None
    step = rotated.later(timedelta(minutes=2))
    assert step.why == ("a new certificate: the new authority is known by now",)
    assert rotated.bundle == [new, old]
    rotated.leaf.verify_directly_issued_by(new)

    # Until a replica that was cut off can't serve what it has any more.
    while rotated.now < due + timedelta(hours=2160):
        rotated.later(10 * DAY)
        assert old in rotated.bundle or rotated.now >= due + timedelta(hours=2160)
    assert rotated.bundle == [new]
    assert rotated.look().data is None


def test_a_certificate_that_would_not_last_is_signed_once_more_by_the_old_authority() -> None:
    # Both are due at the same time.
    rotated = Rotated(Lifetimes(timedelta(hours=17520), timedelta(hours=17520)))
    old = rotated.signer

    rotated.later(timedelta(hours=17520) * 2 / 3 + timedelta(seconds=1))

    assert rotated.signer != old
    rotated.leaf.verify_directly_issued_by(old)


LIFETIMES = [
    pytest.param(USUAL, id="usual"),
    pytest.param(Lifetimes(timedelta(hours=1), DAY), id="hours"),
    pytest.param(Lifetimes(timedelta(minutes=2), timedelta(minutes=5)), id="minutes"),
    pytest.param(Lifetimes(timedelta(seconds=12), timedelta(seconds=30)), id="seconds"),
    pytest.param(Lifetimes(timedelta(days=90), timedelta(days=90)), id="equal"),
]


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("lifetimes", LIFETIMES)
def test_callers_know_who_signed_whatever_bundle_they_were_told_last(
    lifetimes: Lifetimes, seed: int
) -> None:
    """
    Three lives of an authority, looked at now and then. A caller may lag behind by the time that
    is left for telling him.
    """
    chance = random.Random(seed)
    rotated = Rotated(lifetimes)
    told: list[tuple[datetime, list[x509.Certificate]]] = [(rotated.now, rotated.bundle)]
    signers, leaves = {rotated.signer}, {rotated.leaf}
    again = rotated.look().again
    while rotated.now < NOW + 3 * lifetimes.authority:
        late = chance.random() * min(timedelta(minutes=10), lifetimes.distribution / 4)
        rotated.now = max(again, rotated.now) + late
        again = rotated.look().again
        told.append((rotated.now, rotated.bundle))
        signers.add(rotated.signer)
        leaves.add(rotated.leaf)

        since = rotated.now - lifetimes.distribution
        in_force = [bundle for at, bundle in told if at >= since]
        in_force += [bundle for at, bundle in told if at < since][-1:]
        for bundle in in_force:
            lasting = [ca for ca in bundle if rotated.now < ca.not_valid_after_utc]
            assert find_voucher([rotated.leaf], lasting)
        assert rotated.now < rotated.leaf.not_valid_after_utc
        assert rotated.held.problems == ()
        assert again > rotated.now
        assert len(rotated.bundle) <= 3
    assert len(signers) >= 4
    assert len(leaves) >= 6


@pytest.mark.parametrize("lifetimes", LIFETIMES)
def test_replicas_that_look_at_the_same_moment_agree(lifetimes: Lifetimes) -> None:
    """Whoever looks after a step finds it done: no two take turns in writing."""
    rotated = Rotated(lifetimes)
    for _ in range(12):
        rotated.now = rotated.look().again
        rotated.look()
        assert rotated.look().data is None


def test_replicas_with_other_names_and_lifetimes_do_not_take_turns() -> None:
    """As in the middle of an upgrade."""
    rotated = Rotated()
    rotated.look(("other.example",))
    assert certificate_hosts(rotated.leaf) == ("other.example", *HOSTS)

    rotated.lifetimes = Lifetimes(timedelta(minutes=2), timedelta(minutes=5))

    assert rotated.look().data is None
    assert rotated.look(("other.example",)).data is None


# --- what is broken ---


def foreign_leaf() -> dict[str, bytes]:
    leaf = make_leaf(make_ca(now=NOW), HOSTS, now=NOW)
    return {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}


OTHER = make_leaf(make_ca(now=NOW), HOSTS, now=NOW)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"tls.key": OTHER.key_pem}, "tls.key does not fit tls.crt", id="other-key"),
        pytest.param({"tls.key": b""}, "tls.key is missing", id="no-key"),
        pytest.param({"tls.key": b"x"}, "tls.key holds no private key in PEM", id="broken-key"),
        pytest.param({"tls.crt": b"x"}, "tls.crt holds no certificate", id="broken-certificate"),
        pytest.param(
            foreign_leaf(), "tls.crt is signed by no authority in ca.crt", id="other-authority"
        ),
        pytest.param(
            {"tls.key": pem(ed25519.Ed25519PrivateKey.generate())},
            "tls.key is neither an EC nor an RSA key",
            id="kind-of-key",
        ),
    ],
)
def test_a_broken_certificate_is_made_anew_by_the_same_authority(
    change: dict[str, bytes], problem: str
) -> None:
    rotated = Rotated()
    bundle = rotated.bundle
    rotated.data = {**rotated.data, **change}
    assert problem in "; ".join(rotated.held.problems)
    assert rotated.held.leaf is None

    rotated.look()

    assert rotated.held.problems == ()
    assert rotated.bundle == bundle


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"ca.key": b""}, "ca.key is missing", id="missing"),
        pytest.param({"ca.key": b"x"}, "ca.key holds no private key", id="broken"),
        pytest.param({"ca.key": OTHER.key_pem}, "ca.key fits no authority in ca.crt", id="other"),
    ],
)
def test_a_lost_key_of_an_authority_costs_no_call(change: dict[str, bytes], problem: str) -> None:
    """A new authority comes in as in every rotation, while the certificate is served on."""
    rotated = Rotated()
    (old,), leaf = rotated.bundle, rotated.leaf
    rotated.data = {**rotated.data, **change}
    assert problem in "; ".join(rotated.held.problems)

    step = rotated.look()

    assert step.why == ("a new authority: ca.key is of no use",)
    assert rotated.bundle == [rotated.signer, old]
    assert rotated.leaf == leaf
    rotated.later(timedelta(minutes=61))
    rotated.leaf.verify_directly_issued_by(rotated.signer)


@pytest.mark.parametrize("bundle", [b"", b"x", OTHER.certificate_pem])
def test_without_a_usable_bundle_everything_is_made_anew(bundle: bytes) -> None:
    rotated = Rotated()
    rotated.data = {**rotated.data, "ca.crt": bundle}
    assert "ca.crt" in rotated.held.problems[0]

    rotated.look()

    assert rotated.held.problems == ()
    assert len(rotated.bundle) == 1


def test_what_has_ended_is_made_anew() -> None:
    rotated = Rotated()
    rotated.now += timedelta(days=3 * 365)
    assert "the authority in ca.crt ended on 2028-02-29 12:00:00Z" in rotated.held.problems

    rotated.look()

    assert rotated.held.problems == ()
    assert len(rotated.bundle) == 1


def test_near_its_end_an_authority_is_not_waited_for() -> None:
    """Nobody was there for long: the certificate can't last until the new authority is known."""
    rotated = Rotated()
    rotated.now += timedelta(hours=17520) - timedelta(minutes=30)
    rotated.look()
    while rotated.now < NOW + timedelta(hours=17520):
        assert rotated.now < rotated.leaf.not_valid_after_utc
        rotated.later(timedelta(minutes=1))

    rotated.leaf.verify_directly_issued_by(rotated.signer)


def test_a_clock_that_is_behind_mends_nothing() -> None:
    """It would make a certificate that is old to everybody else, who would make another one."""
    rotated = Rotated()
    rotated.now -= timedelta(hours=2)

    assert "do the machines' clocks agree?" in "; ".join(rotated.held.problems)
    assert rotated.look().data is None


def test_repairs_in_a_row_do_not_let_the_bundle_grow() -> None:
    rotated = Rotated()
    leaf = rotated.leaf
    for _ in range(20):
        rotated.data = {**rotated.data, "ca.key": b""}
        rotated.look()

    assert len(rotated.bundle) == 5
    assert rotated.leaf == leaf
    assert find_voucher([leaf], rotated.bundle)


def test_a_certificate_below_an_intermediate_one_is_accepted() -> None:
    """As others make them; ours never are."""
    root, chain = build_chain()

    assert find_voucher(chain, [root.certificate]) == root.certificate
    assert find_voucher(chain[:1], [root.certificate]) is None
    assert find_voucher(chain, [make_ca().certificate]) is None


def build_chain() -> tuple[Issued, list[x509.Certificate]]:
    root, between = make_ca("root"), make_ca("between")
    signed = (
        x509.CertificateBuilder()
        .subject_name(between.certificate.subject)
        .issuer_name(root.certificate.subject)
        .public_key(between.certificate.public_key())
        .serial_number(1)
        .not_valid_before(between.certificate.not_valid_before_utc)
        .not_valid_after(between.certificate.not_valid_after_utc)
        .sign(root.key, between.certificate.signature_hash_algorithm)  # type: ignore[arg-type]  # SHA-256
    )
    return root, [make_leaf(between, HOSTS).certificate, signed]


# --- what is asked for ---


def test_a_certificate_that_is_asked_for_is_signed_by_the_newest_authority() -> None:
    rotated = Rotated()
    rotated.look(force=Forced.AUTHORITY)

    rotated.look(force=Forced.LEAF)

    rotated.leaf.verify_directly_issued_by(rotated.signer)


def test_asking_for_a_certificate_when_the_authority_is_due_keeps_the_order() -> None:
    rotated = Rotated()
    old = rotated.signer
    rotated.now += timedelta(hours=17520) * 2 / 3 - DAY
    rotated.look()
    leaf = rotated.leaf
    rotated.now += 2 * DAY

    rotated.look(force=Forced.LEAF)

    assert rotated.leaf != leaf
    rotated.leaf.verify_directly_issued_by(old)
    assert rotated.bundle == [rotated.signer, old]


def test_a_certificate_for_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one host"):
        next_step(Held(), NOW, USUAL, ())
