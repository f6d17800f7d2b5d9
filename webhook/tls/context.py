"""The server's TLS context, and its exchange while connections are open."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from webhook.errors import SettingsError
from webhook.model.files import load_bytes

log = logging.getLogger("gatewright.tls")

# Kubernetes writes a changed Secret into a volume about once a minute; two seconds more are
# nothing, and a stat of three files costs nothing.
POLL_S = 2.0

_Stamp = tuple[tuple[int, int, int], ...]


class ServerTls:
    """
    TLS for a server whose certificate may change on disk.

    `context` is the one to listen with. Each handshake is handed to the newest good pair, so
    a change concerns new connections only and none is dropped. A changed pair that cannot be
    used is reported once, and the old one stays in use.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        client_ca: Path | None = None,
        on_change: Callable[[Sequence[x509.Certificate]], None] = lambda _: None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Load the pair. *client_ca*: a certificate that a caller presents must be signed by it.

        *on_change* is told the chain in use, leaf first, now and after each change.

        Raises:
            SettingsError: a file cannot be read, the pair does not match, or it has ended.
        """
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._on_change = on_change
        self._on_failure = on_failure
        self._stamp = self._read_stamp()
        self._current = self._load()
        self._changed_at_s = 0
        self.context = self._build()
        self.context.sni_callback = self._choose

    async def watch(self, interval_s: float = POLL_S) -> None:
        """Look for changed files until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            self.check()

    def check(self) -> None:
        """Take over changed files; it is said if they are of no use."""
        try:
            self.reload()
        except SettingsError as e:
            self._on_failure()
            log.error("changed certificate is not usable, the old one stays: %s", e)

    def reload(self) -> bool:
        """
        Take over changed files. True if a new pair is in use now, False if nothing has changed.

        Raises:
            SettingsError: what has changed can't be used, and the old pair stays.
        """
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return False
        # Before reading: a file that changes meanwhile is found at the next look.
        self._stamp = stamp
        self._current = self._load()
        self._changed_at_s = int(time.time())
        log.info("changed certificate is in use")
        return True

    def _choose(
        self, connection: ssl.SSLObject, _host: str | None, _: ssl.SSLContext
    ) -> int | None:
        # OpenSSL calls this for every handshake, with or without a server name.
        if self._is_outdated(connection):
            return ssl.AlertDescription.ALERT_DESCRIPTION_UNKNOWN_CA
        connection.context = self._current
        return None

    def _is_outdated(self, connection: ssl.SSLObject) -> bool:
        """
        Whether a caller goes on with a session of before the files in use.

        OpenSSL remembers for up to two hours that his certificate was good, and does not look at
        it again: an authority that counts no more would go on letting him in. API servers never
        go on with one.
        """
        if self._client_ca is None or not connection.session_reused:
            return False
        session = connection.session
        # Whole seconds.
        return session is None or session.time <= self._changed_at_s

    def _load(self) -> ssl.SSLContext:
        context = self._build()
        chain = self._read_chain()
        not_after = chain[0].not_valid_after_utc
        if not_after <= datetime.now(UTC):
            raise SettingsError(f"the certificate {self._certificate} ended on {not_after:%F %T}Z")
        self._on_change(chain)
        return context

    def _build(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # An older OpenSSL lets callers ask for new keys again and again, which costs them nothing.
        context.options |= ssl.OP_NO_RENEGOTIATION
        # API servers ask for h2 first; we speak HTTP/1.1 and must say so.
        context.set_alpn_protocols(["http/1.1"])
        try:
            _load_pair(context, self._certificate, self._key)
            if self._client_ca:
                context.load_verify_locations(self._client_ca)
                # Whoever presents none is refused by the routes that want one.
                context.verify_mode = ssl.CERT_OPTIONAL
                # See `_is_outdated`: of TLS 1.3 nobody is given what he could go on with.
                context.num_tickets = 0
        except (OSError, ValueError) as e:
            files = ", ".join(str(path) for path in self._files())
            raise SettingsError(f"no usable certificate in {files}: {_reason(e)}") from e
        return context

    def _read_chain(self) -> Sequence[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(load_bytes(self._certificate))
        except (OSError, ValueError) as e:
            raise SettingsError(f"{self._certificate} is not readable: {_reason(e)}") from e

    def _files(self) -> tuple[Path, ...]:
        client_ca = (self._client_ca,) if self._client_ca else ()
        return (self._certificate, self._key, *client_ca)

    def _read_stamp(self) -> _Stamp:
        """Changes when a file does, also when a link to it is turned to another one."""
        stamps = []
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:
                stamps.append((0, 0, 0))
            else:
                stamps.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(stamps)


def pair_fault(certificate: Path, key: Path) -> str:
    """
    Why TLS serves no such pair, a key that is too short say; ``""`` if it does.

    Raises:
        OSError: a file can't be read.
    """
    try:
        _load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    except (ssl.SSLError, ValueError) as e:
        return _reason(e)
    return ""


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    # An empty password: one that is asked for on a terminal would stop the server.
    context.load_cert_chain(certificate, key, password="")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "unreadable").lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "not in PEM format"
