"""
When certificates are replaced, and by what.

The next state follows from the one that is held and the time, and from nothing else: several
replicas that look at one Secret come to the same end, and one that starts later goes on where
another has stopped.

An authority is replaced in three steps, so that whoever calls us always knows the one that signed
what we serve:

1. A new one is made and joins the bundle. Its key takes the place of the old one's, so that
   nothing is signed by the old one from now on.
2. After `Lifetimes.distribution` the leaf is signed by the new one.
3. When no leaf of the old one can be in use any more, it leaves the bundle.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from cryptography import x509

from webhook.tls.held import (
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE,
    KEY,
    Held,
    bundle_pem,
    is_issued_by,
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

# Registrations follow the bundle within seconds. An hour is for a leader that is away, and for
# people who carry the bundle somewhere by hand.
_DISTRIBUTION_MAX = timedelta(hours=1)

# A certificate's times are whole seconds, cut off.
_CUT_OFF = timedelta(seconds=1)

# Of many repairs in a row. Each authority is about 700 bytes in every registration.
_AUTHORITIES_MAX = 5


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long what is made here lives."""

    leaf: timedelta = timedelta(hours=2160)
    authority: timedelta = timedelta(hours=17520)

    @property
    def distribution(self) -> timedelta:
        """
        How long an authority is in the bundle before it signs what is served.

        A sixth of a leaf's life: a leaf that is renewed after two thirds of it can wait for so long
        and still has as much left.
        """
        return min(_DISTRIBUTION_MAX, self.leaf / 6)


class Forced(Enum):
    """What is replaced although it is not due."""

    NOTHING = "nothing"
    # By the newest authority, unless that is made only now.
    LEAF = "leaf"
    AUTHORITY = "authority"


@dataclass(frozen=True, slots=True)
class Step:
    """
    What is to be held from now on.

    *data* is None where what is held stays; else *why* says for what reasons it doesn't. There is
    nothing to do before *again*. *new_authority*: callers have to be told of one.
    """

    data: Mapping[str, bytes] | None
    why: tuple[str, ...]
    again: datetime
    new_authority: bool = False


def next_step(
    held: Held,
    now: datetime,
    lifetimes: Lifetimes,
    hosts: Sequence[str],
    *,
    force: Forced = Forced.NOTHING,
    known_since: datetime | None = None,
) -> Step:
    """
    The step that is due *now* for a certificate for *hosts*.

    *known_since* is when whoever asks first saw the signer in the bundle, by the clock that tells
    *now*: a signer's own times are by the clock of another machine. None: go by them.

    What is broken is made anew, at the cost of callers who don't know the new authority yet only
    if nothing that is left can be served.

    Raises:
        ValueError: *hosts* is empty, or one is no name that a certificate can carry.
    """
    why: list[str] = []
    signer, leaf = held.signer, held.leaf
    authorities = held.authorities

    reason = _authority_is_due(held, now, force)
    if signer is None or reason:
        why.append(f"a new authority: {reason}")
        old = signer
        signer = make_ca(
            # By subject alone it could not be told from the one before.
            f"gatewright-ca-{secrets.token_hex(4)}",
            life=lifetimes.authority,
            now=now,
        )
        authorities = (signer.certificate, *authorities)
        if old is not None and leaf is not None:
            reason = "it was asked for" if force is Forced.LEAF else ""
            if _is_short(leaf, now, lifetimes):
                reason = "the one before would not last until that is known"
            if reason:
                why.append(f"a new certificate: {reason}")
                leaf = _sign(old, leaf, hosts, now, lifetimes)

    # When the signer was made by us just now, we saw it when it was made.
    known = _known_at(signer, lifetimes, known_since if signer is held.signer else None)
    reason = _leaf_is_due(leaf, signer, now, known, hosts)
    if force is Forced.LEAF and signer is held.signer:
        reason = "it was asked for"
    if leaf is None or reason:
        why.append(f"a new certificate: {reason}")
        leaf = _sign(signer, leaf, hosts, now, lifetimes)

    kept = _in_use(authorities, signer, leaf, now, lifetimes)
    if len(kept) < len(authorities) or held.leftovers:
        why.append("an authority leaves the bundle: nothing that it has signed is in use")
    again = _next_look(kept, signer, leaf, lifetimes, known)
    is_kept = signer is held.signer and leaf is held.leaf and kept == held.authorities
    if is_kept and not held.leftovers:
        return Step(None, (), again)
    data = {CA_CERTIFICATE: bundle_pem(kept), CA_KEY: signer.key_pem}
    if leaf is not held.leaf:
        data |= {CERTIFICATE: leaf.certificate_pem, KEY: leaf.key_pem}
    return Step(data, tuple(why), again, new_authority=signer is not held.signer)


def _authority_is_due(held: Held, now: datetime, force: Forced) -> str:
    """Why a new one is made; empty if it is not."""
    if held.signer is None:
        if not held.authorities:
            return "there is none"
        return f"{CA_KEY} is of no use"
    if now >= renewal_time(held.signer.certificate):
        return "two thirds of the life of the one before are over"
    return "it was asked for" if force is Forced.AUTHORITY else ""


def _leaf_is_due(
    leaf: Issued | None, signer: Issued, now: datetime, known: datetime, hosts: Sequence[str]
) -> str:
    """Why a new one is made; empty if it is not."""
    if leaf is None:
        return "there is none that can be served"
    present = _normal(certificate_hosts(leaf.certificate))
    if missing := [host for host in _normal(hosts) if host not in present]:
        return f"the one before is not for {', '.join(missing)}"
    if now < _leaf_due(leaf, signer, known):
        return ""
    if is_issued_by(leaf.certificate, signer.certificate):
        return "two thirds of the life of the one before are over"
    return "the new authority is known by now"


def _known_at(signer: Issued, lifetimes: Lifetimes, known_since: datetime | None) -> datetime:
    """From when on callers know *signer*."""
    made_at = issued_at(signer.certificate)
    return max(made_at, known_since or made_at) + _CUT_OFF + lifetimes.distribution


def _leaf_due(leaf: Issued, signer: Issued, known: datetime) -> datetime:
    if is_issued_by(leaf.certificate, signer.certificate):
        return renewal_time(leaf.certificate)
    end = leaf.certificate.not_valid_after_utc
    # One that was signed by an authority near its own end may not last for so long.
    last_call = end - (end - issued_at(leaf.certificate)) / 12
    return min(known, last_call)


def _is_short(leaf: Issued, now: datetime, lifetimes: Lifetimes) -> bool:
    return renewal_time(leaf.certificate) <= now + _CUT_OFF + lifetimes.distribution


def _sign(
    signer: Issued, before: Issued | None, hosts: Sequence[str], now: datetime, lifetimes: Lifetimes
) -> Issued:
    """
    A leaf for *hosts*, and for those of the one *before* if it lacked some of them.

    Replicas with different settings, as in the middle of an upgrade, would otherwise take their
    names from one another for ever.
    """
    wanted = _normal(hosts)
    present = _normal(certificate_hosts(before.certificate)) if before is not None else ()
    if set(wanted) - set(present):
        # One that was made elsewhere may have names that we write into none.
        wanted = (*wanted, *filter(is_host, present))
    return make_leaf(signer, wanted, life=lifetimes.leaf, now=now)


def _in_use(
    authorities: Sequence[x509.Certificate],
    signer: Issued,
    leaf: Issued,
    now: datetime,
    lifetimes: Lifetimes,
) -> tuple[x509.Certificate, ...]:
    kept = [ca for ca in authorities if now < _end_of_use(ca, signer, leaf, lifetimes)]
    # One is enough of several that vouch for the leaf.
    voucher = next((ca for ca in kept if is_issued_by(leaf.certificate, ca)), None)
    while len(kept) > _AUTHORITIES_MAX:
        oldest = [ca for ca in kept if ca not in (signer.certificate, voucher)][-1]
        kept.remove(oldest)
    return tuple(kept)


def _end_of_use(
    authority: x509.Certificate, signer: Issued, leaf: Issued, lifetimes: Lifetimes
) -> datetime:
    """Until when something that *authority* has signed may be served by somebody."""
    end = authority.not_valid_after_utc
    if authority == signer.certificate or is_issued_by(leaf.certificate, authority):
        return end
    # Its key went when the signer's came, and a replica that is cut off serves what it had then.
    return min(end, issued_at(signer.certificate) + _CUT_OFF + lifetimes.leaf)


def _next_look(
    authorities: Sequence[x509.Certificate],
    signer: Issued,
    leaf: Issued,
    lifetimes: Lifetimes,
    known: datetime,
) -> datetime:
    return min(
        renewal_time(signer.certificate),
        _leaf_due(leaf, signer, known),
        *(_end_of_use(ca, signer, leaf, lifetimes) for ca in authorities),
    )


def _normal(hosts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(normal_host, hosts)))
